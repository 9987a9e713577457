"""What becomes of a JobSet when a child Job has failed: its failure policy.

Owns that decision. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from simcluster.api.port import Object
from simcluster.controllers import fields
from simcluster.operators.jobset import words
from simcluster.operators.jobset.family import Family


@dataclass(frozen=True)
class Verdict:
    """`fails`, or all Jobs are made anew, which `counts` towards the most that are allowed; both in words."""

    fails: bool
    counts: bool
    reason: str
    message: str


def verdict(jobset: Object, family: Family, *, never_restarts: bool = False) -> Verdict:
    """For a JobSet with a failed Job. An operator that `never_restarts` acts as if no restart were allowed."""
    policy = fields.spec(jobset).get("failurePolicy")
    if policy is None:
        return _fails("FailedJobs", "jobset failed due to one or more job failures", _first(family.failed))
    action, job = _action(policy, family.failed)
    if action == "FailJobSet":
        return _fails("FailJobSetFailurePolicyAction", "applying FailJobSet failure policy action", job)
    counts = action == "RestartJobSet"
    most = 0 if never_restarts else int(policy.get("maxRestarts") or 0)
    if never_restarts or (counts and int(fields.status(jobset).get("restartsCountTowardsMax") or 0) >= most):
        return _fails("ReachedMaxRestarts", "jobset failed due to reaching max number of restarts", job)
    told = _told(f"applying {action} failure policy action", job)
    return Verdict(fails=False, counts=counts, reason=f"{action}FailurePolicyAction", message=told)


def _action(policy: dict[str, Any], failed: list[Object]) -> tuple[str, Object]:
    """The action of the first rule that a failed Job meets, and that Job; without one, a restart."""
    for rule in policy.get("rules") or ():
        met = [job for job in failed if _meets(rule, job)]
        if met:
            return str(rule["action"]), _first(met)
    return "RestartJobSet", _first(failed)


def _meets(rule: dict[str, Any], job: Object) -> bool:
    reasons, targets = rule.get("onJobFailureReasons"), rule.get("targetReplicatedJobs")
    if reasons and (fields.condition(job, "Failed") or {}).get("reason") not in reasons:
        return False
    return not targets or fields.labels(job).get(words.REPLICATED_JOB) in targets


def _first(jobs: list[Object]) -> Object:
    """The Job that failed first."""
    return min(jobs, key=lambda job: (fields.condition(job, "Failed") or {}).get("lastTransitionTime") or "")


def _told(message: str, job: Object) -> str:
    return f"{message} (first failed job: {fields.name(job)})"


def _fails(reason: str, message: str, job: Object) -> Verdict:
    return Verdict(fails=True, counts=False, reason=reason, message=_told(message, job))
