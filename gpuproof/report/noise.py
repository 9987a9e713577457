"""Owns whether two sets of numbers differ by more than their repeats do; must not know what the numbers mean.

Permutation tests on ranks: no distribution is assumed, one wild value decides nothing, and a fixed seed gives the same
answer every time.
"""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

_SHUFFLES = 4_000
_SEED = 20_261_130
_MOST_EXACT_BITS = 12

Numbers = NDArray[np.float64]


def unpaired_p(before: Sequence[float], after: Sequence[float]) -> float:
    """
    Return how often a mere relabelling of the values moves their mean rank as far as it moved: the p-value, 0 to 1.

    `1.0` where either side is empty. The least it can be is about 2 / C(n+m, n).
    """
    if not before or not after:
        return 1.0
    ranks = _ranks([*before, *after])
    here = len(before)
    seen = abs(float(ranks[here:].mean() - ranks[:here].mean()))
    if seen == 0:
        return 1.0
    random = np.random.default_rng(_SEED)
    shuffled = random.permuted(np.tile(ranks, (_SHUFFLES, 1)), axis=1)
    moved = np.abs(shuffled[:, here:].mean(axis=1) - shuffled[:, :here].mean(axis=1))
    # The labelling that was seen is one of them.
    return max((int((moved >= seen * (1 - 1e-12)).sum()) + 1) / (_SHUFFLES + 1), least_unpaired_p(before, after))


def _ranks(values: Sequence[float]) -> Numbers:
    """The place of each value among all of them, equal ones sharing theirs."""
    return np.asarray(pd.Series(values, dtype=float).rank(), dtype=np.float64)


def least_unpaired_p(before: Sequence[float], after: Sequence[float]) -> float:
    """Return the smallest p-value that so many values can give."""
    ways = math.comb(len(before) + len(after), len(before))
    return min(1.0, (2 if len(before) == len(after) else 1) / ways)


def paired_p(changes: Sequence[float]) -> float:
    """
    Return how often flipping the signs of the changes gives a sum of signed ranks as far from zero: the p-value.

    The least it can be is 2 / 2**n.
    """
    values: Numbers = np.sign(np.asarray(changes, dtype=float)) * _ranks([abs(change) for change in changes])
    seen = abs(float(values.sum()))
    if seen == 0:
        return 1.0
    if len(values) <= _MOST_EXACT_BITS:
        signs = 1 - 2 * ((np.arange(2 ** len(values))[:, None] >> np.arange(len(values))) & 1)
        moved = np.abs((signs * values).sum(axis=1))
        return float((moved >= seen * (1 - 1e-12)).mean())
    random = np.random.default_rng(_SEED)
    signs = random.choice((-1.0, 1.0), size=(_SHUFFLES, len(values)))
    moved = np.abs((signs * values).sum(axis=1))
    return (int((moved >= seen * (1 - 1e-12)).sum()) + 1) / (_SHUFFLES + 1)


def least_paired_p(count: int) -> float:
    """Return the smallest p-value that so many pairs can give."""
    return min(1.0, 2.0 / 2.0**count)
