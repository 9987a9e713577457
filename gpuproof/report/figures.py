"""Owns which charts a check gets, from the operating points of its samples alone; must not know any check by name.

Samples at several `bytes` become lines over the size with the limits among them, samples at `from` and `to` a map of
pairs, samples at `gpu` a table of devices, and timings a bar a pod. Nothing here is a verdict.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from markupsafe import Markup

from gpuproof.report import charts
from gpuproof.report.bounds import number_of
from gpuproof.report.events import Scalar
from gpuproof.report.fleet import PLACE_KEYS
from gpuproof.report.load import SHOWN
from gpuproof.report.view import CheckView
from gpuproof.report.wording import byte_count, natural, number, operating_point, plural

MOST_FIGURES = 8
"""Of one check; the rest is in results.csv."""

MOST_LINES = 6
MOST_NODES_IN_MAP = 24
MOST_PODS = 12
MOST_DEVICE_ROWS = 24
_FEWEST_MOMENTS = 4
_PHASES = ("scheduling", "pulling and starting", "running")


@dataclass(frozen=True)
class Figure:
    """One chart with what it shows in words."""

    caption: str
    svg: Markup
    note: str = ""


@dataclass(frozen=True)
class DeviceTable:
    """One metric by subject and GPU, in `unit`; rows are (subject, a value a GPU), `left_out` more are not listed."""

    metric: str
    unit: str
    point: str
    gpus: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    left_out: int


@dataclass(frozen=True)
class _Number:
    subject: str
    metric: str
    unit: str
    at: Mapping[str, Scalar]
    value: float


def figures(check: CheckView) -> tuple[Figure, ...]:
    """Return the charts of what one check measured."""
    numbers = list(_numbers(check))
    return tuple([*_by_size(check, numbers), *_pairs(numbers)][:MOST_FIGURES])


def course(check: CheckView, most: int = MOST_FIGURES) -> tuple[Figure, ...]:
    """Return the charts of how one check went: its pods' phases, then the platform's telemetry beside them."""
    return tuple(islice(chain(_timeline(check), _load(check)), most))


def device_tables(check: CheckView) -> tuple[DeviceTable, ...]:
    """Return one table a metric and operating point whose values differ between the GPUs that were measured."""
    groups: dict[tuple[str, str, str], dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for each in _numbers(check):
        if "gpu" in each.at:
            point = operating_point({key: value for key, value in each.at.items() if key != "gpu"})
            groups[each.metric, each.unit, point][each.subject][str(each.at["gpu"])] = each.value
    return tuple(
        _device_table(*key, by_subject)
        for key, by_subject in groups.items()
        if any(len(values) > 1 for values in by_subject.values()) and not _all_the_same(by_subject)
    )


def _all_the_same(by_subject: Mapping[str, Mapping[str, float]]) -> bool:
    return len({value for values in by_subject.values() for value in values.values()}) <= 1


def _device_table(metric: str, unit: str, point: str, by_subject: Mapping[str, Mapping[str, float]]) -> DeviceTable:
    gpus = sorted({gpu for values in by_subject.values() for gpu in values}, key=natural)
    middle = statistics.median(value for values in by_subject.values() for value in values.values())
    # The subjects that differ most from the fleet come first: with a thousand of them nobody reads all.
    ranked = sorted(by_subject, key=lambda name: (-_distance(by_subject[name].values(), middle), natural(name)))
    shown = ranked[:MOST_DEVICE_ROWS] if len(ranked) > MOST_DEVICE_ROWS else sorted(ranked, key=natural)
    rows = tuple((name, tuple(number(by_subject[name].get(gpu)) for gpu in gpus)) for name in shown)
    return DeviceTable(metric, unit, point, tuple(gpus), rows, len(ranked) - len(shown))


def _distance(values: Iterable[float], middle: float) -> float:
    return max(abs(value - middle) for value in values)


def _numbers(check: CheckView) -> Iterable[_Number]:
    for subject in check.subjects:
        for measured in subject.measurements:
            for sample in measured.samples:
                value = sample.number
                if math.isfinite(value):
                    yield _Number(subject.subject, sample.metric, sample.unit, sample.at, value)


def _by_size(check: CheckView, numbers: Sequence[_Number]) -> Iterable[Figure]:
    groups: dict[tuple[str, str], dict[str, dict[float, list[float]]]] = defaultdict(lambda: defaultdict(dict))
    for each in numbers:
        size = each.at.get("bytes")
        if isinstance(size, int | float) and not isinstance(size, bool) and size > 0 and "from" not in each.at:
            rest = {k: v for k, v in each.at.items() if k != "bytes" and k not in PLACE_KEYS}
            groups[each.metric, each.unit][operating_point(rest)].setdefault(float(size), []).append(each.value)
    for (metric, unit), curves in groups.items():
        if max(len(curve) for curve in curves.values()) < 2:
            continue
        drawn = [line for name, curve in list(curves.items())[:MOST_LINES] for line in _curve(name or metric, curve)]
        limits = _limit_lines(check, metric, [size for curve in curves.values() for size in curve])
        caption = f"{metric} against message size"
        svg = charts.lines(
            caption, [*drawn, *limits], x_title="bytes", y_title=unit, x_text=byte_count, log_x=True, height=340
        )
        left = len(curves) - MOST_LINES
        more = f" {plural(left, 'more curve')} in results.csv." if left > 0 else ""
        judged = "Dashed: the limit at the sizes it speaks about." if limits else "No limit speaks about it."
        yield Figure(caption, svg, judged + more)


def _curve(name: str, curve: Mapping[float, Sequence[float]]) -> Iterable[charts.Line]:
    sizes = sorted(curve)
    if all(len(curve[size]) == 1 for size in sizes):
        yield charts.Line(name, tuple((size, curve[size][0]) for size in sizes))
        return
    yield charts.Line(f"{name}, median", tuple((size, statistics.median(curve[size])) for size in sizes))
    yield charts.Line(f"{name}, lowest", tuple((size, min(curve[size])) for size in sizes))


def _limit_lines(check: CheckView, metric: str, sizes: Sequence[float]) -> list[charts.Line]:
    bounds: dict[str, dict[float, float]] = defaultdict(dict)
    for subject in check.subjects:
        for finding in subject.findings:
            if finding.metric == metric and isinstance(finding.bound, str) and finding.severity != "record_only":
                value, size = number_of(finding.bound), finding.at.get("bytes")
                if value is not None and isinstance(size, int | float):
                    bounds[finding.limit_id or ""][float(size)] = value
    lines = [charts.Line("limit", tuple(sorted(points.items())), "limit") for points in bounds.values()]
    merged = sorted({point for line in lines for point in line.points})
    if not merged:
        return []
    if len(merged) == 1:
        # One bound at one size would be a dot: drawn over half a step to both sides it reads as what it is.
        size, value = merged[0]
        merged = [(max(size / 1.5, min(sizes)), value), (min(size * 1.5, max(sizes)), value)]
    return [charts.Line("limit", tuple(merged), "limit")]


def _pairs(numbers: Sequence[_Number]) -> Iterable[Figure]:
    groups: dict[tuple[str, str, str], dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for each in numbers:
        if "from" in each.at and "to" in each.at:
            rest = {k: v for k, v in each.at.items() if k not in ("from", "to") and k not in PLACE_KEYS}
            pair = str(each.at["from"]), str(each.at["to"])
            groups[each.metric, each.unit, operating_point(rest)][pair].append(each.value)
    for (metric, unit, point), pairs in groups.items():
        values = {pair: statistics.median(found) for pair, found in pairs.items()}
        yield _heat_map(metric, unit, point, values)


def _heat_map(metric: str, unit: str, point: str, values: Mapping[tuple[str, str], float]) -> Figure:
    of_node: dict[str, list[float]] = defaultdict(list)
    for (source, target), value in values.items():
        of_node[source].append(value)
        of_node[target].append(value)
    middle = statistics.median(values.values())
    ranked = sorted(of_node, key=lambda n: (-abs(statistics.median(of_node[n]) - middle), natural(n)))
    nodes = sorted(ranked[:MOST_NODES_IN_MAP], key=natural)
    place = {name: index for index, name in enumerate(nodes)}
    cells = {(place[a], place[b]): value for (a, b), value in values.items() if a in place and b in place}
    caption = f"{metric} between nodes{f' at {point}' if point else ''}"
    worst = sorted(values.items(), key=lambda item: item[1])
    low, high = worst[0], worst[-1]
    note = (
        f"From (rows) to (columns). Lowest, darkest: {low[0][0]} to {low[0][1]}, {number(low[1], unit)}; "
        f"highest, lightest: {high[0][0]} to {high[0][1]}, {number(high[1], unit)}."
    )
    if len(ranked) > len(nodes):
        note += f" Shown are the {len(nodes)} nodes furthest from the median, of {len(ranked)}."
    return Figure(caption, charts.heat_map(caption, nodes, nodes, cells), note)


def _load(check: CheckView) -> Iterable[Figure]:
    """Return a chart for each of the platform's own readings that moved, beside the same seconds of the check."""
    began = check.load[0].at_unix_s if check.load else 0.0
    for column, unit in SHOWN.items():
        points = [(each.at_unix_s - began, each.values[column]) for each in check.load if column in each.values]
        if len(points) < _FEWEST_MOMENTS or len({value for _, values in points for value in values}) < 2:
            continue
        name = column.rsplit("_", 1)[0].replace("_", " ")
        lines = [
            charts.Line(word, tuple((at, values[place]) for at, values in points))
            for place, word in enumerate(("lowest GPU", "median", "highest GPU"))
        ]
        caption = f"The platform's telemetry while it ran: {name}"
        yield Figure(
            caption, charts.lines(caption, lines, x_title="seconds", y_title=unit, x_text=_seconds, height=220)
        )


def _seconds(value: float) -> str:
    return number(round(value, 1))


def _timeline(check: CheckView) -> Iterable[Figure]:
    pods: dict[str, tuple[float, float, float]] = {}
    for subject in check.subjects:
        for measured in subject.measurements:
            steps = [measured.timings.get(key) for key in ("scheduled_s", "started_s", "measured_s")]
            if all(step is not None and math.isfinite(step) for step in steps):
                first, second, third = (float(step or 0.0) for step in steps)
                pods[subject.subject] = (first, max(0.0, second - first), max(0.0, third - second))
    pods = {name: phases for name, phases in pods.items() if sum(phases) > 0}
    if not pods:
        return
    slowest = sorted(pods, key=lambda name: (-sum(pods[name]), natural(name)))[:MOST_PODS]
    caption = "Pods: scheduling, pulling and starting, running"
    svg = charts.bars(caption, {name: pods[name] for name in slowest}, _PHASES, x_title="seconds since the Job")
    note = f"The {len(slowest)} slowest of {plural(len(pods), 'pod')}." if len(pods) > len(slowest) else ""
    yield Figure(caption, svg, note)
