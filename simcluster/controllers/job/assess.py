"""Where a Job stands: counts, indexes and whether its end is decided, from its status and its pods.

Pure: owns the judgement of Kubernetes' Job controller before it acts; must not know a client or a queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from simcluster.api.port import Object
from simcluster.controllers import fields
from simcluster.controllers.job import indexes, words
from simcluster.controllers.job.backoff import BackoffRecord
from simcluster.controllers.job.policy import Judgement, judge
from simcluster.controllers.job.views import JobSpec, PodView

TargetKind = Literal["FailureTarget", "SuccessCriteriaMet"]


@dataclass(frozen=True)
class Target:
    """The decided end of a Job, before its final condition."""

    kind: TargetKind
    reason: str
    message: str


@dataclass
class Assessment:
    """One sync's view of a Job; the counters change as the sync deletes and creates pods."""

    job: Object
    spec: JobSpec
    pods: Sequence[PodView]
    active_pods: list[PodView]
    active: int
    ready: int
    terminating: int
    succeeded: int
    record: BackoffRecord
    target: Target | None = None
    previous: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)
    failed_indexes: set[int] = field(default_factory=set)
    held: dict[int, PodView] = field(default_factory=dict)
    """Failed pods by index that stay uncounted until their replacement exists (backoffLimitPerIndex only)."""

    def pod_failed(self, pod: PodView) -> bool:
        """Whether this Job takes the pod for failed."""
        return pod.failed(only_terminal=self.spec.only_replace_failed)

    def verdict(self, pod: PodView) -> Judgement:
        """What the failure policy says of the pod."""
        return judge(self.spec.failure_rules, pod.raw)

    def index_valid(self, pod: PodView) -> bool:
        """The pod's completion index is one of the Job's."""
        return pod.index is not None and self.spec.completions is not None and pod.index < self.spec.completions

    @property
    def reached(self) -> bool:
        """Nothing more has to run."""
        if self.spec.completions is None:
            return self.succeeded > 0 and self.active == 0
        return self.succeeded + len(self.failed_indexes) >= self.spec.completions and self.active == 0


def assess(
    job: Object,
    spec: JobSpec,
    pods: Sequence[PodView],
    record: BackoffRecord,
    *,
    age_s: float | None,
    ended_at: Callable[[PodView], float],
) -> Assessment:
    """Judge the Job; `age_s` is how long it has been active (None: not started)."""
    status = fields.status(job)
    uncounted = status.get("uncountedTerminatedPods") or {}
    counted_twice = {*(uncounted.get("succeeded") or ()), *(uncounted.get("failed") or ())}
    fresh = [pod for pod in pods if pod.tracked and pod.uid not in counted_twice]
    succeeded = [pod for pod in fresh if pod.phase == "Succeeded"]
    failed = [pod for pod in fresh if pod.failed(only_terminal=spec.only_replace_failed)]
    active_pods = [pod for pod in pods if pod.active]
    found = Assessment(
        job=job,
        spec=spec,
        pods=pods,
        active_pods=active_pods,
        active=len(active_pods),
        ready=sum(pod.ready for pod in active_pods),
        terminating=sum(pod.terminating for pod in pods),
        succeeded=int(status.get("succeeded") or 0) + len(succeeded) + len(uncounted.get("succeeded") or ()),
        record=record.with_ended(succeeded, failed, ended_at),
    )
    failures = int(status.get("failed") or 0) + len(uncounted.get("failed") or ())
    failures += sum(found.verdict(pod).counts for pod in failed)
    found.target = _earlier_target(job) or _policy_target(found, failed) or _limit_target(found, failures, age_s)
    if spec.indexed and spec.completions is not None:
        _count_indexes(found, spec.completions, status)
    return found


def _earlier_target(job: Object) -> Target | None:
    for kind in ("SuccessCriteriaMet", "FailureTarget"):
        condition = fields.condition(job, kind)
        if condition is not None and condition.get("status") == "True":
            name: TargetKind = "FailureTarget" if kind == "FailureTarget" else "SuccessCriteriaMet"
            return Target(name, condition.get("reason", ""), condition.get("message", ""))
    return None


def _policy_target(found: Assessment, failed: Iterable[PodView]) -> Target | None:
    if found.spec.failure_rules is None:
        return None
    messages = (found.verdict(pod).message for pod in failed)
    message = next(filter(None, messages), None)
    return Target("FailureTarget", words.POLICY_REASON, message) if message else None


def _limit_target(found: Assessment, failures: int, age_s: float | None) -> Target | None:
    spec = found.spec
    if failures > spec.backoff_limit or _restarts_exceed(found):
        return Target("FailureTarget", *words.BACKOFF_LIMIT)
    if spec.deadline_s is not None and not spec.suspended and age_s is not None and age_s >= spec.deadline_s:
        return Target("FailureTarget", *words.DEADLINE)
    return None


def _restarts_exceed(found: Assessment) -> bool:
    if not found.spec.restart_on_failure:
        return False
    restarts = sum(pod.restarts for pod in found.pods if pod.phase in {"Running", "Pending"})
    return restarts > 0 if found.spec.backoff_limit == 0 else restarts >= found.spec.backoff_limit


def _count_indexes(found: Assessment, completions: int, status: Object) -> None:
    found.previous = indexes.parse(status.get("completedIndexes") or "", completions)
    valid = [pod for pod in found.pods if pod.tracked and found.index_valid(pod)]
    fresh = {pod.index for pod in valid if pod.phase == "Succeeded" and pod.index is not None}
    found.done = found.previous | fresh
    found.succeeded = len(found.done)
    if found.spec.per_index is None:
        return
    found.failed_indexes = indexes.parse(status.get("failedIndexes") or "", completions)
    found.failed_indexes |= {pod.index for pod in valid if pod.index is not None and _index_failed(found, pod)}
    found.failed_indexes -= found.done
    limit = found.spec.max_failed_indexes
    if found.target is None and limit is not None and len(found.failed_indexes) > limit:
        found.target = Target("FailureTarget", *words.MAX_FAILED)
    found.held = _held(found, valid)


def _index_failed(found: Assessment, pod: PodView) -> bool:
    if not found.pod_failed(pod):
        return False
    verdict = found.verdict(pod)
    if verdict.action == "FailIndex":
        return True
    return verdict.counts and found.spec.per_index is not None and pod.failures >= found.spec.per_index


def _held(found: Assessment, valid: Iterable[PodView]) -> dict[int, PodView]:
    settled = found.done | found.failed_indexes | {pod.index for pod in found.active_pods}
    held: dict[int, PodView] = {}
    for pod in valid:
        if pod.index is None or pod.index in settled or not found.pod_failed(pod):
            continue
        other = held.get(pod.index)
        if other is None or _all_failures(other) <= _all_failures(pod):
            held[pod.index] = pod
    return held


def _all_failures(pod: PodView) -> int:
    return pod.failures + pod.ignored_failures
