"""Owns what the platform's telemetry told beside each check, summed up moment by moment; must not judge any of it."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpuproof.report.events import TelemetryLine, Value

SHOWN: Mapping[str, str] = {
    "utilisation_percent": "%",
    "power_w": "W",
    "temperature_c": "°C",
    "sm_clock_mhz": "MHz",
}
"""The columns of the record's telemetry that are drawn, with their units."""

MOST_MOMENTS = 240


@dataclass(frozen=True)
class LoadMoment:
    """One look at all GPUs: seconds since 1970, and of every column its lowest, median and highest value."""

    at_unix_s: float
    values: Mapping[str, tuple[float, float, float]]


@dataclass
class LoadHistory:
    """Takes the record's telemetry line by line, and keeps as much of it as a chart can show."""

    _moments: dict[str, list[LoadMoment]] = field(default_factory=lambda: defaultdict(list))
    _errors: dict[str, str] = field(default_factory=dict)

    def take(self, line: TelemetryLine) -> None:
        """Sum up one line; what is no number is left out."""
        self._errors |= line.errors
        if not line.rows or "at_unix_s" not in line.columns:
            return
        columns = {name: _column(line.rows, place) for place, name in enumerate(line.columns)}
        times = columns["at_unix_s"]
        if not times:
            return
        values = {
            name: (min(found), statistics.median(found), max(found)) for name in SHOWN if (found := columns.get(name))
        }
        self._moments[line.check].append(LoadMoment(statistics.median(times), values))

    def of(self, check: str) -> tuple[LoadMoment, ...]:
        """Return the moments of one check in order, evenly thinned where there are too many to draw."""
        found = sorted(self._moments.get(check, ()), key=lambda moment: moment.at_unix_s)
        return tuple(found[:: max(1, math.ceil(len(found) / MOST_MOMENTS))])

    @property
    def errors(self) -> Mapping[str, str]:
        """Why exporters could not be read, by node: the last word of each."""
        return self._errors


def _column(rows: Iterable[Sequence[Value]], place: int) -> list[float]:
    cells = [row[place] for row in rows if place < len(row)]
    numbers = [float(cell) for cell in cells if isinstance(cell, int | float) and not isinstance(cell, bool)]
    return [number for number in numbers if math.isfinite(number)]
