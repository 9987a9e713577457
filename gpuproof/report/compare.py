"""Owns what changed between runs and whether that is worse; must not know files, HTML or how a run is decided.

A number is compared only with one of the same check, metric, unit and operating point. What cannot be told apart from
noise is not called a change, and what got worse with too few repeats to be sure is never called the same.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gpuproof.report.bounds import Side, side_of
from gpuproof.report.fleet import PLACE_KEYS, environment_matrix, majority_of
from gpuproof.report.noise import least_paired_p, least_unpaired_p, paired_p, unpaired_p
from gpuproof.report.view import RunView
from gpuproof.report.wording import listed, natural, number, operating_point, plural
from gpuproof.report.words import Verdict, severity

Outcome = Literal["REGRESSED", "SAME", "IMPROVED", "NOT COMPARABLE"]
Movement = Literal["worse", "better", "changed", "within noise", "too few", "no longer measured", "newly measured"]
EXIT_CODES: Mapping[Outcome, int] = {"SAME": 0, "IMPROVED": 0, "REGRESSED": 1, "NOT COMPARABLE": 3}

_LESS_IS_BETTER = frozenset({"s", "ms", "us", "µs", "ns"})
_PER_SECOND = ("/s", "bit/s", "Gbps", "FLOPS")
_MOST_REASONS = 8
_MIN_PAIRS = 6

Point = tuple[str, str, str, str]
Place = tuple[str, str]


@dataclass(frozen=True)
class Judging:
    """What counts as a change: at most this p-value, and at least this share of the earlier median."""

    alpha: float = 0.01
    least_change: float = 0.05


@dataclass(frozen=True)
class Summary:
    """The finite values of one metric in one run or window."""

    count: int
    low: float
    median: float
    high: float


@dataclass(frozen=True)
class MetricChange:
    """One metric at one operating point, before and after; `change` is a share of the median before."""

    check: str
    metric: str
    unit: str
    point: str
    before: Summary | None
    after: Summary | None
    movement: Movement
    change: float | None = None
    p: float | None = None
    paired: bool = False
    each: tuple[float | None, ...] = ()
    """The median in every run, in their order."""


@dataclass(frozen=True)
class VerdictChange:
    """One check on one subject whose verdict differs; None is not asked."""

    check: str
    subject: str
    before: Verdict | None
    after: Verdict | None

    @property
    def kind(self) -> str:
        """What that means: newly failing, newly passing, no longer answered, or another."""
        if self.after == "FAIL":
            return "newly failing"
        if self.before == "PASS":
            return "no longer passing" if self.after in ("ERROR", "RECORDED") else "no longer run"
        return "newly passing" if self.after == "PASS" else "changed"


@dataclass(frozen=True)
class Difference:
    """Something about the circumstances that is not the same."""

    what: str
    before: str
    after: str


@dataclass(frozen=True)
class Comparison:
    """The answer, with everything it rests on; `runs` are named in their order, the last is the one that is judged."""

    outcome: Outcome
    reasons: tuple[str, ...]
    judging: Judging
    metrics: tuple[MetricChange, ...]
    verdicts: tuple[VerdictChange, ...]
    differences: tuple[Difference, ...]

    @property
    def exit_code(self) -> int:
        """0 same or improved, 1 regressed, 3 not comparable."""
        return EXIT_CODES[self.outcome]


def compare(before: Sequence[RunView], after: RunView, judging: Judging | None = None) -> Comparison:
    """Compare the last run with the one before it, or with a window of several, whose spread then counts as noise."""
    judging = judging or Judging()
    metrics = _metrics(before, after, judging)
    verdicts = _verdicts(before[-1], after)
    worse = [_metric_reason(m) for m in metrics if m.movement == "worse"]
    worse = [*_verdict_reasons(verdicts, "newly failing"), *worse]
    unclear = [*_unlike(before, after, metrics), *_verdict_reasons(verdicts, "no longer passing", "no longer run")]
    judged = {(limit.check, limit.metric) for limit in before[-1].limits.values() if limit.severity != "record_only"}
    # What no limit speaks about comes and goes with what there is, and the noise of one value is unknown: it is shown.
    unclear += [_metric_reason(m) for m in metrics if m.movement == "too few" and (m.check, m.metric) in judged]
    gone = [m for m in metrics if m.movement == "no longer measured" and (m.check, m.metric) in judged]
    unclear += [_metric_reason(m) for m in gone]
    better = [
        *_verdict_reasons(verdicts, "newly passing"),
        *(_metric_reason(m) for m in metrics if m.movement == "better"),
    ]
    outcome: Outcome
    if _hopeless(before, after, metrics):
        outcome, reasons = "NOT COMPARABLE", [*unclear, *worse]
    elif worse:
        outcome, reasons = "REGRESSED", [*worse, *unclear]
    elif unclear:
        outcome, reasons = "NOT COMPARABLE", unclear
    elif better:
        outcome, reasons = "IMPROVED", better
    else:
        outcome, reasons = "SAME", [f"{plural(len(metrics), 'metric')} and all verdicts are as they were, within noise"]
    if len(reasons) > _MOST_REASONS:
        reasons = [*reasons[:_MOST_REASONS], f"and {len(reasons) - _MOST_REASONS} more, below"]
    return Comparison(outcome, tuple(reasons), judging, metrics, verdicts, _differences(before[-1], after))


def _unlike(before: Sequence[RunView], after: RunView, metrics: Sequence[MetricChange]) -> list[str]:
    said = [
        f"run {run.run.run_id} has no decision that stands: it was cut short or is not whole"
        for run in (*before, after)
        if not run.decision.recorded
    ]
    kinds = {run.simulated for run in (*before, after)}
    if len(kinds) > 1:
        said.append("a simulated cluster and a real one have nothing in common that could be compared")
    if not any(m.before and m.after for m in metrics):
        said.append("no metric was measured in both at the same operating point")
    return said


def _hopeless(before: Sequence[RunView], after: RunView, metrics: Sequence[MetricChange]) -> bool:
    return len({run.simulated for run in (*before, after)}) > 1 or not any(m.before and m.after for m in metrics)


def _verdict_reasons(changes: Sequence[VerdictChange], *kinds: str) -> list[str]:
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for change in changes:
        if change.kind in kinds:
            groups[change.check, change.kind].append(change.subject)
    return [f"{check} is {kind} on {listed(subjects, 3)}" for (check, kind), subjects in groups.items()]


def _metric_reason(m: MetricChange) -> str:
    at = f" at {m.point}" if m.point else ""
    if m.before is None or m.after is None:
        return f"{m.check} {m.metric}{at} is {m.movement}"
    values = f"{number(m.before.median, m.unit)} before, {number(m.after.median, m.unit)} now"
    share = "" if m.change is None else f" ({m.change * 100:+.3g} %)"
    doubt = ", with too few repeats to tell it from noise: run it again" if m.movement == "too few" else ""
    word = "" if m.movement == "too few" else f"{m.movement}: "
    return f"{m.check} {m.metric}{at} is {word}{values}{share}{doubt}"


# -- metrics ---------------------------------------------------------------------------------------------------------


def _metrics(before: Sequence[RunView], after: RunView, judging: Judging) -> tuple[MetricChange, ...]:
    runs = [_values(run) for run in (*before, after)]
    sides = {**_sides(after), **_sides(before[-1])}
    keys = dict.fromkeys(key for run in runs for key in run)
    return tuple(_metric(key, runs, sides.get(key[:2]), judging) for key in keys)


def _values(run: RunView) -> dict[Point, dict[Place, float]]:
    found: dict[Point, dict[Place, float]] = defaultdict(dict)
    for subject in run.subjects:
        for measured in subject.measurements:
            for sample in measured.samples:
                value = sample.number
                if math.isfinite(value):
                    point = operating_point({k: v for k, v in sample.at.items() if k not in PLACE_KEYS})
                    place = operating_point({k: v for k, v in sample.at.items() if k in PLACE_KEYS})
                    found[subject.check, sample.metric, sample.unit, point][subject.subject, place] = value
    return found


def _sides(run: RunView) -> dict[tuple[str, str], Side]:
    """Return on which side of its bound each metric is good, from the limits of the profile."""
    found: dict[tuple[str, str], Side] = {}
    for limit in run.limits.values():
        side = side_of(limit.bound) if isinstance(limit.bound, str) else None
        if side is not None and limit.metric:
            found[limit.check, limit.metric] = side
    return found


def _metric(
    key: Point, runs: Sequence[Mapping[Point, Mapping[Place, float]]], side: Side | None, judging: Judging
) -> MetricChange:
    check, metric, unit, point = key
    each = tuple(statistics.median(run[key].values()) if key in run else None for run in runs)
    window, now = [run[key] for run in runs[:-1] if key in run], runs[-1].get(key)
    if not window or now is None:
        known = [value for run in window for value in run.values()] or list((now or {}).values())
        summary = _summary(known)
        movement: Movement = "newly measured" if now is not None else "no longer measured"
        old_side, new_side = (None, summary) if now is not None else (summary, None)
        return MetricChange(check, metric, unit, point, old_side, new_side, movement, each=each)
    values, present = [value for run in window for value in run.values()], list(now.values())
    old, new = statistics.median(values), statistics.median(present)
    change = (new - old) / abs(old) if old else None
    p, least, paired = _p(window, now, values, present)
    movement = _movement(new - old, change, p, least, judging, side or _side_by_unit(unit))
    if movement in ("worse", "better", "changed") and _inside(window, new, judging.least_change):
        movement = "within noise"
    return MetricChange(
        check, metric, unit, point, _summary(values), _summary(present), movement, change, p, paired, each
    )


def _summary(values: Sequence[float]) -> Summary:
    return Summary(len(values), min(values), statistics.median(values), max(values))


def _p(
    window: Sequence[Mapping[Place, float]],
    now: Mapping[Place, float],
    values: Sequence[float],
    present: Sequence[float],
) -> tuple[float, float, bool]:
    """Return the p-value, the least that so many values can give, and whether places were paired."""
    pairs = [
        (statistics.median(run[place] for run in window if place in run), value)
        for place, value in now.items()
        if any(place in run for run in window)
    ]
    if len(pairs) >= _MIN_PAIRS and len(pairs) == len(now):
        positive = all(old > 0 and new > 0 for old, new in pairs)
        changes = [math.log(new / old) if positive else new - old for old, new in pairs]
        return paired_p(changes), least_paired_p(len(pairs)), True
    return unpaired_p(values, present), least_unpaired_p(values, present), False


def _movement(
    moved: float, change: float | None, p: float, least: float, judging: Judging, side: Side | None
) -> Movement:
    if moved == 0 or (change is not None and abs(change) < judging.least_change):
        return "within noise"
    if p > judging.alpha:
        bad = side not in ("at least", "at most") or (moved < 0) == (side == "at least")
        return "too few" if least > judging.alpha and bad else "within noise"
    if side == "at least":
        return "better" if moved > 0 else "worse"
    if side == "at most":
        return "better" if moved < 0 else "worse"
    return "worse" if side == "exactly" else "changed"


def _side_by_unit(unit: str) -> Side | None:
    if unit in _LESS_IS_BETTER:
        return "at most"
    return "at least" if unit.endswith(_PER_SECOND) else None


def _inside(window: Sequence[Mapping[Place, float]], new: float, least_change: float) -> bool:
    """Say whether the runs of a window differ among themselves as much as the new one does from them."""
    medians = [statistics.median(run.values()) for run in window]
    low, high = min(medians), max(medians)
    return len(medians) > 1 and low - least_change * abs(low) < new < high + least_change * abs(high)


# -- verdicts and circumstances ----------------------------------------------------------------------------------------


def _verdicts(before: RunView, after: RunView) -> tuple[VerdictChange, ...]:
    old, new = _by_subject(before), _by_subject(after)
    if not {subject for _, subject in old if subject != "cluster"} & {subject for _, subject in new}:
        # Two clusters have no node in common: a check is compared by the worst verdict it came to anywhere.
        old, new = _by_check(old), _by_check(new)
    keys = sorted({*old, *new}, key=lambda key: (key[0], natural(key[1])))
    return tuple(VerdictChange(*key, old.get(key), new.get(key)) for key in keys if old.get(key) != new.get(key))


def _by_subject(run: RunView) -> dict[tuple[str, str], Verdict]:
    return {(s.check, s.subject): s.verdict for s in run.subjects if s.planned and s.required}


def _by_check(verdicts: Mapping[tuple[str, str], Verdict]) -> dict[tuple[str, str], Verdict]:
    found: dict[tuple[str, str], Verdict] = {}
    for (check, _), verdict in verdicts.items():
        key = check, "every subject"
        found[key] = min(found.get(key, verdict), verdict, key=severity)
    return found


def _differences(before: RunView, after: RunView) -> tuple[Difference, ...]:
    old, new = _circumstances(before), _circumstances(after)
    keys = dict.fromkeys([*old, *new])
    return tuple(
        Difference(key, old.get(key, "not told"), new.get(key, "not told"))
        for key in keys
        if old.get(key) != new.get(key)
    )


def _circumstances(run: RunView) -> dict[str, str]:
    facts = run.run
    found = {
        "cluster": facts.cluster.name,
        "cluster's identity": facts.cluster.uid,
        "Kubernetes": facts.cluster.server_version,
        "gpuproof": facts.gpuproof,
        "profile": facts.profile.name,
        "profile's SHA-256": facts.profile.sha256[:12],
        "image": _image(facts.pod_patch),
        "nodes in scope": listed(sorted((n.name for n in run.nodes if n.in_scope), key=natural), 8),
    }
    found |= {f"most nodes: {column.replace('_', ' ')}": value for column, value in majority_of(run.nodes).items()}
    measured = [m for subject in run.subjects for m in subject.measurements]
    for key, variants in environment_matrix(measured).items():
        found[f"pods: {key}"] = ", ".join(variant.value[:80] for variant in variants[:4])
    return found


def _image(pod: object) -> str:
    return str(pod.get("image", "")) if isinstance(pod, Mapping) else ""


def newest_first(runs: Iterable[RunView]) -> list[RunView]:
    """Return the runs, the one that began last first; those that do not say when come last."""
    return sorted(runs, key=lambda run: run.run.started_at.timestamp() if run.run.started_at else 0.0, reverse=True)
