"""Owns a simulated fabric with known defects and what a group measures on it; must not know the planner."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpuproof.localisation import Experiment, ExperimentResult, GroupResult, Outcome, Symptom
from tests.localisation import costs, noise

OUTCOMES = {Symptom.HUNG: Outcome.HUNG, Symptom.DIED: Outcome.DIED, Symptom.WRONG: Outcome.WRONG}


@dataclass(frozen=True)
class Defect:
    """
    What is wrong, and how: `factor` is the share of the healthy rate that is left.

    `duty` is the chance that it acts, drawn for every experiment, or for every repeat where `quick`.
    """

    factor: float = 1.0
    symptom: Symptom = Symptom.SLOW
    duty: float = 1.0
    quick: bool = False
    alone: bool = False
    """Acts inside the node too (NVLink, PCIe), not only towards others."""
    flows: int = 1
    """Of a fabric: acts where at least so many flows cross at the same time."""


@dataclass(frozen=True)
class Fabric:
    """`nodes` in rank order, the leaf of each, and the defects by node, by pair of nodes and by pair of leaves."""

    nodes: tuple[str, ...]
    leaf: Mapping[str, str]
    bad_nodes: Mapping[str, Defect] = field(default_factory=dict)
    bad_links: Mapping[frozenset[str], Defect] = field(default_factory=dict)
    bad_leaves: Mapping[frozenset[str], Defect] = field(default_factory=dict)
    dip_first_whole: bool = False
    """Nothing is wrong, but the first run of the whole set is disturbed from outside."""


class Simulation:
    """Measures experiments on a fabric; all chance comes from `seed`."""

    def __init__(self, fabric: Fabric, seed: int) -> None:
        """Draw what is fixed for the life of a cluster."""
        self._fabric = fabric
        self._chance = random.Random(seed)
        self._level = noise.CEILING_GB_PER_S * self._chance.uniform(*noise.HEALTHY_FRACTION)
        self._usual = {node: self._chance.gauss(1.0, noise.NODE_SIGMA) for node in fabric.nodes}
        self._wholes = 0

    def measure(self, experiment: Experiment) -> ExperimentResult:
        """Return what every group of the experiment would measure, all of them running at the same time."""
        crossing = self._crossing(experiment)
        groups = tuple(self._group(nodes, crossing) for nodes in experiment.groups)
        return ExperimentResult(experiment, groups)

    def _crossing(self, experiment: Experiment) -> dict[frozenset[str], int]:
        """Count, by pair of leaves, the nodes that can send across at the same time."""
        flows: dict[frozenset[str], int] = {}
        for pair in self._fabric.bad_leaves:
            one, other = sorted(pair)
            sides = [[self._fabric.leaf[node] for node in group] for group in experiment.groups]
            flows[pair] = sum(min(side.count(one), side.count(other)) for side in sides)
        return flows

    def _group(self, nodes: tuple[str, ...], crossing: Mapping[frozenset[str], int]) -> GroupResult:
        defects = [defect for defect in self._defects(nodes, crossing) if defect.quick or self._acts(defect)]
        broken = [defect for defect in defects if defect.symptom is not Symptom.SLOW]
        outcome = OUTCOMES[broken[0].symptom] if broken else Outcome.MEASURED
        if outcome in {Outcome.HUNG, Outcome.DIED}:
            return GroupResult(nodes, outcome, stuck=(self._census(nodes),))
        return GroupResult(nodes, outcome, tuple(self._repeats(nodes, defects)))

    def _acts(self, defect: Defect) -> bool:
        return self._chance.random() < defect.duty

    def _defects(self, nodes: tuple[str, ...], crossing: Mapping[frozenset[str], int]) -> Iterator[Defect]:
        for node in nodes:
            if (defect := self._fabric.bad_nodes.get(node)) and (len(nodes) > 1 or defect.alone):
                yield defect
        ring = list(zip(nodes, (*nodes[1:], nodes[0]), strict=True)) if len(nodes) > 1 else []
        for one, other in set(ring):
            if defect := self._fabric.bad_links.get(frozenset((one, other))):
                yield defect
        leaves = [self._fabric.leaf[node] for node in nodes]
        for pair, defect in self._fabric.bad_leaves.items():
            adjacent = any(frozenset(map(self._fabric.leaf.__getitem__, edge)) == pair for edge in ring)
            crosses = adjacent if defect.flows == 1 else pair <= set(leaves)
            if crosses and crossing[pair] >= defect.flows:
                yield defect

    def _census(self, nodes: tuple[str, ...]) -> str:
        bad = [node for node in nodes if node in self._fabric.bad_nodes]
        if bad and self._chance.random() < noise.CENSUS_RIGHT:
            return bad[0]
        return self._chance.choice(nodes)

    def _repeats(self, nodes: tuple[str, ...], defects: list[Defect]) -> Iterator[float]:
        steady = min([1.0, *(defect.factor for defect in defects if not defect.quick)])
        level = self._level * min(self._usual[node] for node in nodes) * steady
        level *= (1 - noise.LOSS_PER_DOUBLING) ** max(0, len(nodes).bit_length() - 2)
        level *= self._chance.gauss(1.0, noise.EXPERIMENT_SIGMA) * self._disturbed(nodes)
        quick = [defect for defect in defects if defect.quick]
        left_s = costs.TRANSFER_LIMIT_S - costs.WARM_UPS * costs.iteration_s(len(nodes), level)
        for index in range(noise.REPEATS):
            slowed = min([1.0, *(defect.factor for defect in quick if self._acts(defect))])
            chance, least, most = noise.REPEAT_DIP
            dip = self._chance.uniform(least, most) if self._chance.random() < chance else 1.0
            value = level * slowed * dip * self._chance.gauss(1.0, noise.REPEAT_SIGMA)
            left_s -= costs.iteration_s(len(nodes), value)
            if index > 0 and left_s < 0:
                return
            yield value

    def _disturbed(self, nodes: tuple[str, ...]) -> float:
        whole = len(nodes) == len(self._fabric.nodes)
        self._wholes += whole
        chance, least, most = noise.GROUP_DIP
        if whole and self._wholes == 1 and self._fabric.dip_first_whole:
            return self._chance.uniform(least, 0.7)
        return self._chance.uniform(least, most) if self._chance.random() < chance else 1.0


def spent_s(result: ExperimentResult) -> float:
    """Return how long the experiment took by the cost model: its slowest group."""
    return max(_group_s(group) for group in result.groups)


def _group_s(group: GroupResult) -> float:
    nodes, rates = len(group.nodes), group.busbw_gb_per_s
    if not rates:
        return costs.group_s(nodes, costs.TRANSFER_LIMIT_S)
    warm_up_s = costs.WARM_UPS * costs.iteration_s(nodes, rates[0])
    return costs.group_s(nodes, warm_up_s + sum(costs.iteration_s(nodes, rate) for rate in rates))
