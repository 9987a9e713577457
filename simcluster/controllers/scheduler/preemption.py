"""Which pods of lower priority would have to go so that a pod fits, and on which node that costs least.

Owns the choice; must not know how pods are made to go. It tries on the snapshot and leaves it as it found it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simcluster.controllers import fields
from simcluster.controllers.scheduler.filters import Filters
from simcluster.controllers.scheduler.podinfo import NodeInfo, PodInfo
from simcluster.controllers.scheduler.snapshot import Snapshot

MOST_NODES = 100


@dataclass(frozen=True)
class Sacrifice:
    """A node and the pods that have to leave it."""

    node: NodeInfo
    victims: tuple[PodInfo, ...]

    @property
    def cost(self) -> tuple[int, int, int]:
        """Compared as Kubernetes does: the most important victim, then all of their importance, then their number."""
        priorities = [victim.priority for victim in self.victims]
        return max(priorities), sum(priorities), len(priorities)


def cheapest(pod: PodInfo, nodes: Sequence[NodeInfo], snapshot: Snapshot, filters: Filters) -> Sacrifice | None:
    """The least costly way to make room for the pod on one of these nodes, None where there is none."""
    found = []
    for node in nodes[:MOST_NODES]:
        lower = [other for other in node.pods.values() if other.priority < pod.priority]
        victims = _victims(pod, node, lower, snapshot, filters) if lower else ()
        if victims:
            found.append(Sacrifice(node, victims))
    return min(found, key=lambda each: each.cost, default=None)


def _victims(
    pod: PodInfo, node: NodeInfo, lower: Sequence[PodInfo], snapshot: Snapshot, filters: Filters
) -> tuple[PodInfo, ...]:
    for other in lower:
        snapshot.release(other.uid)
    victims: list[PodInfo] = []
    away = set(lower)
    try:
        if not filters.fits(pod, node.name):
            return ()
        # The most important ones are spared first.
        for other in sorted(lower, key=lambda each: each.priority, reverse=True):
            snapshot.assign(other, node.name)
            away.discard(other)
            if not filters.fits(pod, node.name):
                snapshot.release(other.uid)
                away.add(other)
                victims.append(other)
    finally:
        for other in away:
            snapshot.assign(other, node.name)
    return tuple(victims)


def may_preempt(pod: PodInfo, nominated: str, snapshot: Snapshot) -> bool:
    """Not while the victims of its last preemption are still leaving."""
    node = snapshot.nodes.get(nominated)
    leaving = node is not None and any(
        other.priority < pod.priority and fields.deleting(other.raw) for other in node.pods.values()
    )
    return not leaving
