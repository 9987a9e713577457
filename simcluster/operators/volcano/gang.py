"""Gang scheduling: a pod of a group is held back until the group's least number of pods can all be placed.

Owns that trial, on the scheduler's own picture of the cluster, which it leaves as it found it.
"""

from __future__ import annotations

from simcluster.api.port import Object
from simcluster.controllers import fields
from simcluster.controllers.informers import Informers
from simcluster.controllers.scheduler.filters import Filters
from simcluster.controllers.scheduler.podinfo import PodInfo, pod_info
from simcluster.controllers.scheduler.scoring import best
from simcluster.controllers.scheduler.snapshot import Snapshot
from simcluster.operators.volcano import words


class Gang:
    """Asked for each pod by the scheduler that Volcano's pods name."""

    def __init__(self, informers: Informers) -> None:
        self._groups = informers.of(words.GROUPS)
        self._pods = informers.of("pods")

    def __call__(self, pod: PodInfo, snapshot: Snapshot, filters: Filters) -> str:
        """Why the pod has to wait for others, "" where it need not; a pod without a group waits for nobody."""
        name = fields.notes(pod.raw).get(words.GROUP_KEY, "")
        if not name:
            return ""
        group = self._groups.items.get((pod.namespace, name))
        if group is None:
            return f"pod group {name} not found"
        least = int(fields.spec(group).get("minMember") or 0)
        mates = [each for each in self._pods.items.values() if self._counts(each, pod.namespace, name)]
        waiting = [each for each in mates if not fields.node_of(each) and not snapshot.holds(fields.uid(each))]
        placed = len(mates) - len(waiting)
        if placed >= least:
            return ""
        room = self._trial([pod_info(each) for each in waiting], snapshot, filters)
        if placed + room >= least:
            return ""
        return (
            f"{len(waiting) - room}/{len(mates)} tasks in gang unschedulable: pod group is not ready,"
            f" {len(waiting)} Pending, {least} minAvailable"
        )

    @staticmethod
    def _counts(pod: Object, namespace: str, group: str) -> bool:
        mine = fields.namespace(pod) == namespace and fields.notes(pod).get(words.GROUP_KEY) == group
        return mine and not fields.deleting(pod) and fields.phase(pod) != "Failed"

    @staticmethod
    def _trial(pods: list[PodInfo], snapshot: Snapshot, filters: Filters) -> int:
        tried: list[str] = []
        try:
            for pod in pods:
                fitting = filters.find(pod).fitting
                if fitting:
                    snapshot.assign(pod, best(pod, fitting, snapshot.terms).name)
                    tried.append(pod.uid)
        finally:
            for uid in tried:
                snapshot.release(uid)
        return len(tried)
