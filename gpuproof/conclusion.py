"""From everything that was answered about one subject to one verdict; pure, and never better than its worst answer.

Must not know how anything was asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuproof.failure import JobFailure
from gpuproof.finding import Context, Outcome
from gpuproof.limits import Limit
from gpuproof.observation import merge
from gpuproof.suite import Answer
from gpuproof.verdict import NOTHING_JUDGED, Judgement, Verdict, judge, judge_failure
from workloads.contract import Measurement


def conclude(
    check: str, subject: str, answers: Sequence[Answer], limits: Sequence[Limit], context: Context
) -> Judgement:
    """
    Judge all answers of a subject together.

    Measurements are held as one. A failure among the answers forbids PASS: where the measurements already miss a
    decisive limit the verdict is FAIL and names both, else it is what the failure deserves, with the findings so far.
    """
    measurements = [answer for answer in answers if isinstance(answer, Measurement)]
    failures = [answer for answer in answers if isinstance(answer, JobFailure)]
    if not answers:
        text = f"{check} held no answer for {subject}: it judged nothing"
        return Judgement(Verdict.ERROR, reasons=(text,), reason_code=NOTHING_JUDGED)
    held = _held(check, subject, measurements, limits, context)
    if held is not None and not failures:
        return held
    failed = judge_failure(failures[0])
    if held is None:
        return failed
    missed = tuple(f.text for f in held.findings if f.decisive and f.outcome is Outcome.MISSED)
    reasons = (*missed, *(failure.message for failure in failures))
    if missed:
        return Judgement(Verdict.FAIL, held.findings, reasons, held.reason_code)
    return Judgement(failed.verdict, held.findings, reasons, failed.reason_code)


def _held(
    check: str, subject: str, measurements: Sequence[Measurement], limits: Sequence[Limit], context: Context
) -> Judgement | None:
    if not measurements:
        return None
    try:
        merged = merge(measurements)
    except ValueError as error:
        return Judgement(Verdict.ERROR, reasons=(str(error),), reason_code=NOTHING_JUDGED)
    return judge(check, subject, merged, limits, context)
