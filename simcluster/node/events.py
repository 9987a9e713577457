"""Events about pods and nodes, counted up instead of repeated (golden 28: at most 25 in a burst about one object).

Owns names, aggregation and the rate limit. It must not know why something is reported.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass

from simcluster.api.port import ApiError, Client, Object
from simcluster.node.clock import now
from simcluster.timing import Timing

_BURST = 25
_REFILL_S = 300.0
_log = logging.getLogger(__name__)


@dataclass
class _Known:
    name: str
    count: int


class EventRecorder:
    """Writes events in the background and in order; losing one is logged and never an error."""

    def __init__(self, client: Client, timing: Timing, node: str) -> None:
        self._client = client
        self._timing = timing
        self._node = node
        self._known: dict[tuple[str, ...], _Known] = {}
        self._tokens: dict[str, tuple[float, float]] = {}
        self._queue: asyncio.Queue[tuple[Object, tuple[str, ...]]] = asyncio.Queue()
        self._writer: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Drop what is not written yet."""
        if self._writer is not None:
            self._writer.cancel()

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._tokens.pop(uid, None)
        for key in [key for key in self._known if key[0] == uid]:
            del self._known[key]

    def emit(self, about: Object, kind: str, reason: str, message: str, path: str = "") -> None:
        """Report on a pod (or node); `kind` is Normal or Warning, `path` as spec.containers{c}."""
        metadata = about["metadata"]
        uid = str(metadata.get("uid", metadata["name"]))
        if not self._allowed(uid):
            return
        reference = {
            "kind": about.get("kind", "Pod"),
            "apiVersion": "v1",
            "name": metadata["name"],
            "uid": uid,
            **({"namespace": metadata["namespace"]} if "namespace" in metadata else {}),
            **({"resourceVersion": metadata["resourceVersion"]} if "resourceVersion" in metadata else {}),
            **({"fieldPath": path} if path else {}),
        }
        stamp = now()
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{metadata['name']}.{time.time_ns():x}",
                "namespace": metadata.get("namespace", "default"),
            },
            "involvedObject": reference,
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": "kubelet", "host": self._node},
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
            "eventTime": None,
            "reportingComponent": "kubelet",
            "reportingInstance": self._node,
        }
        self._queue.put_nowait((event, (uid, kind, reason, message, path)))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write(), name=f"events-{self._node}")

    def _allowed(self, uid: str) -> bool:
        moment = time.monotonic()
        tokens, since = self._tokens.get(uid, (float(_BURST), moment))
        tokens = min(float(_BURST), tokens + (moment - since) / self._timing.s(_REFILL_S))
        self._tokens[uid] = (tokens - 1 if tokens >= 1 else tokens, moment)
        return tokens >= 1

    async def _write(self) -> None:
        while not self._queue.empty():
            event, key = self._queue.get_nowait()
            try:
                await self._write_one(event, key)
            except ApiError as error:
                _log.debug("event %s lost: %s", event["reason"], error)

    async def _write_one(self, event: Object, key: tuple[str, ...]) -> None:
        namespace = event["metadata"]["namespace"]
        known = self._known.get(key)
        if known is not None:
            body = {"count": known.count + 1, "lastTimestamp": event["lastTimestamp"]}
            await self._client.patch("events", known.name, body, namespace)
            known.count += 1
            return
        await self._client.create("events", event, namespace)
        self._known[key] = _Known(event["metadata"]["name"], 1)
