"""The scheduler: gives every pod without a node the best node that fits, or says why none does.

Owns the loop and its writes (binding, PodScheduled condition, events); which node fits is decided beside it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from simcluster.api.port import ApiError, Client, Object
from simcluster.controllers import clock, fields
from simcluster.controllers.events import EventRecorder
from simcluster.controllers.informers import Informers
from simcluster.controllers.requests import delete_if_there, pod_condition, set_pod_status
from simcluster.controllers.scheduler.filters import Filters, Found
from simcluster.controllers.scheduler.podinfo import NodeInfo, PodInfo, pod_info
from simcluster.controllers.scheduler.preemption import cheapest, may_preempt
from simcluster.controllers.scheduler.queue import SchedulingQueue, Waiting
from simcluster.controllers.scheduler.scoring import best
from simcluster.controllers.scheduler.snapshot import Snapshot
from simcluster.controllers.scheduler.volumes import PodVolumes
from simcluster.controllers.workqueue import UNEXPECTED_SHAPE
from simcluster.timing import Timing

log = logging.getLogger(__name__)
NAME = "default-scheduler"
YIELD_EVERY = 8
PREEMPTING = "default-scheduler: preempting to accommodate a higher priority pod"


Hold = Callable[[PodInfo, Snapshot, Filters], str]
"""Why a pod has to wait whatever room there is, "" where it need not."""


class Scheduler:
    """One loop over one queue; pods it has just bound count on their node before the watch tells.

    It takes the pods that name it. What another scheduler of the same cluster binds it hears of from the API only.
    """

    def __init__(
        self,
        client: Client,
        timing: Timing,
        informers: Informers,
        recorder: EventRecorder,
        *,
        name: str = NAME,
        hold: Hold | None = None,
    ) -> None:
        self._name, self._hold = name, hold
        self._client = client
        self._recorder = recorder
        self._settle_s = timing.s(0.1)
        self._repeat_s = timing.s(5.0)
        self._snapshot = Snapshot()
        self._filters = Filters(self._snapshot)
        self._queue = SchedulingQueue(timing.s(1.0), timing.s(10.0))
        self._volumes = PodVolumes(client, informers, self._changed)
        self._volume_patience_s = timing.s(600.0)
        self._binding: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._change: asyncio.TimerHandle | None = None
        informers.of("nodes").on_change(self._on_node)
        informers.of("pods").on_change(self._on_pod)
        self._pods = informers.of("pods").items

    def start(self) -> None:
        """Start after the informers."""
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        """Stop the loop."""
        self._queue.close()
        if self._change is not None:
            self._change.cancel()
        tasks = [*self._binding, *([self._task] if self._task is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

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
                self._snapshot.withdraw(fields.uid(old))
                if self._snapshot.release(fields.uid(old)):
                    self._changed()
        elif fields.node_of(new):
            self._queue.drop(fields.uid(new))
            freed = self._snapshot.put_pod(new)
            newly_bound = old is None or not fields.node_of(old)
            if freed or (newly_bound and self._queue.someone_follows_others()):
                self._changed()
        elif not self._ours(new):
            self._queue.drop(fields.uid(new))
        elif old is None or fields.spec(old) != fields.spec(new) or fields.labels(old) != fields.labels(new):
            self._queue.put(pod_info(new))
        else:
            self._queue.refresh(pod_info(new))

    def _ours(self, pod: Object) -> bool:
        spec = fields.spec(pod)
        if fields.deleting(pod) or fields.terminal(pod) or spec.get("schedulingGates"):
            return False
        return bool(spec.get("schedulerName", NAME) == self._name)

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
            except UNEXPECTED_SHAPE:
                # A pod in a shape nobody expected must not keep all others from their nodes.
                log.exception("pod %s/%s", waiting.pod.namespace, waiting.pod.name)
                self._queue.park(waiting)
            handled += 1
            if handled % YIELD_EVERY == 0:
                await asyncio.sleep(0)

    async def _schedule(self, waiting: Waiting) -> None:
        pod = waiting.pod
        obstacle = self._volumes.obstacle(pod) if pod.spec.get("volumes") else None
        if obstacle is not None:
            self._queue.park(waiting)
            await self._tell(waiting, f"0/{len(self._snapshot.nodes)} nodes are available: {obstacle}. not found")
            return
        if self._hold is not None:
            why = self._hold(pod, self._snapshot, self._filters)
            if why:
                self._queue.park(waiting)
                await self._tell(waiting, why)
                return
            # Others that were held may go now, too.
            self._changed()
        found = self._filters.find(pod, self._volumes.refusal if pod.spec.get("volumes") else None)
        if not found.fitting:
            self._queue.park(waiting)
            room = await self._make_room(waiting, found)
            await self._tell(waiting, found.message(preempting=room))
            return
        node = best(pod, found.fitting, self._snapshot.terms)
        self._snapshot.assign(pod, node.name)
        if pod.spec.get("volumes") and self._volumes.unbound(pod):
            self._queue.drop(pod.uid)
            task = asyncio.create_task(self._bind_with_volumes(waiting, node), name=f"volumes of {pod.name}")
            self._binding.add(task)
            task.add_done_callback(self._binding.discard)
            return
        await self._bind(waiting, node)

    async def _make_room(self, waiting: Waiting, found: Found) -> bool:
        """Send pods of lower priority away where that helps; whether room is being made."""
        pod = waiting.pod
        never = pod.spec.get("preemptionPolicy") == "Never"
        if never or not found.preemptible or pod.priority <= self._snapshot.lowest_priority():
            return False
        if not may_preempt(pod, waiting.nominated, self._snapshot):
            return True
        choice = cheapest(pod, found.preemptible, self._snapshot, self._filters)
        if choice is None:
            return False
        waiting.nominated = choice.node.name
        self._snapshot.nominate(pod, choice.node.name)
        nominated = {"nominatedNodeName": choice.node.name}
        await set_pod_status(self._client, pod.raw, nominated)
        for victim in choice.victims:
            target = pod_condition("DisruptionTarget", "True", "PreemptionByScheduler", PREEMPTING)
            await set_pod_status(self._client, victim.raw, {"conditions": [target]})
            await delete_if_there(self._client, "pods", victim.raw)
            message = f"Preempted by pod {pod.uid} on node {choice.node.name}"
            self._recorder.record_action(self._name, victim.raw, "Normal", "Preempted", message, action="Preempting")
        return True

    async def _bind_with_volumes(self, waiting: Waiting, node: NodeInfo) -> None:
        pod = waiting.pod
        try:
            if await self._volumes.reserve(pod, node.name, self._volume_patience_s):
                await self._bind(waiting, node)
                return
        except ApiError as error:
            log.info("volumes of pod %s/%s: %s", pod.namespace, pod.name, error.message)
        self._snapshot.release(pod.uid)
        if (pod.namespace, pod.name) in self._pods:
            self._queue.put(pod)

    async def _bind(self, waiting: Waiting, node: NodeInfo) -> None:
        pod = waiting.pod
        try:
            await self._client.bind(pod.namespace, pod.name, node.name)
        except ApiError as error:
            self._snapshot.release(pod.uid)
            if error.code in {404, 409}:
                self._queue.drop(pod.uid)
                return
            raise
        self._queue.drop(pod.uid)
        self._snapshot.withdraw(pod.uid)
        message = f"Successfully assigned {pod.namespace}/{pod.name} to {node.name}"
        self._recorder.record_action(self._name, pod.raw, "Normal", "Scheduled", message, action="Binding")

    async def _tell(self, waiting: Waiting, message: str) -> None:
        pod = waiting.pod
        now = asyncio.get_running_loop().time()
        if waiting.message == message and now - waiting.told_at < self._repeat_s:
            return
        waiting.told_at = now
        self._recorder.record_action(self._name, pod.raw, "Warning", "FailedScheduling", message, action="Scheduling")
        if waiting.message == message:
            return
        waiting.message = message
        await self._write_condition(pod, message)

    async def _write_condition(self, pod: PodInfo, message: str) -> None:
        condition = {
            "type": "PodScheduled",
            "observedGeneration": fields.meta(pod.raw).get("generation", 1),
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
