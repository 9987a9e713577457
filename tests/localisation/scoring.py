"""Owns what a right and a wrong blame is; must not know how a blame was found. Committed before the planner."""

from enum import StrEnum

from gpuproof.localisation import Blame
from tests.localisation.fabric import Fabric


class Score(StrEnum):
    """How a blame compares with the truth."""

    MET = "met"
    """The whole set met its floor and nothing is blamed: there was nothing to localise."""
    RIGHT = "right"
    """Exactly what is wrong is named, all of it, and the counterfactual stands (or nothing is wrong, and named)."""
    OPEN = "open"
    """Nothing healthy is named, but something is missing or the counterfactual did not stand."""
    WRONG = "wrong"
    """Something healthy is named, whether or not the blame stands."""


def score(fabric: Fabric, blame: Blame) -> Score:
    """Compare a blame with the truth, by names."""
    truth: set[object] = {*fabric.bad_nodes, *fabric.bad_links}
    truth |= {("leaves", pair) for pair in fabric.bad_leaves}
    named: set[object] = {found.node for found in blame.nodes}
    named |= {frozenset(found.nodes) for found in blame.links}
    named |= {("leaves", frozenset(found.leaves)) for found in blame.fabric}
    if named - truth:
        return Score.WRONG
    if not named and not blame.missed:
        return Score.MET
    if named == truth and (blame.stands or not truth):
        return Score.RIGHT
    return Score.OPEN
