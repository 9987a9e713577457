"""Which pods a Job should lose or gain now, or how long it has to wait before it may gain one.

Pure: owns the arithmetic of parallelism, completions and back-off; must not know how pods are made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from simcluster.controllers.job.assess import Assessment
from simcluster.controllers.job.backoff import delay_s
from simcluster.controllers.job.views import PodView

MOST_PODS_A_SYNC = 500


@dataclass(frozen=True)
class Plan:
    """Pods to delete, indexes to create (None: a pod without index), or a delay: at most one of the three."""

    delete: Sequence[PodView] = field(default_factory=tuple)
    create: Sequence[int | None] = field(default_factory=tuple)
    wait_s: float = 0.0


def plan(found: Assessment, first_delay_s: float, now: float, ended_at: Callable[[PodView], float]) -> Plan:
    """The next step of a Job whose end is not decided."""
    if found.spec.suspended:
        return Plan(delete=found.active_pods)
    terminating = found.terminating if found.spec.only_replace_failed else 0
    wanted = _wanted(found)
    surplus = _to_remove(found, max(0, found.active + terminating - wanted))
    if surplus:
        return Plan(delete=surplus[:MOST_PODS_A_SYNC])
    lacking = min(wanted - terminating - found.active, MOST_PODS_A_SYNC)
    if lacking <= 0:
        return Plan()
    if found.spec.per_index is None:
        wait_s = found.record.remaining_s(first_delay_s, now)
        if wait_s > 0:
            return Plan(wait_s=wait_s)
    if not found.spec.indexed:
        return Plan(create=[None] * lacking)
    pending = _pending_indexes(found, lacking)
    if found.spec.per_index is None:
        return Plan(create=pending)
    waits = {index: _index_wait(found, index, first_delay_s, now, ended_at) for index in pending}
    due = [index for index in pending if waits[index] <= 0]
    return Plan(create=due) if due or not waits else Plan(wait_s=min(waits.values()))


def _wanted(found: Assessment) -> int:
    spec = found.spec
    if spec.completions is None:
        return found.active if found.succeeded > 0 else spec.parallelism
    left = spec.completions - found.succeeded - len(found.failed_indexes)
    return max(0, min(left, spec.parallelism))


def _to_remove(found: Assessment, at_least: int) -> list[PodView]:
    """Duplicates of an index and indexes that are out of range go in any case; then the least advanced pods."""
    surplus: list[PodView] = []
    rest: list[PodView] = []
    seen: set[int] = set()
    for pod in sorted(found.active_pods, key=_progress, reverse=True):
        if found.spec.indexed and (not found.index_valid(pod) or pod.index in seen):
            surplus.append(pod)
        else:
            rest.append(pod)
            if pod.index is not None:
                seen.add(pod.index)
    more = max(0, at_least - len(surplus))
    return surplus + rest[len(rest) - more :] if more else surplus


def _progress(pod: PodView) -> tuple[bool, bool, int]:
    return pod.phase == "Running", pod.ready, -(pod.index or 0)


def _pending_indexes(found: Assessment, count: int) -> list[int]:
    taken = found.done | found.failed_indexes | {pod.index for pod in found.active_pods}
    if found.spec.only_replace_failed:
        taken |= {pod.index for pod in found.pods if pod.terminating}
    pending: list[int] = []
    for index in range(found.spec.completions or 0):
        if len(pending) == count:
            break
        if index not in taken:
            pending.append(index)
    return pending


def _index_wait(
    found: Assessment, index: int, first_delay_s: float, now: float, ended_at: Callable[[PodView], float]
) -> float:
    pod = found.held.get(index)
    if pod is None:
        return 0.0
    return ended_at(pod) + delay_s(first_delay_s, pod.failures + pod.ignored_failures) - now
