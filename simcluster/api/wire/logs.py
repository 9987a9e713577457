"""The log subresource: options, refusals, and the bytes of a kubelet passed on as they come.

Owns the options' rules. It must not know how a kubelet keeps logs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from aiohttp import web

from simcluster.api import errors
from simcluster.api.errors import Cause
from simcluster.api.port import ApiError, Kubelet, LogOptions, Object
from simcluster.api.wire.call import Call
from simcluster.api.wire.options import flag, integer

_FIRST_CHUNK_S = 0.1


def container_of(pod: Object, asked: str) -> str:
    """The container meant. Raises ApiError 400 where it is not clear or not there."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    main = [container["name"] for container in spec.get("containers") or []]
    known = [*main, *(c["name"] for group in ("initContainers", "ephemeralContainers") for c in spec.get(group) or [])]
    if not asked:
        if len(main) == 1:
            return str(main[0])
        shown = f"a container name must be specified for pod {name}, choose one of: [{' '.join(main)}]"
        raise errors.bad_request(shown)
    if asked not in known:
        raise errors.bad_request(f"container {asked} is not valid for pod {name}")
    return asked


def options(call: Call, pod: str) -> LogOptions:
    """The options of a request. Raises ApiError 400, 422."""
    query = call.query
    found = LogOptions(
        follow=flag(query, "follow"),
        tail_lines=integer(query, "tailLines"),
        since_seconds=integer(query, "sinceSeconds"),
        since_time=query.get("sinceTime") or None,
        limit_bytes=integer(query, "limitBytes"),
        timestamps=flag(query, "timestamps"),
        previous=flag(query, "previous"),
    )
    causes = _wrong(found, query)
    if causes:
        raise errors.invalid_kind("PodLogOptions", "", pod, causes)
    return found


def _wrong(found: LogOptions, query: Mapping[str, str]) -> list[Cause]:
    causes: list[Cause] = []
    if found.tail_lines is not None and found.tail_lines < 0:
        causes.append(errors.invalid_value("tailLines", str(found.tail_lines), "must be greater than or equal to 0"))
    if found.limit_bytes is not None and found.limit_bytes < 1:
        causes.append(errors.invalid_value("limitBytes", str(found.limit_bytes), "must be greater than 0"))
    if found.since_seconds is not None and found.since_time is not None:
        text = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        causes.append(errors.forbidden_value("[]", text))
    elif found.since_seconds is not None and found.since_seconds < 1:
        causes.append(errors.invalid_value("sinceSeconds", str(found.since_seconds), "must be greater than 0"))
    if "stream" in query and query["stream"] != "All":
        causes.append(errors.forbidden_value("stream", "may not be specified"))
    return causes


def check_started(pod: Object, container: str, wanted: LogOptions) -> None:
    """Raises ApiError 400 where the container has not started, or has no previous run."""
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    found = _status_of(status, container)
    if wanted.previous:
        if not (found.get("lastState") or {}).get("terminated"):
            raise errors.bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
        return
    state = found.get("state") or {}
    if "running" in state or "terminated" in state or (found.get("lastState") or {}).get("terminated"):
        return
    if status.get("phase") in ("Succeeded", "Failed") and not found:
        return
    reason = (state.get("waiting") or {}).get("reason") or "ContainerCreating"
    raise errors.bad_request(f'container "{container}" in pod "{name}" is waiting to start: {reason}')


def _status_of(status: Mapping[str, Any], container: str) -> Mapping[str, Any]:
    groups: Sequence[str] = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    for group in groups:
        for found in status.get(group) or []:
            if found["name"] == container:
                return dict(found)
    return {}


async def stream(call: Call, kubelet: Kubelet, pod: str, container: str, wanted: LogOptions) -> web.StreamResponse:
    """Pass on a kubelet's bytes; the answer begins at once even when the first line takes its time."""
    chunks = kubelet.logs(call.target.namespace, pod, container, wanted)
    first = asyncio.ensure_future(anext(aiter(chunks), b""))
    try:
        done, _ = await asyncio.wait({first}, timeout=_FIRST_CHUNK_S)
        if done and first.exception() is not None:
            await first
        headers = {"Content-Type": "text/plain", "Cache-Control": "no-cache, private"}
        response = web.StreamResponse(headers=headers)
        response.enable_chunked_encoding()
        await response.prepare(call.request)
        await _carry(response, first, chunks)
    finally:
        if not first.done():
            first.cancel()
        await _close(chunks)
    return response


async def _carry(response: web.StreamResponse, first: asyncio.Future[bytes], chunks: AsyncIterator[bytes]) -> None:
    try:
        chunk = await first
        if chunk:
            await response.write(chunk)
        async for chunk in chunks:
            await response.write(chunk)
    except ApiError as error:
        await response.write(error.message.encode())
    await response.write_eof()


async def _close(chunks: AsyncIterator[bytes]) -> None:
    close = getattr(chunks, "aclose", None)
    if close is not None:
        with contextlib.suppress(RuntimeError):
            await close()
