"""Owns comparisons across a fleet: spread of each metric, nodes unlike the majority; must not judge any of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from gpuproof.report.events import MeasurementLine, NodeFacts
from gpuproof.report.wording import natural, number, operating_point

# Which device of a subject was read is where in the fleet a number stands, not the point it was measured at.
PLACE_KEYS = frozenset({"gpu", "rank", "device", "nic", "host", "node", "peer", "from", "to"})
HISTOGRAM_BINS = 24
_COLUMNS = ["check", "metric", "unit", "point", "place", "subject", "value"]


@dataclass(frozen=True)
class Spread:
    """How one metric at one operating point is spread over the fleet; all figures in `unit`.

    `bins` holds the share of the tallest bar, 0 to 1, from `low` to `high`; empty where every value is the same.
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
        (m.check, s.metric, s.unit, *_point_and_place(s.at), m.subject, _float(s.value))
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
    frame = pd.DataFrame(list(rows), columns=_COLUMNS)
    if frame.empty:
        return ()
    groups = frame.groupby(["check", "metric", "unit", "point"], sort=False)
    return tuple(spread for key, group in groups if (spread := _spread(key, group)) is not None)


def _point_and_place(at: Mapping[str, Any]) -> tuple[str, str]:
    point = {key: value for key, value in at.items() if key not in PLACE_KEYS}
    place = {key: value for key, value in at.items() if key in PLACE_KEYS}
    return operating_point(point), operating_point(place)


def _float(value: float | str | None) -> float:
    try:
        return float("nan") if value is None else float(value)
    except ValueError:
        return float("nan")


def _spread(key: Any, group: pd.DataFrame) -> Spread | None:
    finite = group[group["value"].abs() < float("inf")]
    if len(finite) < 2:
        return None
    check, metric, unit, point = (str(part) for part in key)
    values = finite["value"]
    low, high = finite.iloc[int(values.argmin())], finite.iloc[int(values.argmax())]
    p5, median, p95 = (float(q) for q in values.quantile([0.05, 0.5, 0.95]))
    return Spread(
        check=check,
        metric=metric,
        unit=unit,
        point=point,
        count=len(finite),
        subjects=int(finite["subject"].nunique()),
        low=float(low["value"]),
        p5=p5,
        median=median,
        p95=p95,
        high=float(high["value"]),
        low_at=_where(low),
        high_at=_where(high),
        bins=_bins(values),
        not_finite=len(group) - len(finite),
    )


def _where(row: "pd.Series[Any]") -> str:
    return f"{row['subject']} {row['place']}".strip()


def _bins(values: "pd.Series[float]") -> tuple[float, ...]:
    low, width = float(values.min()), float(values.max() - values.min())
    if width <= 0:
        return ()
    index = ((values - low) / width * HISTOGRAM_BINS).astype(int).clip(upper=HISTOGRAM_BINS - 1)
    counts = index.value_counts().reindex(range(HISTOGRAM_BINS), fill_value=0)
    return tuple(float(count) / float(counts.max()) for count in counts)


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
