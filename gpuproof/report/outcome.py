"""Owns which decision a report may show for a record; must not decide a run (gpuproof.decision does) nor improve one.

A report only ever repeats a recorded decision or shows UNDECIDED: a torn record, one with lines missing and one that
contradicts itself are never ACCEPTED.
"""

from collections.abc import Sequence
from datetime import datetime

from gpuproof.report.events import DecisionLine, RunStarted
from gpuproof.report.view import DecisionView, SubjectView
from gpuproof.report.wording import plural, utc
from gpuproof.report.words import Decision

_EXIT_CODES: dict[Decision, int] = {"ACCEPTED": 0, "REJECTED": 1, "UNDECIDED": 3}


def decide_shown(
    line: DecisionLine | None,
    subjects: Sequence[SubjectView],
    started: RunStarted,
    last_at: datetime | None,
    gaps: Sequence[str] = (),
) -> DecisionView:
    """
    Return the decision to show: the recorded one where it stands, else UNDECIDED with the reason why.

    `gaps` say which lines of the record are missing: what they would have said could have forbidden the decision.
    """
    if line is None:
        return _unfinished(subjects, started, last_at)
    contradictions = _gap_reasons(line, gaps) + _contradictions(line, subjects)
    if contradictions:
        return DecisionView("UNDECIDED", (*contradictions, *line.reasons), line.scope or started.scope, recorded=False)
    return DecisionView(
        outcome=line.outcome,
        reasons=line.reasons,
        scope=line.scope or started.scope,
        waived=line.waived,
        exit_code=_EXIT_CODES[line.outcome],
    )


def _unfinished(subjects: Sequence[SubjectView], started: RunStarted, last_at: datetime | None) -> DecisionView:
    planned = [subject for subject in subjects if subject.planned]
    open_ = sum(not subject.answered for subject in planned)
    until = f"; its last line is of {utc(last_at)}" if last_at else ""
    reasons = [f"The run did not finish: the record holds no decision{until}."]
    if not planned:
        reasons.append("Nothing had been planned yet.")
    elif open_:
        reasons.append(f"{open_} of {plural(len(planned), 'planned answer')} have no verdict.")
    else:
        reasons.append(f"All {plural(len(planned), 'planned answer')} have a verdict, but nothing was decided.")
    failed = sum(subject.verdict == "FAIL" and subject.required and subject.waiver is None for subject in planned)
    if failed:
        reasons.append(f"{plural(failed, 'required answer')} already FAIL: a finished run would be REJECTED.")
    reasons.append("Resume the run or run it again.")
    return DecisionView("UNDECIDED", tuple(reasons), started.scope, recorded=False)


def _gap_reasons(line: DecisionLine, gaps: Sequence[str]) -> tuple[str, ...]:
    if not gaps:
        return ()
    return (f"The record says {line.outcome}, and it is not whole: {'; '.join(gaps)}.",)


def _contradictions(line: DecisionLine, subjects: Sequence[SubjectView]) -> tuple[str, ...]:
    if line.outcome != "ACCEPTED":
        return ()
    against = [s for s in subjects if s.planned and s.required and s.verdict != "PASS" and s.waiver is None]
    if against:
        first = against[0]
        more = f" (and {len(against) - 1} more)" if len(against) > 1 else ""
        what = f"{first.check} is {first.verdict} on {first.subject}{more}"
        return (f"The record contradicts itself: it says ACCEPTED, and {what}.",)
    if not any(s.planned and s.verdict == "PASS" for s in subjects):
        return ("The record contradicts itself: it says ACCEPTED, and no planned check has passed.",)
    return ()
