"""Owns what report.html shows in which order and how much of it; must not know HTML, and changes no verdict."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuproof.report.events import AcceptanceFacts, FindingFacts, LimitFacts
from gpuproof.report.figures import DeviceTable, Figure, course, device_tables, figures
from gpuproof.report.view import CheckView, RunView, SubjectView
from gpuproof.report.wording import age, as_utc, listed, natural, number, operating_point, plural
from gpuproof.report.words import Verdict, severity

MOST_GROUPS = 12
MOST_FINDINGS_A_SUBJECT = 200
# Past this many findings of subjects that did not pass, only missed and unmeasured ones are listed.
MOST_FINDINGS = 20_000
# Values of subjects that passed, over the whole page: past them a check shows fewer rows, this many at least.
MOST_VALUES = 20_000
FEWEST_MATRIX_ROWS = 8
MOST_CALM_FIGURES = 2
MOST_UPRIGHT_SUBJECTS = 6
MOST_COLUMNS = 6
MOST_ACCEPTANCES = 4
MOST_BLOCKS = 400
MOST_GRID_ROWS = 128
MOST_ACROSS = 8
TILES_FROM = 25
MOST_DEVICE_TABLES = 12
_MANY_DIGITS = re.compile(r"(?<![\w.])\d+\.\d{7,}(?:[eE][-+]?\d+)?(?![\w.])")
_OUTCOME_RANK = {"missed": 0, "not_measured": 1}


@dataclass(frozen=True)
class Group:
    """Subjects of one check that did not pass for the same reason; `reason` is that of the first."""

    check: CheckView
    verdict: Verdict
    subjects: tuple[SubjectView, ...]
    reason: str
    waived: bool


@dataclass(frozen=True)
class GridRow:
    """One subject with its verdict per check; `worst` over all of them."""

    subject: str
    cells: tuple[SubjectView | None, ...]
    worst: Verdict


@dataclass(frozen=True)
class MatrixRow:
    """One subject that passed, with the observed values per limit."""

    subject: SubjectView
    values: tuple[str, ...]


@dataclass(frozen=True)
class CheckSection:
    """One check's part of the page."""

    check: CheckView
    attention: tuple["SubjectSection", ...]
    columns: tuple["MatrixColumn", ...]
    rows: tuple[MatrixRow, ...]
    rows_left_out: int
    figures: tuple[Figure, ...]
    course: tuple[Figure, ...]
    devices: tuple[DeviceTable, ...]

    @property
    def upright(self) -> bool:
        """Whether the values read better with a row a limit: few subjects, many limits."""
        return len(self.rows) <= MOST_UPRIGHT_SUBJECTS and len(self.columns) > len(self.rows)

    @property
    def parts(self) -> tuple[range, ...]:
        """The places of the columns, as many at a time as a screen is wide."""
        step = MOST_COLUMNS
        return tuple(range(start, min(start + step, len(self.columns))) for start in range(0, len(self.columns), step))


@dataclass(frozen=True)
class MatrixColumn:
    """One limit above the values held against it."""

    limit_id: str
    metric: str
    bound: str
    unit: str
    point: str


@dataclass(frozen=True)
class SubjectSection:
    """One subject that did not pass, what blocked it, the findings that are listed and how many are not."""

    subject: SubjectView
    blockers: tuple[SubjectView, ...]
    findings: tuple[FindingFacts, ...]
    findings_left_out: int

    @property
    def bad(self) -> tuple[FindingFacts, ...]:
        """What was missed or not measured."""
        return tuple(finding for finding in self.findings if not _met(finding))

    @property
    def good(self) -> tuple[FindingFacts, ...]:
        """What was met, or is only recorded."""
        return tuple(finding for finding in self.findings if _met(finding))


def groups(view: RunView) -> tuple[Group, ...]:
    """Return what did not pass, worst first, subjects with the same check, verdict and reason together."""
    found: dict[tuple[str, str, str, bool], list[SubjectView]] = defaultdict(list)
    checks = {check.name: check for check in view.checks}
    for subject in view.subjects:
        if not subject.passed:
            found[subject.check, subject.verdict, _signature(subject), subject.waiver is not None].append(subject)
    all_groups = [
        Group(checks[name], members[0].verdict, tuple(members), first_reason(members[0]), waived)
        for (name, _, _, waived), members in found.items()
    ]
    return tuple(sorted(all_groups, key=lambda g: (g.waived, severity(g.verdict), -len(g.subjects))))


def _signature(subject: SubjectView) -> str:
    missed = sorted({f.limit_id or f.metric or "" for f in subject.findings if f.outcome == "missed"})
    return "|".join([subject.reason_code or "", subject.blocked_by or "", *missed])


def first_reason(subject: SubjectView) -> str:
    """Return the one sentence that says why, from the verdict, the failure or the blocker."""
    if subject.reasons:
        return subject.reasons[0]
    if subject.failures:
        return subject.failures[0].message
    if subject.blocked_by:
        return f"Blocked by {subject.blocked_by}."
    return subject.reason_code or "No reason was recorded."


def grid(view: RunView) -> tuple[GridRow, ...]:
    """Return one row a subject, those that need a look first, each group in natural order."""
    cells: dict[str, dict[str, SubjectView]] = defaultdict(dict)
    for subject in view.subjects:
        cells[subject.subject][subject.check] = subject
    rows = [
        GridRow(
            subject=name,
            cells=tuple(of.get(check.name) for check in view.checks),
            worst=min((s.verdict for s in of.values()), key=severity),
        )
        for name, of in cells.items()
    ]
    return tuple(sorted(rows, key=lambda row: (not _needs_look(row), natural(row.subject))))


def _needs_look(row: GridRow) -> bool:
    return any(cell is not None and not cell.passed for cell in row.cells)


def split_grid(rows: Sequence[GridRow]) -> tuple[tuple[GridRow, ...], tuple[GridRow, ...]]:
    """Return the rows that need a look and the rows that do not."""
    return tuple(r for r in rows if _needs_look(r)), tuple(r for r in rows if not _needs_look(r))


def sections(view: RunView) -> tuple[CheckSection, ...]:
    """Return the checks, those that need a look first, under one budget of findings for the page."""
    left = MOST_FINDINGS
    share = MOST_VALUES // max(1, len(view.checks))
    made: list[CheckSection] = []
    for check in view.checks:
        attention: list[SubjectSection] = []
        for subject in sorted((s for s in check.subjects if not s.passed), key=lambda s: severity(s.verdict)):
            section = _subject_section(view, subject, left)
            left -= len(section.findings)
            attention.append(section)
        good = [subject for subject in check.subjects if subject.passed]
        columns = _columns(good, view.limits)
        most_rows = max(FEWEST_MATRIX_ROWS, share // max(1, len(columns)))
        made.append(
            CheckSection(
                check=check,
                attention=tuple(attention),
                columns=columns,
                rows=tuple(_matrix_row(subject, columns) for subject in good[:most_rows]),
                rows_left_out=max(0, len(good) - most_rows),
                figures=figures(check),
                course=course(check) if attention else course(check, MOST_CALM_FIGURES),
                devices=device_tables(check)[:MOST_DEVICE_TABLES],
            )
        )
    return tuple(sorted(made, key=lambda section: not section.attention))


def places(view: RunView) -> tuple[int, ...]:
    """Return the places of the checks in the run's order as the grid shows them: those that need a look first."""
    return tuple(sorted(range(len(view.checks)), key=lambda n: all(s.passed for s in view.checks[n].subjects)))


def _subject_section(view: RunView, subject: SubjectView, left: int) -> SubjectSection:
    ranked = sorted(subject.findings, key=lambda f: _OUTCOME_RANK.get(f.outcome, len(_OUTCOME_RANK)))
    allowed = min(MOST_FINDINGS_A_SUBJECT, max(left, 0))
    shown = ranked[:allowed]
    if not shown and ranked:
        shown = ranked[:1]
    return SubjectSection(subject, blockers(view, subject), tuple(shown), len(ranked) - len(shown))


def blockers(view: RunView, subject: SubjectView) -> tuple[SubjectView, ...]:
    """Return what stood in the way of a subject, nearest first, down to the one that nothing blocked."""
    chain: list[SubjectView] = []
    current: SubjectView | None = subject
    while current is not None and current.blocked_by is not None:
        name = current.blocked_by
        # A check of one node can be blocked by one that asks the cluster as a whole.
        current = view.find(name, current.subject) or view.find(name, "cluster")
        if current is None or current in chain or current is subject:
            break
        chain.append(current)
    return tuple(chain)


def _met(finding: FindingFacts) -> bool:
    return finding.outcome not in _OUTCOME_RANK or outcome_word(finding) == "recorded"


def outcome_word(finding: FindingFacts) -> str:
    """Return what became of a finding: what is only recorded has met nothing, whatever its bound."""
    if finding.severity == "record_only" and finding.outcome != "not_measured":
        return "recorded"
    return finding.outcome


def _columns(subjects: Iterable[SubjectView], limits: Mapping[str, LimitFacts]) -> tuple[MatrixColumn, ...]:
    first: dict[str, FindingFacts] = {}
    for subject in subjects:
        for finding in subject.findings:
            first.setdefault(_column_key(finding), finding)
    return tuple(
        MatrixColumn(
            limit_id=key,
            metric=finding.metric or key,
            bound=bound_text(finding.bound),
            unit=finding.unit or "",
            point=operating_point(limits[key].at) if key in limits else "",
        )
        for key, finding in first.items()
    )


def _column_key(finding: FindingFacts) -> str:
    return finding.limit_id or finding.metric or "finding"


def _matrix_row(subject: SubjectView, columns: Sequence[MatrixColumn]) -> MatrixRow:
    values: dict[str, list[str]] = defaultdict(list)
    for finding in subject.findings:
        values[_column_key(finding)].append(_observed(finding))
    return MatrixRow(subject, tuple(_folded(values[column.limit_id]) for column in columns))


def _observed(finding: FindingFacts) -> str:
    shown = number(finding.observed)
    if outcome_word(finding) == "recorded":
        # A bound that says so itself need not be repeated beside every value.
        return shown if bound_text(finding.bound).startswith("recorded") else f"{shown} (recorded)"
    return shown if _met(finding) else f"{shown} ({finding.outcome.replace('_', ' ')}, {finding.severity})"


def _folded(values: list[str]) -> str:
    if not values:
        # The limit does not speak about this subject: it is one of the cluster as a whole, say.
        return "-"
    if len(values) > 1 and len(set(values)) == 1:
        return f"{values[0]} (each of {len(values)})"
    return ", ".join(values)


def uncovered(view: RunView) -> tuple[str, ...]:
    """Return in plain words what the decision does not speak for: what did not run, is not required or left out."""
    said: list[str] = []
    for check in view.checks:
        open_ = [s for s in check.subjects if s.planned and s.verdict == "NOT_RUN"]
        if open_:
            names = listed([s.subject for s in open_], 3)
            said.append(f"{check.name} was not run on {plural(len(open_), 'subject')}: {names}")
        if check.facts.state not in ("required", "unknown"):
            reason = f": {check.facts.reason}" if check.facts.reason else ""
            said.append(f"{check.name} is {check.facts.state.replace('-', ' ')} by the profile{reason}")
    return tuple(said)


def last_accepted(view: RunView) -> tuple[str, ...]:
    """Return in a few lines when the nodes in scope were last accepted before this run, the longest ago first."""
    told = view.acceptances
    if told is None:
        return ("not told by this record",)
    if not told.runs:
        return ("never before: no earlier run of this cluster lay beside this one",)
    nodes: dict[str, list[str]] = defaultdict(list)
    ages: dict[str, float] = {}
    for node in view.nodes:
        if node.in_scope:
            found = told.nodes.get(node.name)
            nodes[found.run if found else ""].append(node.name)
            ages[found.run if found else ""] = _age_s(view, found)
    if not nodes:
        return ("no node was in scope",)
    longest = sorted(nodes, key=lambda run: (bool(run), -ages[run]))
    said = [_acceptance(run, nodes[run], ages[run], alone=len(nodes) == 1) for run in longest]
    return (
        *said[:MOST_ACCEPTANCES],
        *([f"and {len(said) - MOST_ACCEPTANCES} more"] if said[MOST_ACCEPTANCES:] else []),
    )


def _acceptance(run: str, names: Sequence[str], age_s: float, *, alone: bool) -> str:
    which = f"all {plural(len(names), 'node')}" if alone and len(names) > 1 else listed(names, 3)
    return f"{age(age_s)} before: {which}, in {run}" if run else f"never before: {which}"


def age_of(view: RunView, node: str) -> str:
    """Return how long before this run a node was last accepted, as in `3 days`; `never` or, untold, nothing."""
    if view.acceptances is None:
        return ""
    found = view.acceptances.nodes.get(node)
    return age(_age_s(view, found)) if found else "never"


def _age_s(view: RunView, found: AcceptanceFacts | None) -> float:
    began = view.run.started_at
    if found is None or found.at is None or began is None:
        return math.inf
    return (as_utc(began) - as_utc(found.at)).total_seconds()


def replaced_limits(view: RunView) -> tuple[LimitFacts, ...]:
    """Return the limits that a site's file put in the place of inherited ones, the weakened first."""
    found = [limit for limit in view.limits.values() if limit.replaced]
    return tuple(sorted(found, key=lambda limit: not limit.weaker))


def idle_waivers(view: RunView) -> frozenset[tuple[str, str]]:
    """Return the waivers that name nobody who was asked, by check and subject."""
    planned = {(s.check, s.subject) for s in view.subjects if s.planned}
    return frozenset((w.check, w.subject) for w in view.waivers if (w.check, w.subject) not in planned)


def bound_text(bound: Any) -> str:
    """Return a limit's bound as text: `min 8`, `one of a, b`; a text is taken as it is."""
    if isinstance(bound, Mapping):
        return ", ".join(f"{str(k).replace('_', ' ')} {_listed(v)}" for k, v in bound.items() if v is not None)
    return _listed(bound)


def _listed(value: Any) -> str:
    if isinstance(value, str):
        # A share of a median has as many digits as the arithmetic gives; a reader needs six.
        return _MANY_DIGITS.sub(lambda found: f"{float(found.group()):.6g}", value)
    if isinstance(value, list | tuple):
        return " or ".join(_listed(each) for each in value)
    return number(value) if isinstance(value, bool | int | float | str) else ("" if value is None else str(value))


def provenance_text(provenance: Mapping[str, Any] | str | None) -> str:
    """Return where a number comes from: its kind first, then every detail the profile gives."""
    if provenance is None:
        return "no provenance recorded"
    if isinstance(provenance, str):
        return provenance
    details = [f"{key.replace('_', ' ')}: {_listed(value)}" for key, value in provenance.items() if key != "kind"]
    return "; ".join([str(provenance.get("kind", "unknown")), *(d for d in details if not d.endswith(": "))])
