"""Gives quota to Workloads, the most important and then the oldest first, and takes it from those that have to leave.

Owns when a Workload is admitted, refused or evicted; must not know owners or pods.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

from simcluster.api.port import ApiError, Client, Object
from simcluster.controllers import fields
from simcluster.controllers.events import EventRecorder
from simcluster.controllers.informers import Informers
from simcluster.controllers.matching import labels_match
from simcluster.controllers.workqueue import WorkQueue
from simcluster.operators.kueue import quota, words
from simcluster.operators.kueue import workload as shapes
from simcluster.timing import Timing

ALL = "all"


class Admitting:
    """Looks at all Workloads shortly after something changed that may matter to one of them."""

    def __init__(self, client: Client, timing: Timing, informers: Informers, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder
        self._settle_s = timing.s(0.1)
        self._queue: WorkQueue[str] = WorkQueue(
            self._look, title="kueue-admission", retry_first_s=timing.s(0.2), retry_max_s=timing.s(5.0)
        )
        self._workloads = informers.of(words.WORKLOADS)
        self._queues = informers.of(words.CLUSTER_QUEUES)
        self._local_queues = informers.of(words.LOCAL_QUEUES)
        self._flavors = informers.of(words.FLAVORS)
        self._namespaces = informers.of("namespaces")
        self._numbers = itertools.count()
        self._order: dict[str, int] = {}
        """By uid: in which order they were heard of, since creation stamps have whole seconds."""
        self._written: dict[str, Object] = {}
        """What was written and is perhaps not heard of yet: quota must not be given twice meanwhile."""
        for informer in (self._workloads, self._queues, self._local_queues, self._flavors, self._namespaces):
            informer.on_change(self._on_change)

    def start(self) -> None:
        """Start after the informers."""
        self._queue.start()

    async def stop(self) -> None:
        """Stop giving."""
        await self._queue.stop()

    def _on_change(self, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            self._written.pop(fields.uid(old), None)
            self._order.pop(fields.uid(old), None)
        self._queue.add_after(ALL, self._settle_s)

    def _newest(self) -> list[Object]:
        found = []
        for workload in self._workloads.items.values():
            self._order.setdefault(fields.uid(workload), next(self._numbers))
            written = self._written.get(fields.uid(workload))
            if written is not None and fields.version(written) > fields.version(workload):
                found.append(written)
            else:
                self._written.pop(fields.uid(workload), None)
                found.append(workload)
        return found

    async def _look(self, _key: str) -> None:
        for workload in self._newest():
            why = self._must_leave(workload)
            if why is not None:
                await self._write(workload, shapes.evicted(workload, *why))
                self._tell(workload, f"EvictedDueTo{why[0]}", why[1])
        workloads = self._newest()
        flavors = {fields.name(flavor): flavor for flavor in self._flavors.items.values()}
        used = {name: quota.used_in(name, workloads) for _, name in self._queues.items}
        blocked: set[str] = set()
        for workload in sorted(filter(shapes.waits, workloads), key=self._rank):
            await self._consider(workload, flavors, used, blocked)

    def _must_leave(self, workload: Object) -> tuple[str, str] | None:
        if not shapes.holds_quota(workload) or shapes.is_true(workload, words.EVICTED):
            return None
        if fields.spec(workload).get("active") is False:
            return words.DEACTIVATED
        local = self._local_queues.items.get((fields.namespace(workload), _queue_name(workload)))
        if local is not None and fields.spec(local).get("stopPolicy") == "HoldAndDrain":
            return words.LOCAL_QUEUE_STOPPED
        queue = self._queues.items.get(("", shapes.admission_of(workload)["clusterQueue"]))
        if queue is not None and fields.spec(queue).get("stopPolicy") == "HoldAndDrain":
            return words.QUEUE_STOPPED
        return None

    async def _consider(
        self, workload: Object, flavors: Mapping[str, Object], used: dict[str, quota.Usage], blocked: set[str]
    ) -> None:
        queue, obstacle = self._queue_of(workload, flavors)
        if queue is None:
            await self._refuse(workload, words.INADMISSIBLE, obstacle)
            return
        name = fields.name(queue)
        if name in blocked:
            return
        found = quota.assign(workload, queue, flavors, used[name])
        if isinstance(found, quota.Refused):
            if fields.spec(queue).get("queueingStrategy") == "StrictFIFO":
                blocked.add(name)
            await self._refuse(workload, words.PENDING, found.message)
            return
        await self._write(workload, shapes.reserved(workload, name, found.pod_sets))
        for key, value in found.usage.items():
            used[name][key] = used[name].get(key, 0) + value
        self._tell(workload, words.RESERVED, f"Quota reserved in ClusterQueue {name}")
        self._tell(workload, words.ADMITTED, f"Admitted by ClusterQueue {name}")

    def _rank(self, workload: Object) -> tuple[int, str, int]:
        priority = int(fields.spec(workload).get("priority") or 0)
        return -priority, str(fields.meta(workload)["creationTimestamp"]), self._order[fields.uid(workload)]

    def _queue_of(self, workload: Object, flavors: Mapping[str, Object]) -> tuple[Object | None, str]:
        """The ClusterQueue that may admit it now, or the reason why none may."""
        local_name = _queue_name(workload)
        local = self._local_queues.items.get((fields.namespace(workload), local_name))
        if local is None or fields.deleting(local):
            return None, f"LocalQueue {local_name} doesn't exist"
        if stopped(local):
            return None, f"LocalQueue {local_name} is inactive"
        name = fields.spec(local)["clusterQueue"]
        queue = self._queues.items.get(("", name))
        if queue is None or fields.deleting(queue):
            return None, f"ClusterQueue {name} doesn't exist"
        if inactive(queue, flavors) is not None:
            return None, f"ClusterQueue {name} is inactive"
        namespace = self._namespaces.items.get(("", fields.namespace(workload)))
        labels = fields.labels(namespace) if namespace is not None else {}
        if not labels_match(fields.spec(queue).get("namespaceSelector"), labels):
            return None, "Workload namespace doesn't match ClusterQueue selector"
        return queue, ""

    async def _refuse(self, workload: Object, reason: str, message: str) -> None:
        before = fields.condition(workload, words.RESERVED) or {}
        if (before.get("reason"), before.get("message")) == (reason, message):
            return
        await self._write(workload, shapes.refused(workload, reason, message))
        self._recorder.record(words.SCHEDULER, workload, "Warning", reason, message)

    async def _write(self, workload: Object, status: Object) -> None:
        try:
            written = await self._client.update(words.WORKLOADS, {**workload, "status": status}, subresource="status")
        except ApiError as error:
            if error.code != 404:
                raise
            return
        self._written[fields.uid(workload)] = written

    def _tell(self, workload: Object, reason: str, message: str) -> None:
        self._recorder.record(words.SCHEDULER, workload, "Normal", reason, message)


def stopped(queue: Object) -> bool:
    """Whether a queue takes nothing new."""
    return bool(fields.spec(queue).get("stopPolicy", "None") != "None")


def inactive(queue: Object, flavors: Iterable[str]) -> tuple[str, str] | None:
    """Reason and message of a ClusterQueue that cannot admit."""
    if stopped(queue):
        return "Stopped", "Can't admit new workloads: is stopped."
    present = set(flavors)
    named = [flavor["name"] for group in fields.spec(queue).get("resourceGroups") or () for flavor in group["flavors"]]
    missing = [name for name in named if name not in present]
    if missing:
        return "FlavorNotFound", f"Can't admit new workloads: references missing ResourceFlavor(s): {missing}."
    return None


def _queue_name(workload: Object) -> str:
    return str(fields.spec(workload).get("queueName") or "")
