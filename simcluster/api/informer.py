"""A local, always fresh copy of one resource, kept by list and watch.

Owns the cache and who hears of its changes. It must not know how the client reaches the API.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType

from simcluster.api.port import ApiError, Client, Object

Handler = Callable[[Object | None, Object | None], None]
"""Told (before, after): before is None for a new object, after is None for a deleted one."""

Key = tuple[str, str]

_log = logging.getLogger(__name__)


class Informer:
    """List once, watch from there, list again where the watch is too old."""

    def __init__(
        self,
        client: Client,
        resource: str,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
    ) -> None:
        self.resource = resource
        self._client = client
        self._namespace = namespace
        self._selectors = {"label_selector": label_selector, "field_selector": field_selector}
        self._items: dict[Key, Object] = {}
        self._handlers: list[Handler] = []
        self._task: asyncio.Task[None] | None = None
        self._version = ""

    @property
    def items(self) -> Mapping[Key, Object]:
        """The objects as last heard, by (namespace, name); "" is the namespace of cluster-scoped objects."""
        return MappingProxyType(self._items)

    def get(self, namespace: str, name: str) -> Object | None:
        """One object, or None."""
        return self._items.get((namespace, name))

    def on_change(self, handler: Handler) -> None:
        """Call `handler` for each change from now on; an informer that runs tells it of what it already holds."""
        self._handlers.append(handler)
        for obj in tuple(self._items.values()):
            handler(None, obj)

    async def start(self) -> None:
        """Fill the cache, then keep it fresh in the background. Raises ApiError where the first list fails."""
        await self._list()
        self._task = asyncio.create_task(self._run(), name=f"informer {self.resource}")

    async def stop(self) -> None:
        """Stop hearing of changes; the cache stays as it is."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _list(self) -> None:
        found = await self._client.list(self.resource, self._namespace, **self._selectors)
        fresh = {_key(obj): obj for obj in found.items}
        for key in [key for key in self._items if key not in fresh]:
            self._tell(self._items.pop(key), None)
        for key, obj in fresh.items():
            before = self._items.get(key)
            if before is None or before["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
                self._items[key] = obj
                self._tell(before, obj)
        self._version = found.resource_version

    async def _run(self) -> None:
        while True:
            try:
                await self._follow()
            except ApiError as error:
                if error.code != 410:
                    raise
            else:
                return
            await self._list()

    async def _follow(self) -> None:
        events = self._client.watch(self.resource, self._namespace, resource_version=self._version, **self._selectors)
        async for event in events:
            self._version = event.object["metadata"]["resourceVersion"]
            if event.type in ("ADDED", "MODIFIED"):
                key = _key(event.object)
                before = self._items.get(key)
                self._items[key] = event.object
                self._tell(before, event.object)
            elif event.type == "DELETED":
                self._tell(self._items.pop(_key(event.object), None) or event.object, None)

    def _tell(self, before: Object | None, after: Object | None) -> None:
        for handler in self._handlers:
            try:
                handler(before, after)
            except Exception:  # noqa: BLE001  # one handler's defect must not blind all the others
                _log.exception("a handler of the %s informer failed", self.resource)


def _key(obj: Object) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace") or "", metadata["name"]
