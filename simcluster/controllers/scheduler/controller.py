"""The scheduler: gives every pod without a node the best node that fits, or says why none does.

Owns the loop and its writes (binding, PodScheduled condition, events); which node fits is decided beside it.
"""

from __future__ import annotations

import asyncio
import logging

from simcluster.api.port import ApiError, Client, Object
from simcluster.controllers import clock, fields
from simcluster.controllers.events import EventRecorder
from simcluster.controllers.informers import Informers
from simcluster.controllers.scheduler.filters import Filters
from simcluster.controllers.scheduler.podinfo import NodeInfo, PodInfo, pod_info
from simcluster.controllers.scheduler.queue import SchedulingQueue, Waiting
from simcluster.controllers.scheduler.scoring import best
from simcluster.controllers.scheduler.snapshot import Snapshot
from simcluster.timing import Timing

log = logging.getLogger(__name__)
NAME = "default-scheduler"
YIELD_EVERY = 8


class Scheduler:
    """One loop over one queue; pods it has just bound count on their node before the watch tells."""

    def __init__(self, client: Client, timing: Timing, informers: Informers, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder
        self._settle_s = timing.s(0.1)
        self._snapshot = Snapshot()
        self._filters = Filters(self._snapshot)
        self._queue = SchedulingQueue(timing.s(1.0), timing.s(10.0))
        self._task: asyncio.Task[None] | None = None
        self._change: asyncio.TimerHandle | None = None
        informers.of("nodes").on_change(self._on_node)
        informers.of("pods").on_change(self._on_pod)

    def start(self) -> None:
        """Start after the informers."""
        self._task = asyncio.create_task(self._run(), name="scheduler")

    async def stop(self) -> None:
        """Stop the loop."""
        self._queue.close()
        if self._change is not None:
            self._change.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _on_node(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            if self._snapshot.put_node(new):
                self._changed()
        elif old is not None:
            self._snapshot.drop_node(fields.name(old))
            self._changed()

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                self._queue.drop(fields.uid(old))
                if self._snapshot.release(fields.uid(old)):
                    self._changed()
        elif fields.node_of(new):
            self._queue.drop(fields.uid(new))
            freed = self._snapshot.put_pod(new)
            newly_bound = old is None or not fields.node_of(old)
            if freed or (newly_bound and self._attracts(new)):
                self._changed()
        elif not self._ours(new):
            self._queue.drop(fields.uid(new))
        elif old is None or fields.spec(old) != fields.spec(new) or fields.labels(old) != fields.labels(new):
            self._queue.put(pod_info(new))
        else:
            self._queue.refresh(pod_info(new))

    @staticmethod
    def _attracts(pod: Object) -> bool:
        """A pod that others may want to be near to, for all that is known: any with labels."""
        return bool(fields.labels(pod))

    @staticmethod
    def _ours(pod: Object) -> bool:
        spec = fields.spec(pod)
        if fields.deleting(pod) or fields.terminal(pod) or spec.get("schedulingGates"):
            return False
        return bool(spec.get("schedulerName", NAME) == NAME)

    def _changed(self) -> None:
        """Look at the parked pods again soon, once for many changes."""
        if self._change is None:
            self._change = asyncio.get_running_loop().call_later(self._settle_s, self._retry_parked)

    def _retry_parked(self) -> None:
        self._change = None
        self._queue.cluster_changed()

    async def _run(self) -> None:
        handled = 0
        while True:
            waiting = await self._queue.pop()
            try:
                await self._schedule(waiting)
            except ApiError as error:
                log.info("pod %s/%s: %s", waiting.pod.namespace, waiting.pod.name, error.message)
                self._queue.park(waiting)
                self._changed()
            except (KeyError, TypeError, ValueError, AttributeError):
                # A pod in a shape nobody expected must not keep all others from their nodes.
                log.exception("pod %s/%s", waiting.pod.namespace, waiting.pod.name)
                self._queue.park(waiting)
            handled += 1
            if handled % YIELD_EVERY == 0:
                await asyncio.sleep(0)

    async def _schedule(self, waiting: Waiting) -> None:
        pod = waiting.pod
        found = self._filters.find(pod)
        if found.fitting:
            await self._bind(waiting, best(pod, found.fitting, self._snapshot.terms))
            return
        self._queue.park(waiting)
        await self._tell(waiting, found.message())

    async def _bind(self, waiting: Waiting, node: NodeInfo) -> None:
        pod = waiting.pod
        self._snapshot.assign(pod, node.name)
        try:
            await self._client.bind(pod.namespace, pod.name, node.name)
        except ApiError as error:
            self._snapshot.release(pod.uid)
            if error.code in {404, 409}:
                self._queue.drop(pod.uid)
                return
            raise
        self._queue.drop(pod.uid)
        message = f"Successfully assigned {pod.namespace}/{pod.name} to {node.name}"
        self._recorder.record_action(NAME, pod.raw, "Normal", "Scheduled", message, action="Binding")

    async def _tell(self, waiting: Waiting, message: str) -> None:
        pod = waiting.pod
        self._recorder.record_action(NAME, pod.raw, "Warning", "FailedScheduling", message, action="Scheduling")
        if waiting.message == message:
            return
        waiting.message = message
        await self._write_condition(pod, message)

    async def _write_condition(self, pod: PodInfo, message: str) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": clock.stamp(),
            "reason": "Unschedulable",
            "message": message,
        }
        body = {"status": {"conditions": [condition]}}
        try:
            await self._client.patch("pods", pod.name, body, pod.namespace, kind="strategic", subresource="status")
        except ApiError as error:
            if error.code != 404:
                raise
