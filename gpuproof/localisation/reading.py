"""Owns whether one group met its floor; must not know what that says about a node."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from gpuproof.localisation.blame import Symptom
from gpuproof.localisation.experiment import ExperimentResult, Floor, Floors, GroupResult, Outcome, Stage

SYMPTOMS = {Outcome.HUNG: Symptom.HUNG, Outcome.DIED: Symptom.DIED, Outcome.WRONG: Symptom.WRONG}
MIN_GROUPS = 3
"""A quartile of fewer groups of a size says what one of them is, not what is usual."""
SLOW_SHARE = 0.15
"""Of a group's repeats, and two of them at least: below it a slow repeat is taken for somebody else's traffic."""


class State(StrEnum):
    """How a group compares with its floor."""

    MET = "met"
    FLICKERED = "flickered"
    """The median met the floor, too many repeats did not."""
    MISSED = "missed"
    """The median missed it, or the group hung, died, was wrong or measured nothing."""


@dataclass(frozen=True)
class Reading:
    """One group, held against its floor; `round` is the index of its experiment among all results."""

    round: int
    stage: Stage
    nodes: tuple[str, ...]
    state: State
    symptom: Symptom
    median_gb_per_s: float | None


def read(floors: Floors, results: Sequence[ExperimentResult]) -> tuple[Reading, ...]:
    """Hold every group of all results against its floor, in the order of the experiments."""
    sizes: dict[int, list[float]] = {}
    for result in results:
        for group in result.groups:
            if group.busbw_gb_per_s and group.outcome is Outcome.MEASURED:
                sizes.setdefault(len(group.nodes), []).append(statistics.median(group.busbw_gb_per_s))
    floor_of = {size: _least(_floor(floors, size), sizes.get(size, ())) for size in _all_sizes(results)}
    return tuple(
        _reading(index, result.experiment.stage, group, floor_of[len(group.nodes)])
        for index, result in enumerate(results)
        for group in result.groups
    )


def _all_sizes(results: Iterable[ExperimentResult]) -> set[int]:
    return {len(group.nodes) for result in results for group in result.groups}


def _floor(floors: Floors, size: int) -> Floor:
    return floors.alone if size == 1 else floors.pair if size == 2 else floors.whole


def _least(floor: Floor, medians: Sequence[float]) -> float | None:
    bounds = [floor.min_gb_per_s] if floor.min_gb_per_s is not None else []
    if floor.min_fraction is not None and len(medians) >= MIN_GROUPS:
        bounds.append(floor.min_fraction * statistics.quantiles(medians, n=4, method="inclusive")[2])
    return max(bounds, default=None)


@lru_cache(maxsize=1 << 16)
def _reading(index: int, stage: Stage, group: GroupResult, least: float | None) -> Reading:
    values = group.busbw_gb_per_s
    median = statistics.median(values) if values else None
    symptom = SYMPTOMS.get(group.outcome, Symptom.SLOW)
    return Reading(index, stage, group.nodes, _state(group, median, least), symptom, median)


def _state(group: GroupResult, median: float | None, least: float | None) -> State:
    if group.outcome is not Outcome.MEASURED or median is None or not math.isfinite(median) or median <= 0:
        return State.MISSED
    if least is None:
        return State.MET
    if median < least:
        return State.MISSED
    slow = sum(not value >= least for value in group.busbw_gb_per_s)
    return State.FLICKERED if slow >= max(2, SLOW_SHARE * len(group.busbw_gb_per_s)) else State.MET
