"""Owns comparisons across a fleet: spread of each metric, nodes unlike the majority; must not judge any of it."""

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pandas as pd

from gpuproof.report.events import MeasurementLine, NodeFacts
from gpuproof.report.wording import natural, number, operating_point

# Which device of a subject was read is where in the fleet a number stands, not the point it was measured at.
PLACE_KEYS = frozenset({"gpu", "rank", "device", "nic", "host", "node", "peer", "from", "to"})
HISTOGRAM_BINS = 24
FEWEST_IN_HISTOGRAM = 12
"""Values below which a distribution shows no more than its numbers do."""

_Value = tuple[float, str, str]
"""A number, the subject that it is of, and which of its devices."""


@dataclass(frozen=True)
class Spread:
    """How one metric at one operating point is spread over the fleet; all figures in `unit`.

    `bins` holds the share of the tallest bar, 0 to 1, from `low` to `high`; empty where there is nothing to see.
    `not_finite` counts NaN and infinite values, which no figure includes.
    """

    check: str
    metric: str
    unit: str
    point: str
    count: int
    subjects: int
    low: float
    p5: float
    median: float
    p95: float
    high: float
    low_at: str
    high_at: str
    bins: tuple[float, ...]
    not_finite: int


@dataclass(frozen=True)
class NodeRow:
    """One node with the names of the columns in which it differs from the majority of the nodes in scope."""

    node: NodeFacts
    cells: Mapping[str, str]
    unlike: frozenset[str]

    @property
    def odd(self) -> bool:
        """Whether this node deserves a look."""
        return bool(self.unlike or self.node.problem or self.node.ready is False or self.node.schedulable is False)


@dataclass(frozen=True)
class Variant:
    """One value of an environment key and who reported it."""

    value: str
    subjects: tuple[str, ...]


NODE_COLUMNS = ("ready", "schedulable", "gpu_capacity", "gpu_allocatable", "product", "driver")


def spreads(measurements: Iterable[MeasurementLine]) -> tuple[Spread, ...]:
    """Return one Spread per check, metric, unit and operating point that more than one number was measured at."""
    return _spreads(
        (m.check, s.metric, s.unit, *_point_and_place(s.at), m.subject, s.number)
        for m in measurements
        for s in m.samples
    )


def timings(measurements: Iterable[MeasurementLine]) -> tuple[Spread, ...]:
    """Return one Spread per check, workload and phase of its pods, in seconds; the workload is in `point`."""
    return _spreads(
        (m.check, phase, "s", m.workload, "", m.subject, seconds)
        for m in measurements
        for phase, seconds in m.timings.items()
        if seconds is not None
    )


def _spreads(rows: Iterable[tuple[str, str, str, str, str, str, float]]) -> tuple[Spread, ...]:
    groups: dict[tuple[str, str, str, str], list[_Value]] = defaultdict(list)
    for check, metric, unit, point, place, subject, value in rows:
        groups[check, metric, unit, point].append((value, subject, place))
    return tuple(spread for key, values in groups.items() if (spread := _spread(key, values)) is not None)


def _point_and_place(at: Mapping[str, Any]) -> tuple[str, str]:
    # The type is a part of the key: 1 and true are equal and do not read alike.
    return _split(tuple((key, value, type(value)) for key, value in at.items()))


@lru_cache(maxsize=16_384)
def _split(at: tuple[tuple[str, Any, type], ...]) -> tuple[str, str]:
    point = {key: value for key, value, _ in at if key not in PLACE_KEYS}
    place = {key: value for key, value, _ in at if key in PLACE_KEYS}
    return operating_point(point), operating_point(place)


def _spread(key: tuple[str, str, str, str], found: Sequence[_Value]) -> Spread | None:
    finite = sorted((each for each in found if math.isfinite(each[0])), key=lambda each: each[0])
    if len(finite) < 2:
        return None
    values = [value for value, _, _ in finite]
    twentieths = statistics.quantiles(values, n=20, method="inclusive")
    return Spread(
        *key,
        count=len(finite),
        subjects=len({subject for _, subject, _ in finite}),
        low=values[0],
        p5=twentieths[0],
        median=twentieths[9],
        p95=twentieths[18],
        high=values[-1],
        low_at=_where(finite[0]),
        high_at=_where(finite[-1]),
        bins=_bins(values),
        not_finite=len(found) - len(finite),
    )


def _where(value: _Value) -> str:
    return f"{value[1]} {value[2]}".strip()


def _bins(values: Sequence[float]) -> tuple[float, ...]:
    low, width = values[0], values[-1] - values[0]
    if len(values) < FEWEST_IN_HISTOGRAM or width <= 0 or not math.isfinite(width):
        return ()
    counts = Counter(min(int((value - low) / width * HISTOGRAM_BINS), HISTOGRAM_BINS - 1) for value in values)
    tallest = max(counts.values())
    return tuple(counts[place] / tallest for place in range(HISTOGRAM_BINS))


def node_rows(nodes: Sequence[NodeFacts]) -> tuple[NodeRow, ...]:
    """Return the nodes, odd ones first, each with the columns in which it is unlike the majority in scope."""
    cells = [{column: _cell(getattr(node, column)) for column in NODE_COLUMNS} for node in nodes]
    majority = _majority([cell for node, cell in zip(nodes, cells, strict=True) if node.in_scope])
    rows = [
        NodeRow(node, cell, frozenset(c for c in majority if node.in_scope and cell[c] != majority[c]))
        for node, cell in zip(nodes, cells, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: (not row.odd, not row.node.in_scope, natural(row.node.name))))


def majority_of(nodes: Sequence[NodeFacts]) -> dict[str, str]:
    """Return the value most nodes in scope have, per column; a column without a majority is left out."""
    return _majority([{c: _cell(getattr(node, c)) for c in NODE_COLUMNS} for node in nodes if node.in_scope])


def _majority(cells: list[dict[str, str]]) -> dict[str, str]:
    if not cells:
        return {}
    frame = pd.DataFrame(cells)
    found: dict[str, str] = {}
    for column in NODE_COLUMNS:
        counts = frame[column].value_counts()
        if counts.iloc[0] * 2 > len(frame):
            found[column] = str(counts.index[0])
    return found


def _cell(value: str | int | bool | None) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else number(value)


def environment_matrix(measurements: Iterable[MeasurementLine]) -> dict[str, tuple[Variant, ...]]:
    """Return, per environment key, each value with its subjects, the most common first."""
    rows = [(key, str(value), m.subject) for m in measurements for key, value in m.environment.items()]
    matrix: dict[str, tuple[Variant, ...]] = {}
    frame = pd.DataFrame(rows, columns=["key", "value", "subject"]).drop_duplicates()
    for key, of_key in frame.groupby("key", sort=True):
        variants = [
            Variant(str(value), tuple(sorted(group["subject"], key=natural)))
            for value, group in of_key.groupby("value")
        ]
        matrix[str(key)] = tuple(sorted(variants, key=lambda v: (-len(v.subjects), v.value)))
    return matrix
