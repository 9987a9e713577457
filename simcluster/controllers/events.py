"""Writes core/v1 Events as the controllers of Kubernetes do: repeats raise a count, names are object.hex.

Owns the shape and aggregation of events; must not decide when one is due.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Literal

from simcluster.api.port import ApiError, Client, Object
from simcluster.controllers import clock, fields

log = logging.getLogger(__name__)
Severity = Literal["Normal", "Warning"]
REMEMBERED = 8192


@dataclass
class _Known:
    """An event object that exists, for its next repeat."""

    name: str
    namespace: str
    count: int


class EventRecorder:
    """Takes events without waiting; one background task writes them in order, so that no sync waits for them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._queue: asyncio.Queue[Coroutine[Any, Any, None]] = asyncio.Queue()
        self._known: OrderedDict[tuple[str, ...], _Known] = OrderedDict()
        self._task: asyncio.Task[None] | None = None
        self._last_ns = 0

    def start(self) -> None:
        """Start the writer."""
        self._task = asyncio.create_task(self._write(), name="events")

    async def stop(self) -> None:
        """Stop the writer; what is not written yet is dropped."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        while not self._queue.empty():
            self._queue.get_nowait().close()

    def record(self, component: str, about: Object, severity: Severity, reason: str, message: str) -> None:
        """An event of the older shape (source, count, firstTimestamp), as all controllers but the scheduler write."""
        now = clock.stamp()
        body: Object = {
            "type": severity,
            "reason": reason,
            "message": message,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "eventTime": None,
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": "",
        }
        self._queue.put_nowait(self._emit(component, about, body, series=False))

    def record_action(
        self, component: str, about: Object, severity: Severity, reason: str, message: str, *, action: str
    ) -> None:
        """An event of the newer shape (eventTime, action, series on repeats), as the scheduler writes."""
        body: Object = {
            "type": severity,
            "reason": reason,
            "message": message,
            "firstTimestamp": None,
            "lastTimestamp": None,
            "eventTime": clock.micro_stamp(),
            "source": {},
            "reportingComponent": component,
            "reportingInstance": f"{component}-control-plane",
            "action": action,
        }
        self._queue.put_nowait(self._emit(component, about, body, series=True))

    async def _write(self) -> None:
        while True:
            pending = await self._queue.get()
            try:
                await pending
            except ApiError as error:
                # Also real events are lost where a namespace is going; nobody waits for them.
                log.debug("event lost: %s", error.message)

    async def _emit(self, component: str, about: Object, body: Object, *, series: bool) -> None:
        identity = (component, fields.uid(about), body["type"], body["reason"], body["message"])
        known = self._known.get(identity)
        if known is not None and await self._repeat(known, body, series=series):
            self._known.move_to_end(identity)
            return
        namespace = fields.namespace(about) or "default"
        name = f"{fields.name(about)}.{self._suffix()}"
        obj: Object = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": _reference(about),
            **body,
        }
        await self._client.create("events", obj, namespace)
        self._known[identity] = _Known(name, namespace, 1)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    async def _repeat(self, known: _Known, body: Object, *, series: bool) -> bool:
        known.count += 1
        change: Object
        if series:
            change = {"series": {"count": known.count, "lastObservedTime": body["eventTime"]}}
        else:
            change = {"count": known.count, "lastTimestamp": body["lastTimestamp"]}
        try:
            await self._client.patch("events", known.name, change, known.namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            return False
        return True

    def _suffix(self) -> str:
        # Names must differ even where two events fall into one tick of the clock.
        self._last_ns = max(time.time_ns(), self._last_ns + 1)
        return f"{self._last_ns:016x}"


def _reference(about: Object) -> Object:
    reference = {
        "kind": about.get("kind", ""),
        "apiVersion": about.get("apiVersion", ""),
        "name": fields.name(about),
        "uid": fields.uid(about),
        "resourceVersion": str(fields.meta(about).get("resourceVersion", "")),
    }
    if fields.namespace(about):
        reference["namespace"] = fields.namespace(about)
    return reference
