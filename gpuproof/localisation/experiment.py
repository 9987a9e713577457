"""Owns the words of localisation: question, experiment, result; must not know what follows from a result."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Stage(StrEnum):
    """What an experiment is for; the order is the usual one."""

    ALONE = "alone"
    """Every node by itself, all at once: NVLink and PCIe, no fabric."""
    WHOLE = "whole"
    """All nodes together: the number that was bought."""
    PAIRS = "pairs"
    """Disjoint pairs over the links that the whole set used; every node with several partners."""
    SUSPECTS = "suspects"
    """Suspected nodes and links again, each with nodes that have always met the floor."""
    MORE_PAIRS = "more-pairs"
    """Every link of the whole set's ring is good: other pairs, for faults that come and go."""
    PARTS = "parts"
    """All pairs are good: parts of the whole along the topology, to find the fabric between them."""
    COUNTERFACTUAL = "counterfactual"
    """The whole set without what is blamed."""


class Outcome(StrEnum):
    """What came of one group."""

    MEASURED = "measured"
    HUNG = "hung"
    """Killed at its time limit with a collective still open."""
    DIED = "died"
    """A rank process ended before its time."""
    WRONG = "wrong"
    """Finished, and at least one element of a result was wrong; no number makes up for it."""


@dataclass(frozen=True)
class Experiment:
    """Disjoint groups of nodes to run at the same time, the order within a group being that of the ranks."""

    stage: Stage
    groups: tuple[tuple[str, ...], ...]
    why: str

    def __post_init__(self) -> None:
        """Refuse groups that share a node: such an experiment would measure its own congestion."""
        named = [node for group in self.groups for node in group]
        if not named or len(named) != len(set(named)) or not all(self.groups):
            raise ValueError(f"the groups of an experiment are disjoint and not empty, got {self.groups}")


@dataclass(frozen=True)
class GroupResult:
    """
    What one group reported.

    `busbw_gb_per_s` has one value a repeat (GB/s, the slowest rank's time, at the size that the floor is about), and is
    empty where nothing was measured. `stuck` names the nodes whose ranks died first, or got least far by the census,
    where the outcome is not `MEASURED`: a hint where to look, never a proof.
    """

    nodes: tuple[str, ...]
    outcome: Outcome = Outcome.MEASURED
    busbw_gb_per_s: tuple[float, ...] = ()
    stuck: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExperimentResult:
    """An experiment with a result for each of its groups."""

    experiment: Experiment
    groups: tuple[GroupResult, ...]

    def __post_init__(self) -> None:
        """Refuse results that do not answer the experiment: a group without a result is never a group that met."""
        asked, told = (sorted(map(sorted, groups)) for groups in (self.experiment.groups, self._told()))
        if asked != told:
            raise ValueError(f"an experiment is answered group by group; asked {asked}, got results of {told}")

    def _told(self) -> tuple[tuple[str, ...], ...]:
        return tuple(group.nodes for group in self.groups)


@dataclass(frozen=True)
class Floor:
    """
    The least bus bandwidth in GB/s that is good enough.

    `min_fraction` (0..1) is of the upper quartile of all groups of the same size so far, for a caller whose profile
    knows no absolute number for them; it needs `MIN_GROUPS` groups. The higher of the two holds where both are given.
    """

    min_gb_per_s: float | None = None
    min_fraction: float | None = None


@dataclass(frozen=True)
class Floors:
    """
    The floors by kind of group, from the profile.

    `whole` is of everything with three nodes or more and must be absolute: a set cannot be its own measure. A pair or a
    node alone that no floor judges is held against nothing: what hung, died or was wrong there still counts.
    """

    whole: Floor
    pair: Floor
    alone: Floor = field(default_factory=Floor)

    def __post_init__(self) -> None:
        """Refuse floors that could not fail anything."""
        if self.whole.min_gb_per_s is None:
            raise ValueError("the floor of the whole set is absolute: it has no other groups to be compared with")
        if self.pair == Floor():
            raise ValueError("pairs need a floor: without one no pair would ever be slow, and nobody would be blamed")
        for floor in (self.whole, self.pair, self.alone):
            if floor.min_gb_per_s is not None and not (math.isfinite(floor.min_gb_per_s) and floor.min_gb_per_s > 0):
                raise ValueError(f"a floor is a positive number of GB/s, got {floor.min_gb_per_s}")
            if floor.min_fraction is not None and not 0 < floor.min_fraction < 1:
                raise ValueError(f"a fraction lies between 0 and 1, got {floor.min_fraction}")


@dataclass(frozen=True)
class Question:
    """
    The set of nodes whose whole is slow, in the order of their ranks.

    `leaf` gives the leaf switch (or rail group, rack …) of a node where a topology label tells; nodes without one are
    placed nowhere. `seed` chooses among equally good plans. `rounds` bounds the experiments between the whole set and
    the counterfactual; None takes `rounds_at_most`.
    """

    nodes: tuple[str, ...]
    floors: Floors
    leaf: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    rounds: int | None = None

    def __post_init__(self) -> None:
        """Refuse a set in which nothing can be told apart."""
        if len(self.nodes) < 2 or len(set(self.nodes)) != len(self.nodes):
            raise ValueError(f"localisation is about two or more distinct nodes, got {self.nodes}")


def rounds_at_most(nodes: int) -> int:
    """Return the number of rounds that localisation among so many nodes may take: 4 + log2(nodes / 8), at least 4."""
    return 4 + max(0, math.ceil(math.log2(nodes / 8)))
