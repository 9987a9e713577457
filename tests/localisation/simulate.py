"""Owns one localisation from question to score, and what many of them add up to."""

import math
import random
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from gpuproof.localisation import (
    Blame,
    Experiment,
    ExperimentResult,
    Floor,
    Floors,
    Question,
    next_step,
    rounds_at_most,
)
from tests.localisation import costs, noise
from tests.localisation.fabric import Fabric, Simulation, spent_s
from tests.localisation.scenarios import Scenario
from tests.localisation.scoring import Score, score

STEPS_AT_MOST = 200
"""A planner that asks for more than this is not going to end."""
FIRST_STAGES = 2
"""Every node alone and the whole set are asked for by other checks too; a localisation starts after them."""


@dataclass(frozen=True)
class Localised:
    """One simulated localisation: its blame, its score, and seconds by the cost model."""

    nodes: int
    blame: Blame
    score: Score
    steps: int
    first_s: float
    """Every node alone and the whole set."""
    later_s: float
    """Everything after them, counterfactuals included."""


def localise(fabric: Fabric, seed: int) -> Localised:
    """Run the planner against a simulated fabric to its end."""
    floor = Floor(min_gb_per_s=noise.FLOOR_FRACTION * noise.CEILING_GB_PER_S)
    question = Question(fabric.nodes, Floors(whole=floor, pair=floor, alone=floor), leaf=fabric.leaf, seed=seed)
    simulation = Simulation(fabric, seed)
    results: list[ExperimentResult] = []
    step = next_step(question, results)
    while isinstance(step, Experiment):
        if len(results) >= STEPS_AT_MOST:
            raise RuntimeError(f"no end after {len(results)} experiments")
        results.append(simulation.measure(step))
        step = next_step(question, results)
    spent = [spent_s(result) for result in results]
    first_s, later_s = sum(spent[:FIRST_STAGES]), sum(spent[FIRST_STAGES:])
    return Localised(len(fabric.nodes), step, score(fabric, step), len(results), first_s, later_s)


def seed_of(base: int, scenario: str, nodes: int, index: int) -> int:
    """Return the seed of one cluster, the same on every machine."""
    return base + zlib.crc32(f"{scenario}/{nodes}/{index}".encode())


def simulate(scenario: Scenario, nodes: int, base: int, indices: Iterable[int]) -> list[Localised]:
    """Localise in many clusters of one kind and size."""
    found = []
    for index in indices:
        seed = seed_of(base, scenario.name, nodes, index)
        found.append(localise(scenario.build(nodes, random.Random(seed)), seed))
    return found


@dataclass(frozen=True)
class Total:
    """What clusters of one kind and size add up to; rounds and costs of those whose whole set missed its floor."""

    clusters: int
    scores: Counter[Score]
    rounds_median: int
    rounds_99: int
    rounds_most: int
    within_bound: float
    wall_s: float
    node_min: float

    @property
    def missed(self) -> int:
        """Return how many clusters had something to localise."""
        return self.clusters - self.scores[Score.MET]


def total(found: list[Localised]) -> Total:
    """Add up localisations of clusters of one size."""
    asked = [one for one in found if one.score is not Score.MET]
    rounds = sorted(one.blame.rounds for one in asked) or [0]
    later = [one.later_s for one in asked] or [0.0]
    mean_s = sum(later) / len(later)
    nodes = found[0].nodes
    return Total(
        clusters=len(found),
        scores=Counter(one.score for one in found),
        rounds_median=rounds[len(rounds) // 2],
        rounds_99=rounds[min(len(rounds) - 1, math.ceil(0.99 * len(rounds)) - 1)],
        rounds_most=rounds[-1],
        within_bound=sum(one <= rounds_at_most(nodes) for one in rounds) / len(rounds),
        wall_s=mean_s,
        node_min=mean_s * nodes / 60,
    )


def gang_total_s(one: Localised, cluster: costs.Cluster) -> float:
    """Return the seconds from nothing to a blame: pods and one cold start, then every experiment."""
    return cluster.pods_s + costs.COLD_START_S + one.first_s + one.later_s
