"""Owns the order of experiments; must not know how one is run."""

from collections.abc import Sequence

from gpuproof.localisation.blame import Blame
from gpuproof.localisation.experiment import Experiment, ExperimentResult, Question


def next_step(question: Question, results: Sequence[ExperimentResult]) -> Experiment | Blame:
    """
    Return the next experiment, or the blame where none is left to do.

    Pure: it looks at nothing but its arguments. Results of the stages `ALONE` and `WHOLE` that were measured before
    (by another check of the same gang) are used and not asked for again. The first step is every node alone, the second
    the whole set; if the whole set meets its floor and no node missed alone, that is the end.
    """
    raise NotImplementedError
