"""GET: one object, a list, or a watch.

Owns how reads are answered. It must not know who may read.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from simcluster.api import errors
from simcluster.api.custom import CustomKinds
from simcluster.api.kinds import Kind
from simcluster.api.port import ApiError, Object
from simcluster.api.resources import Resources
from simcluster.api.selectors import Selection
from simcluster.api.watchers import Watcher
from simcluster.api.wire import codec, lists, tables
from simcluster.api.wire.call import Call
from simcluster.api.wire.options import flag, integer

BOOKMARK_S = 60.0


class Reads:
    """Answers reads from the store."""

    def __init__(self, resources: Resources, custom: CustomKinds) -> None:
        self._resources = resources
        self._custom = custom

    def _encoder(self, call: Call, kind: Kind) -> tuple[codec.Encoder, str]:
        accept = call.accept
        if not accept or accept == codec.JSON:
            return codec.Whole(kind), codec.JSON
        include = call.query.get("includeObject", "Metadata")
        extra = [tables.custom_column(column) for column in self._custom.columns.get(kind.name, ())]
        return codec.choose(kind, accept, include, extra)

    def one(self, call: Call, kind: Kind) -> web.Response:
        """GET of an object. Raises ApiError 404, 406."""
        target = call.target
        encoder, content_type = self._encoder(call, kind)
        entry = self._resources.find(kind, target.name, target.namespace)
        return call.raw(encoder.one(entry), content_type=content_type)

    async def many(self, call: Call, kind: Kind) -> web.StreamResponse:
        """GET of a collection. Raises ApiError 400, 410, 422, 500, 504."""
        query = call.query
        selection = Selection.parse(
            kind, call.target.namespace or None, query.get("labelSelector", ""), query.get("fieldSelector", "")
        )
        encoder, content_type = self._encoder(call, kind)
        if call.target.forced_watch or flag(query, "watch"):
            return await self._watch(call, kind, selection, encoder)
        current = self._resources.store.revision.current
        page = lists.page(self._resources.collection(kind), selection, query, current)
        return call.raw(encoder.many(page.entries, page.metadata), content_type=content_type)

    async def _watch(self, call: Call, kind: Kind, selection: Selection, encoder: codec.Encoder) -> web.StreamResponse:
        query = call.query
        initial = flag(query, "sendInitialEvents")
        if "sendInitialEvents" in query and query.get("resourceVersionMatch") != "NotOlderThan":
            text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            cause = errors.forbidden_value("resourceVersionMatch", text)
            raise errors.invalid_kind("ListOptions", "meta.k8s.io", "", [cause])
        after = lists.version(query)
        current = self._resources.store.revision.current
        if initial:
            after = None
        elif "sendInitialEvents" in query and after is None:
            after = current
        try:
            watcher = self._resources.collection(kind).watch(selection, after)
        except ApiError as error:
            return await _refused(call, error, kind)
        response = await _open(call)
        try:
            marker = self._marker(kind, initial=True) if initial and flag(query, "allowWatchBookmarks") else None
            await _Stream(call, kind, encoder, watcher, self._resources).run(response, marker)
        finally:
            watcher.close()
        return response

    def _marker(self, kind: Kind, *, initial: bool) -> Object:
        return bookmark(kind, self._resources.store.revision.current, initial=initial)


def bookmark(kind: Kind, rv: int, *, initial: bool = False) -> Object:
    """The object of a BOOKMARK event."""
    metadata: Object = {"resourceVersion": str(rv)}
    if initial:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}


async def _open(call: Call) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": codec.JSON, "Cache-Control": "no-cache, private"})
    response.enable_chunked_encoding()
    await response.prepare(call.request)
    return response


async def _refused(call: Call, error: ApiError, kind: Kind) -> web.StreamResponse:
    if kind.storage == "events" or kind.name == "events":
        error = errors.expired("The resourceVersion for the provided watch is too old.")
    response = await _open(call)
    await response.write(codec.event_line("ERROR", error.body()))
    await response.write_eof()
    return response


class _Stream:
    """Carries one watch to its client until one of the two ends it."""

    def __init__(self, call: Call, kind: Kind, encoder: codec.Encoder, watcher: Watcher, resources: Resources) -> None:
        self._kind = kind
        self._encoder = encoder
        self._watcher = watcher
        self._resources = resources
        timeout = integer(call.query, "timeoutSeconds")
        loop = asyncio.get_running_loop()
        self._deadline = None if not timeout else loop.time() + timeout
        self._bookmarks = flag(call.query, "allowWatchBookmarks")

    def _patience(self) -> float | None:
        waits = [BOOKMARK_S] if self._bookmarks else []
        if self._deadline is not None:
            waits.append(max(self._deadline - asyncio.get_running_loop().time(), 0))
        return min(waits) if waits else None

    async def run(self, response: web.StreamResponse, marker: Object | None) -> None:
        """Send what comes; `marker` is the bookmark that ends the initial events."""
        loop = asyncio.get_running_loop()
        next_bookmark = loop.time() + BOOKMARK_S
        line = self._encoder.line
        if marker is not None:
            first = await self._watcher.batch(0) or []
            lines = [line(event, entry) for event, entry in first]
            await response.write(b"".join([*lines, codec.event_line("BOOKMARK", marker)]))
        while self._deadline is None or loop.time() < self._deadline:
            batch = await self._watcher.batch(self._patience())
            if batch is None:
                break
            if batch:
                await response.write(b"".join([line(event, entry) for event, entry in batch]))
            if self._bookmarks and loop.time() >= next_bookmark:
                next_bookmark = loop.time() + BOOKMARK_S
                obj = bookmark(self._kind, self._resources.store.revision.current)
                await response.write(codec.event_line("BOOKMARK", obj))
        if self._watcher.overflowed:
            error = errors.expired("too old resource version: the watcher read too slowly")
            await response.write(codec.event_line("ERROR", error.body()))
        await response.write_eof()
