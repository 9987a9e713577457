"""Tells in the queues' status how many Workloads wait and run there, what they use, and whether the queue is active.

Owns these two statuses; must not know how a Workload is admitted.
"""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.api.port import Client, Object
from simcluster.controllers import fields
from simcluster.controllers.informers import Informers
from simcluster.controllers.quantity import text_of
from simcluster.controllers.workloads.children import write_status
from simcluster.controllers.workqueue import WorkQueue
from simcluster.operators.kueue import quota, words
from simcluster.operators.kueue import workload as shapes
from simcluster.operators.kueue.admitting import ALL, inactive, stopped
from simcluster.timing import Timing


class Counting:
    """Writes each queue's status shortly after a change."""

    def __init__(self, client: Client, timing: Timing, informers: Informers) -> None:
        self._client = client
        self._settle_s = timing.s(0.5)
        self._queue: WorkQueue[str] = WorkQueue(
            self._look, title="kueue-status", retry_first_s=timing.s(0.5), retry_max_s=timing.s(10.0)
        )
        self._workloads = informers.of(words.WORKLOADS)
        self._queues = informers.of(words.CLUSTER_QUEUES)
        self._local_queues = informers.of(words.LOCAL_QUEUES)
        self._flavors = informers.of(words.FLAVORS)
        for informer in (self._workloads, self._queues, self._local_queues, self._flavors):
            informer.on_change(self._on_change)

    def start(self) -> None:
        """Start after the informers."""
        self._queue.start()

    async def stop(self) -> None:
        """Stop counting."""
        await self._queue.stop()

    def _on_change(self, _old: Object | None, _new: Object | None) -> None:
        self._queue.add_after(ALL, self._settle_s)

    async def _look(self, _key: str) -> None:
        workloads = list(self._workloads.items.values())
        flavors = {name for _, name in self._flavors.items}
        for queue in list(self._queues.items.values()):
            await write_status(self._client, words.CLUSTER_QUEUES, queue, self._of_queue(queue, workloads, flavors))
        for local in list(self._local_queues.items.values()):
            await write_status(self._client, words.LOCAL_QUEUES, local, self._of_local(local, workloads, flavors))

    def _of_queue(self, queue: Object, workloads: Sequence[Object], flavors: set[str]) -> Object:
        name = fields.name(queue)
        locals_here = {key for key, local in self._local_queues.items.items() if _target(local) == name}
        why = inactive(queue, flavors)
        active = (True, "Ready", "Can admit new workloads") if why is None else (False, *why)
        mine = [each for each in workloads if _queue_key(each) in locals_here]
        holding = [each for each in workloads if _holds_in(each, name)]
        used = quota.used_in(name, workloads)
        return {
            **shapes.with_conditions(queue, {"Active": active}),
            **_counts(mine, holding),
            "flavorsReservation": _flavors(queue, used),
            "flavorsUsage": _flavors(queue, used),
        }

    def _of_local(self, local: Object, workloads: Sequence[Object], flavors: set[str]) -> Object:
        queue = self._queues.items.get(("", _target(local)))
        active = (True, "Ready", "Can submit new workloads to localQueue")
        if stopped(local):
            active = (False, "Stopped", "Can't submit new workloads to clusterQueue")
        elif queue is None:
            active = (False, "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue")
        elif inactive(queue, flavors) is not None:
            active = (False, "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue")
        mine = [each for each in workloads if _queue_key(each) == fields.key(local)]
        holding = [each for each in mine if shapes.holds_quota(each)]
        status = {**shapes.with_conditions(local, {"Active": active}), **_counts(mine, holding)}
        if queue is not None:
            used = quota.used_in(_target(local), holding)
            status |= {"flavorsReservation": _flavors(queue, used, borrowed=False)}
            status |= {"flavorUsage": _flavors(queue, used, borrowed=False)}
        return status


def _target(local: Object) -> str:
    return str(fields.spec(local).get("clusterQueue") or "")


def _queue_key(workload: Object) -> tuple[str, str]:
    return fields.namespace(workload), str(fields.spec(workload).get("queueName") or "")


def _holds_in(workload: Object, queue: str) -> bool:
    return shapes.holds_quota(workload) and shapes.admission_of(workload).get("clusterQueue") == queue


def _counts(mine: Sequence[Object], holding: Sequence[Object]) -> dict[str, int]:
    return {
        "pendingWorkloads": sum(shapes.waits(each) for each in mine),
        "reservingWorkloads": len(holding),
        "admittedWorkloads": sum(shapes.is_true(each, words.ADMITTED) for each in holding),
    }


def _flavors(queue: Object, used: quota.Usage, *, borrowed: bool = True) -> list[Object]:
    found: dict[str, list[Object]] = {}
    for flavor, resource in quota.nominal(queue):
        total = text_of(resource, used.get((flavor, resource), 0))
        more = {"borrowed": "0"} if borrowed else {}
        found.setdefault(flavor, []).append({"name": resource, "total": total, **more})
    return [{"name": flavor, "resources": resources} for flavor, resources in found.items()]
