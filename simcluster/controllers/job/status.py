"""The Job's status as a sync writes it: first what is decided, then, once finalizers are gone, what is counted.

Pure: owns uncountedTerminatedPods, counters and conditions; must not know who writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Any

from simcluster.api.port import Object
from simcluster.controllers import clock, fields
from simcluster.controllers.job import indexes
from simcluster.controllers.job.assess import Assessment, Target
from simcluster.controllers.job.views import PodView

MOST_UNCOUNTED = 500
FINAL = {"FailureTarget": "Failed", "SuccessCriteriaMet": "Complete"}


@dataclass(frozen=True)
class Tracked:
    """A status to write, the pods that may lose their finalizer after it, and whether more pods wait for their turn."""

    status: Object
    release: tuple[PodView, ...]
    more: bool


def condition(kind: str, value: str, reason: str, message: str) -> Object:
    """A Job condition of now."""
    now = clock.stamp()
    return {
        "type": kind,
        "status": value,
        "lastProbeTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def with_condition(status: Object, added: Object) -> Object:
    """The status with that condition added, or put in the place of the one of its type."""
    others = list(status.get("conditions") or [])
    for position, other in enumerate(others):
        if other["type"] == added["type"]:
            others[position] = added
            break
    else:
        others.append(added)
    return {**status, "conditions": others}


def track(found: Assessment, status: Object) -> Tracked:
    """Note every pod that has ended, before its finalizer goes: so none is counted twice or never."""
    uncounted = status.get("uncountedTerminatedPods") or {}
    lists = {kind: list(uncounted.get(kind) or ()) for kind in ("succeeded", "failed")}
    known = {kind: set(uids) for kind, uids in lists.items()}
    new_done: set[int] = set()
    release: list[PodView] = []
    more = False
    for pod in sorted(found.pods, key=lambda pod: pod.phase != "Succeeded"):
        if not pod.tracked or not _may_release(found, pod):
            continue
        release.append(pod)
        if pod.phase == "Succeeded" and pod.uid not in known["failed"]:
            if found.spec.indexed:
                if pod.index is not None and found.index_valid(pod) and pod.index not in found.previous:
                    new_done.add(pod.index)
            elif pod.uid not in known["succeeded"]:
                lists["succeeded"].append(pod.uid)
        elif _counts_as_failed(found, pod) and pod.uid not in known["failed"]:
            lists["failed"].append(pod.uid)
        if len(new_done) + len(lists["succeeded"]) + len(lists["failed"]) >= MOST_UNCOUNTED:
            more = True
            break
    status = _with_counts(found, status, new_done)
    status["uncountedTerminatedPods"] = {kind: uids for kind, uids in lists.items() if uids}
    if found.target is not None and not _has(status, found.target.kind):
        status = with_condition(status, condition(found.target.kind, "True", found.target.reason, found.target.message))
    return Tracked(status, tuple(release), more)


def _may_release(found: Assessment, pod: PodView) -> bool:
    if fields.deleting(found.job) or found.target is not None or pod.phase == "Succeeded":
        return True
    if not found.pod_failed(pod):
        return False
    held = found.held.get(pod.index) if pod.index is not None else None
    return held is None or held.uid != pod.uid


def _counts_as_failed(found: Assessment, pod: PodView) -> bool:
    if found.target is None and not found.pod_failed(pod):
        return False
    if found.spec.indexed and not found.index_valid(pod):
        return False
    return found.verdict(pod).counts


def _with_counts(found: Assessment, status: Object, new_done: Set[int]) -> Object:
    changed = {**status, "active": found.active, "terminating": found.terminating, "ready": found.ready}
    if not found.active:
        changed.pop("active")
    if found.spec.indexed:
        done = found.previous | new_done
        _set(changed, "succeeded", len(done))
        _set(changed, "completedIndexes", indexes.text_of(done))
        if found.spec.per_index is not None:
            changed["failedIndexes"] = indexes.text_of(found.failed_indexes)
    return changed


def settle(status: Object, still_tracked: Set[str]) -> Object:
    """Move pods whose finalizer is gone from the lists to the counters."""
    uncounted = status.get("uncountedTerminatedPods") or {}
    changed = dict(status)
    left: dict[str, list[str]] = {}
    for kind in ("succeeded", "failed"):
        uids: list[str] = uncounted.get(kind) or []
        kept = [uid for uid in uids if uid in still_tracked]
        _set(changed, kind, int(status.get(kind) or 0) + len(uids) - len(kept))
        if kept:
            left[kind] = kept
    changed["uncountedTerminatedPods"] = left
    return changed


def finish(status: Object, target: Target | None) -> Object | None:
    """The status with its final condition, or None while something is still uncounted or terminating."""
    if target is None or status.get("uncountedTerminatedPods") or status.get("terminating"):
        return None
    final = condition(FINAL[target.kind], "True", target.reason, target.message)
    changed = with_condition(status, final)
    if target.kind == "SuccessCriteriaMet":
        changed["completionTime"] = final["lastTransitionTime"]
    return changed


def finished(job: Object) -> bool:
    """The Job has its final condition."""
    return any(_has(fields.status(job), kind) for kind in FINAL.values())


def _has(status: Object, kind: str) -> bool:
    return any(c.get("type") == kind and c.get("status") == "True" for c in _conditions(status))


def _conditions(status: Object) -> Iterable[dict[str, Any]]:
    return status.get("conditions") or ()


def _set(status: Object, name: str, value: int | str) -> None:
    if value:
        status[name] = value
    else:
        status.pop(name, None)
