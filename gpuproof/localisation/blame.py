"""Owns what localisation concludes, as values; must not know how it came to that."""

from dataclasses import dataclass
from enum import StrEnum


class Symptom(StrEnum):
    """What the blamed does to whoever works with it."""

    SLOW = "slow"
    HUNG = "hung"
    DIED = "died"
    WRONG = "wrong"


@dataclass(frozen=True)
class NodeBlame:
    """
    A node that misses with partners that are good with others, or by itself.

    `intermittent`: it missed and met with such partners. `alone`: it missed by itself, so the defect is inside the
    node. `slow_gb_per_s` is the median of what its missed groups measured, None where nothing was.
    """

    node: str
    symptom: Symptom
    with_partners: tuple[str, ...]
    slow_gb_per_s: float | None
    intermittent: bool = False
    alone: bool = False


@dataclass(frozen=True)
class LinkBlame:
    """A pair of nodes that misses again and again while both meet the floor with others."""

    nodes: tuple[str, str]
    symptom: Symptom
    slow_gb_per_s: float | None
    intermittent: bool = False


@dataclass(frozen=True)
class FabricBlame:
    """
    Everything measured between two leaves (or parts) misses while each is good within itself.

    `leaves` are the labels, or the first and last node of a part where no label tells.
    """

    leaves: tuple[str, str]
    symptom: Symptom
    slow_gb_per_s: float | None
    intermittent: bool = False


@dataclass(frozen=True)
class SeenOnce:
    """A group that missed once and never again with any of its nodes: shown, not blamed."""

    nodes: tuple[str, ...]
    stage: str
    symptom: Symptom
    busbw_gb_per_s: float | None


@dataclass(frozen=True)
class Blame:
    """
    The end of a localisation.

    `whole_gb_per_s` is the set with everybody, `without_gb_per_s` the set without what is blamed (None: not measured).
    `stands`: the floor was missed with the blamed and is met without them. `missed`: the whole set missed its floor at
    all; where it did not, and nobody missed alone, nothing is blamed. `unexplained` says in words what is left open:
    empty where the blame stands.
    """

    missed: bool
    nodes: tuple[NodeBlame, ...] = ()
    links: tuple[LinkBlame, ...] = ()
    fabric: tuple[FabricBlame, ...] = ()
    seen_once: tuple[SeenOnce, ...] = ()
    whole_gb_per_s: float | None = None
    without_gb_per_s: float | None = None
    stands: bool = False
    unexplained: str = ""
    rounds: int = 0
