"""Owns the verdict of one check on one subject; must not know a file, a pod, a report or how anything was measured."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpuproof.failure import JobFailure, Reason
from gpuproof.finding import Context, Finding, Outcome, hold
from gpuproof.limits import Limit
from workloads.contract import Measurement

__all__ = [
    "BLOCKED",
    "FAILURE_VERDICTS",
    "LIMIT_MISSED",
    "LIMIT_NOT_MEASURED",
    "NOTHING_JUDGED",
    "Context",
    "Finding",
    "Judgement",
    "Outcome",
    "Verdict",
    "blocked",
    "judge",
    "judge_failure",
]

MAX_REASONS = 8
"""A verdict names this many reasons; the findings hold all of them."""

LIMIT_MISSED = "limit_missed"
LIMIT_NOT_MEASURED = "limit_not_measured"
NOTHING_JUDGED = "nothing_judged"
BLOCKED = "blocked"


class Verdict(StrEnum):
    """What became of one check on one subject."""

    PASS = "PASS"
    FAIL = "FAIL"
    ERROR = "ERROR"
    NOT_RUN = "NOT_RUN"
    NOT_APPLICABLE = "NOT_APPLICABLE"
    RECORDED = "RECORDED"


@dataclass(frozen=True)
class Judgement:
    """A verdict with all that led to it; `reason_code` is a machine word, None for PASS and RECORDED."""

    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    reasons: tuple[str, ...] = ()
    reason_code: str | None = None


_CLUSTERS_FAULT = frozenset(
    {
        Reason.UNSCHEDULABLE,
        Reason.GPU_RUNTIME_FAILED,
        Reason.SANDBOX_FAILED,
        Reason.VOLUME_FAILED,
        Reason.ADMISSION_REFUSED,
        Reason.EVICTED,
        Reason.PREEMPTED,
        Reason.DEADLINE_EXCEEDED,
        Reason.NEVER_STARTED,
        Reason.NODE_LOST,
        Reason.NODE_NOT_READY,
        Reason.NODE_MISSING,
    }
)
_COULD_NOT_JUDGE = frozenset(
    {
        Reason.IMAGE_PULL,
        Reason.CREATE_ERROR,
        Reason.FORBIDDEN,
        Reason.QUOTA_EXCEEDED,
        Reason.NOT_ADMITTED,
        Reason.OOM_KILLED,
        Reason.NONZERO_EXIT,
        Reason.NO_MEASUREMENT,
        Reason.TRUNCATED_MEASUREMENT,
        Reason.MALFORMED_MEASUREMENT,
        Reason.WRONG_WORLD_SIZE,
        Reason.WRONG_NODE_COUNT,
        Reason.FOREIGN_MEASUREMENT,
        Reason.NODE_BUSY,
        Reason.POD_DELETED,
        Reason.HARNESS_ERROR,
        Reason.CLUSTER_UNREACHABLE,
    }
)
_NOT_REACHED = frozenset({Reason.INTERRUPTED, Reason.UNVISITED, Reason.NODE_CORDONED})

FAILURE_VERDICTS: Mapping[Reason, Verdict] = {
    **dict.fromkeys(_CLUSTERS_FAULT, Verdict.FAIL),
    **dict.fromkeys(_COULD_NOT_JUDGE, Verdict.ERROR),
    **dict.fromkeys(_NOT_REACHED, Verdict.NOT_RUN),
}
"""The verdict a failed job deserves: FAIL where the cluster is at fault, ERROR where nobody can say."""


def judge(check: str, subject: str, measurement: Measurement, limits: Sequence[Limit], context: Context) -> Judgement:
    """
    Hold every limit of the check that speaks about the subject against the measurement.

    A missed decisive limit is FAIL, a decisive limit without a sample ERROR, no limit at all ERROR. A check whose
    limits decide nothing is RECORDED where something was measured. Only a met decisive limit can give PASS.
    """
    applicable = [limit for limit in limits if limit.check == check and limit.applies_to(subject)]
    if not applicable:
        text = f"no limit of the profile speaks about {check} on {subject}: nothing was judged; add a [[limit]] for it"
        return Judgement(Verdict.ERROR, reasons=(text,), reason_code=NOTHING_JUDGED)
    return _conclude(tuple(finding for limit in applicable for finding in hold(limit, measurement, context)))


def judge_failure(failure: JobFailure) -> Judgement:
    """Return the verdict that a job without a measurement deserves; never PASS."""
    return Judgement(
        FAILURE_VERDICTS[failure.reason],
        reasons=(failure.message or f"no measurement: {failure.reason}",),
        reason_code=str(failure.reason),
    )


def blocked(blocker_check: str, blocker_verdict: Verdict) -> Judgement:
    """Return the NOT_RUN of a check whose prerequisite did not pass."""
    text = f"not run: it needs {blocker_check}, which is {blocker_verdict} here"
    return Judgement(Verdict.NOT_RUN, reasons=(text,), reason_code=BLOCKED)


def _conclude(findings: tuple[Finding, ...]) -> Judgement:
    decisive = [finding for finding in findings if finding.decisive]
    missed = [finding.text for finding in decisive if finding.outcome is Outcome.MISSED]
    absent = [finding.text for finding in decisive if finding.outcome is Outcome.NOT_MEASURED]
    if missed:
        return Judgement(Verdict.FAIL, findings, _capped(missed + absent), LIMIT_MISSED)
    if absent:
        return Judgement(Verdict.ERROR, findings, _capped(absent), LIMIT_NOT_MEASURED)
    if any(finding.outcome is Outcome.MET for finding in decisive):
        return Judgement(Verdict.PASS, findings)
    if any(finding.outcome is not Outcome.NOT_MEASURED for finding in findings):
        return Judgement(Verdict.RECORDED, findings)
    return Judgement(Verdict.ERROR, findings, _capped(finding.text for finding in findings), NOTHING_JUDGED)


def _capped(texts: Iterable[str]) -> tuple[str, ...]:
    distinct = tuple(dict.fromkeys(texts))
    if len(distinct) <= MAX_REASONS:
        return distinct
    return (*distinct[:MAX_REASONS], f"and {len(distinct) - MAX_REASONS} more")
