"""From "the all-reduce is slow" to "this node, this link": a pure planner, results so far -> next experiment or blame.

Owns what to measure next and whom to blame. It must not know a pod, a process, a clock or a profile: floors come as
values, results come as values, the same input gives the same answer. How a caller uses it:

    question = Question(nodes=("gpu-01", …), floors=Floors(whole=Floor(37.5), pair=Floor(37.5), alone=Floor(200.0)))
    results: list[ExperimentResult] = []          # what earlier checks of the same gang measured may stand here
    while isinstance(step := next_step(question, results), Experiment):
        results.append(run(step))                 # one GroupResult for every group of the experiment
    report(step)                                  # a Blame

Every group of an experiment runs at the same time and the groups are disjoint. Within a group the order is the order
of ranks (node i's ranks before node i+1's), as rings follow it. Each group is repeated as often as the caller measures
anything (three times at least, so that a fault that comes and goes is seen as such).
"""

from gpuproof.localisation.blame import Blame, FabricBlame, LinkBlame, NodeBlame, SeenOnce, Symptom
from gpuproof.localisation.experiment import (
    Experiment,
    ExperimentResult,
    Floor,
    Floors,
    GroupResult,
    Outcome,
    Question,
    Stage,
    rounds_at_most,
)
from gpuproof.localisation.planner import next_step

__all__ = [
    "Blame",
    "Experiment",
    "ExperimentResult",
    "FabricBlame",
    "Floor",
    "Floors",
    "GroupResult",
    "LinkBlame",
    "NodeBlame",
    "Outcome",
    "Question",
    "SeenOnce",
    "Stage",
    "Symptom",
    "next_step",
    "rounds_at_most",
]
