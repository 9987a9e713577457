"""Owns the decision of a whole run from its verdicts; must not know a measurement, a file, a pod or a report."""

import datetime as dt
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from gpuproof.expectation import CoverAll, CoverCanary, CoverShare, Scope, Waiver
from gpuproof.limits import Limit
from gpuproof.verdict import Judgement, Verdict

MAX_REASONS = 12
"""A decision names this many reasons and counts the rest."""

MAX_NAMES = 3
"""A reason names this many subjects and counts the rest."""

Key = tuple[str, str]


class DecisionOutcome(StrEnum):
    """The answer of a whole run."""

    ACCEPTED = "ACCEPTED"
    REJECTED = "REJECTED"
    UNDECIDED = "UNDECIDED"


EXIT_CODES: Mapping[DecisionOutcome, int] = {
    DecisionOutcome.ACCEPTED: 0,
    DecisionOutcome.REJECTED: 1,
    DecisionOutcome.UNDECIDED: 3,
}
"""2 is kept for a wrong command line or configuration."""


@dataclass(frozen=True)
class PlannedSubject:
    """One check on one subject, as the profile wants it before anything has run."""

    check: str
    subject: str
    required: bool


@dataclass(frozen=True)
class VerdictLine:
    """
    One verdict as it stands in the record; `reasons` and `reason_code` explain what is not PASS.

    `held` are the ids of the limits that the subject was held to.
    """

    check: str
    subject: str
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    reason_code: str | None = None
    blocked_by: str | None = None
    held: frozenset[str] = frozenset()

    @classmethod
    def of(cls, check: str, subject: str, judgement: Judgement, blocked_by: str | None = None) -> "VerdictLine":
        """Return the line of a judgement."""
        held = frozenset(finding.limit_id for finding in judgement.findings)
        return cls(check, subject, judgement.verdict, judgement.reasons, judgement.reason_code, blocked_by, held)


@dataclass(frozen=True)
class ScopeResult:
    """What the run speaks for, whether it covered that, and if not, why."""

    text: str
    complete: bool
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Waived:
    """A waiver that took a verdict out of the decision."""

    waiver: Waiver
    verdict: Verdict

    def __str__(self) -> str:
        """Write it for the first screen of a report."""
        w = self.waiver
        return f"{w.check} on {w.subject} is {self.verdict}, waived until {w.expires} by {w.owner}: {w.reason}"


@dataclass(frozen=True)
class Decision:
    """
    The answer, with reasons in plain words (most important first), its scope and what was waived.

    `counts` holds every verdict of the plan, also those with no subject; what was planned and never judged is NOT_RUN.
    """

    outcome: DecisionOutcome
    reasons: tuple[str, ...]
    scope: str
    counts: Mapping[Verdict, int]
    waived: tuple[Waived, ...] = ()


def exit_code(outcome: DecisionOutcome) -> int:
    """Return the exit code of `gpuproof` for an outcome: 0 accepted, 1 rejected, 3 undecided."""
    return EXIT_CODES[outcome]


def decide(
    planned: Sequence[PlannedSubject],
    judged: Mapping[Key, VerdictLine],
    *,
    interrupted: bool,
    blocking_provenance: Sequence[str],
    waivers: Sequence[Waiver],
    today: dt.date,
    scope: ScopeResult,
    limits: Sequence[Limit] = (),
) -> Decision:
    """
    Decide a run: REJECTED by any required FAIL, ACCEPTED only where nothing at all stands against it.

    The plan is the denominator: a planned subject without a verdict is NOT_RUN, a verdict without a plan is ignored.
    A waiver in force takes one check on one subject out; it cannot take out every subject of a required check.
    `limits` are those of the profile: a decisive one that nobody was held to is a doubt.
    """
    lines = {(p.check, p.subject): _line(p, judged) for p in planned}
    required = {(p.check, p.subject) for p in planned if p.required}
    in_force = {(w.check, w.subject): w for w in waivers if not w.expired(today)}
    open_lines = [lines[key] for key in sorted(required) if lines[key].verdict is not Verdict.PASS]
    waived = tuple(
        Waived(in_force[line.check, line.subject], line.verdict)
        for line in open_lines
        if (line.check, line.subject) in in_force
    )
    against = [line for line in open_lines if (line.check, line.subject) not in in_force]
    failed = [line for line in against if line.verdict is Verdict.FAIL]
    doubts = [
        *(["the run was interrupted before its end"] if interrupted else []),
        *_empty_plan(required),
        *_grouped(line for line in against if line.verdict is not Verdict.FAIL),
        *_wholly_waived(required, lines, against),
        *_idle(limits, [lines[key] for key in sorted(required)], waived),
        *_scope_doubts(scope),
        *(f"the limit {why}" for why in blocking_provenance),
    ]
    notes = [*_expired_notes(waivers, against), *_idle_waivers(waivers, lines)]
    if failed:
        outcome = DecisionOutcome.REJECTED
    elif doubts:
        outcome = DecisionOutcome.UNDECIDED
    else:
        outcome = DecisionOutcome.ACCEPTED
    reasons = [*_grouped(failed), *doubts]
    if not reasons:
        reasons = [f"every required check passed: {len(required) - len(waived)} verdicts"]
        reasons += [f"{len(waived)} more did not and are waived"] if waived else []
    reasons += notes
    return Decision(outcome, _capped(reasons), scope.text, _counts(lines.values()), waived)


def judge_scope(
    scope: Scope,
    *,
    expected_nodes: int,
    visited: Mapping[str, dt.date],
    today: dt.date,
    narrowed: str | None = None,
    by_waiver: int = 0,
) -> ScopeResult:
    """
    Say what a run speaks for and whether it covered it.

    `visited` holds the day on which each node of the pool last had all its required verdicts; days in the future do not
    count. `narrowed` says how the command line cut the run down; a narrowed run never covers its scope. `by_waiver` of
    the nodes count only because of a waiver, which the text says.
    """
    pool = ", ".join(f"{key}={value}" for key, value in sorted(scope.pool.items()))
    match scope.cover:
        case CoverShare(at_least, within_days):
            # As a fraction of the decimal in the file: 0.7 of 10 nodes are 7, where floating point would ask for 8.
            wanted = math.ceil(Fraction(repr(at_least)) * expected_nodes)
            oldest = today - dt.timedelta(days=within_days)
            text = f"at least {wanted} of {expected_nodes} nodes of the pool {pool}, each within {within_days} days"
        case CoverCanary(selector, nodes):
            labels = ", ".join(f"{key}={value}" for key, value in sorted(selector.items()))
            wanted, oldest = nodes, today
            text = f"{nodes} canary nodes ({labels}) of the pool {pool}, and no other node"
        case CoverAll():
            wanted, oldest = expected_nodes, today
            text = f"all {expected_nodes} nodes of the pool {pool}"
    if by_waiver:
        text += f", {by_waiver} of them only by waiver"
    covered = sum(oldest <= day <= today for day in visited.values())
    reasons = []
    if wanted < 1 or covered < wanted:
        reasons.append(f"the scope is {text}, and {covered} of them answered every required check")
    if narrowed:
        reasons.append(f"the run was narrowed ({narrowed}), so it cannot speak for its whole scope")
    return ScopeResult(text, not reasons, tuple(reasons))


def _line(planned: PlannedSubject, judged: Mapping[Key, VerdictLine]) -> VerdictLine:
    line = judged.get((planned.check, planned.subject))
    if line is None or (line.check, line.subject) != (planned.check, planned.subject):
        return VerdictLine(planned.check, planned.subject, Verdict.NOT_RUN, ("planned and not reached",), "unvisited")
    return line


def _empty_plan(required: set[Key]) -> list[str]:
    return [] if required else ["nothing required was planned, so nothing can be accepted"]


def _wholly_waived(required: set[Key], lines: Mapping[Key, VerdictLine], against: Sequence[VerdictLine]) -> list[str]:
    """Name the required checks of which only waivers are left: they may not stand in for a whole check."""
    passed = {check for check, subject in required if lines[check, subject].verdict is Verdict.PASS}
    left = {check for check, _ in required} - passed - {line.check for line in against}
    return [f"{check} passed on no subject: every one of them is waived" for check in sorted(left)]


def _idle(limits: Sequence[Limit], lines: Sequence[VerdictLine], waived: Sequence[Waived]) -> list[str]:
    """
    Name the decisive limits of checks that passed somewhere which no subject was held to: they protected nobody.

    A limit that speaks about a waived subject is excused with it.
    """
    passed = {line.check for line in lines if line.verdict is Verdict.PASS}
    held = {limit for line in lines for limit in line.held}
    return [
        f"no subject of {limit.check} was held to the limit {limit.id} ({limit.source_file}, {limit.key})"
        for limit in limits
        if limit.decisive and limit.check in passed and limit.id not in held and not _excused(limit, waived)
    ]


def _excused(limit: Limit, waived: Sequence[Waived]) -> bool:
    return any(w.waiver.check == limit.check and limit.applies_to(w.waiver.subject) for w in waived)


def _scope_doubts(scope: ScopeResult) -> list[str]:
    if scope.complete and not scope.reasons:
        return []
    return list(scope.reasons) or [f"the scope was not covered: {scope.text}"]


def _expired_notes(waivers: Sequence[Waiver], against: Sequence[VerdictLine]) -> list[str]:
    """Name the waivers of what stands against the run: one in force would have taken it out, so they have expired."""
    still_open = {(line.check, line.subject) for line in against}
    return [
        f"the waiver of {w.owner} for {w.check} on {w.subject} expired on {w.expires}"
        for w in waivers
        if (w.check, w.subject) in still_open
    ]


def _idle_waivers(waivers: Sequence[Waiver], lines: Collection[Key]) -> list[str]:
    """Name the waivers that speak about nobody in the plan: a misspelt one would else be thought to be in force."""
    return [
        f"the waiver of {w.owner} names {w.check} on {w.subject}, which nobody planned: it has no effect"
        for w in waivers
        if (w.check, w.subject) not in lines
    ]


NOT_SELECTED = "not_selected"
"""The reason of what the command line left out."""

_IMPORTANCE = (
    Verdict.FAIL,
    Verdict.ERROR,
    Verdict.NOT_RUN,
    Verdict.RECORDED,
    Verdict.NOT_APPLICABLE,
)


def _grouped(lines: Iterable[VerdictLine]) -> list[str]:
    """Write a sentence for all subjects of a check that share a verdict and a reason, and one for what was left out."""
    groups: dict[tuple[Verdict, str, str | None, str | None], list[VerdictLine]] = {}
    left_out: list[VerdictLine] = []
    for line in lines:
        if line.reason_code == NOT_SELECTED:
            left_out.append(line)
            continue
        groups.setdefault((line.verdict, line.check, line.reason_code, line.blocked_by), []).append(line)
    ordered = sorted(groups.items(), key=lambda item: (_IMPORTANCE.index(item[0][0]), -len(item[1])))
    return [*(_sentence(members) for _, members in ordered), *_unasked(left_out)]


def _unasked(lines: Sequence[VerdictLine]) -> list[str]:
    """Write one sentence for all that the command line left out: it is one choice, not a finding a check."""
    if not lines:
        return []
    checks = list(dict.fromkeys(line.check for line in lines))
    names = ", ".join(checks[:MAX_NAMES]) + (f" and {len(checks) - MAX_NAMES} more" if len(checks) > MAX_NAMES else "")
    return [f"not selected for this run: {len(lines)} answers of {len(checks)} checks: {names}"]


def _sentence(lines: Sequence[VerdictLine]) -> str:
    first = lines[0]
    names = ", ".join(line.subject for line in lines[:MAX_NAMES])
    if len(lines) > MAX_NAMES:
        names += f" and {len(lines) - MAX_NAMES} more"
    why = first.reasons[0] if first.reasons else first.reason_code or "no reason was recorded"
    if len(lines) > 1:
        why = f"{first.subject}: {why}"
    return f"{first.check} is {first.verdict} on {names}: {why}"


def _capped(reasons: Sequence[str]) -> tuple[str, ...]:
    if len(reasons) <= MAX_REASONS:
        return tuple(reasons)
    return (*reasons[:MAX_REASONS], f"and {len(reasons) - MAX_REASONS} more reasons")


def _counts(lines: Iterable[VerdictLine]) -> dict[Verdict, int]:
    counts = dict.fromkeys(Verdict, 0)
    for line in lines:
        counts[line.verdict] += 1
    return counts
