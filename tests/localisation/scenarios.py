"""Owns which clusters are simulated; must not know the planner. Committed before it."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuproof.localisation import Symptom
from tests.localisation.fabric import Defect, Fabric

SIZES = (8, 16, 32, 64, 128, 232, 512, 1024)

Chance = random.Random


@dataclass(frozen=True)
class Scenario:
    """A kind of cluster. `counts`: part of the targets; the others are shown as what lies beyond them."""

    name: str
    build: Callable[[int, Chance], Fabric]
    counts: bool = True
    about_nodes: bool = False
    """k steady bad nodes: the kind that the bound on rounds is about."""


def leaf_size(nodes: int) -> int:
    """Return how many nodes hang on a leaf switch: four in the smallest clusters, sixteen from 64 nodes."""
    return max(4, min(16, nodes // 4))


def most_bad(nodes: int) -> int:
    """Return the k of the targets: two nodes, or 5 % of them."""
    return max(2, nodes // 20)


def named(nodes: int) -> tuple[str, ...]:
    """Return the names of the nodes, in rank order."""
    return tuple(f"node-{index:04d}" for index in range(nodes))


def leaves(names: Sequence[str]) -> dict[str, str]:
    """Return the leaf of every node; rank order follows the leaves."""
    size = leaf_size(len(names))
    return {name: f"leaf-{index // size:03d}" for index, name in enumerate(names)}


def log_uniform(chance: Chance, low: float, high: float) -> float:
    """Return a number whose logarithm is uniform."""
    return float(low * (high / low) ** chance.random())


def bad_nodes(make: Callable[[Chance], Defect], share: float = 0.05, least: int = 2) -> Callable[[int, Chance], Fabric]:
    """Return a builder of clusters with 1 … max(least, share of n) nodes that are bad in this way."""

    def build(nodes: int, chance: Chance) -> Fabric:
        names = named(nodes)
        count = chance.randint(1, max(least, int(nodes * share)))
        return Fabric(names, leaves(names), bad_nodes={name: make(chance) for name in chance.sample(names, count)})

    return build


def very_slow(chance: Chance) -> Defect:
    """A third or less of the rate, down to a fiftieth."""
    return Defect(log_uniform(chance, 0.02, 0.33))


def partly_slow(chance: Chance) -> Defect:
    """Slow enough to miss the floor, and little more."""
    return Defect(chance.uniform(0.40, 0.68))


def broken(chance: Chance) -> Defect:
    """Hangs, dies or computes wrong numbers, every time."""
    return Defect(symptom=chance.choice((Symptom.HUNG, Symptom.DIED, Symptom.WRONG)))


def inside(chance: Chance) -> Defect:
    """Slow also by itself."""
    return Defect(log_uniform(chance, 0.05, 0.5), alone=True)


def now_and_then(chance: Chance) -> Defect:
    """Slow in 60 to 95 % of experiments, for the whole of an experiment."""
    return Defect(log_uniform(chance, 0.02, 0.5), duty=chance.uniform(0.6, 0.95))


def flickering(chance: Chance) -> Defect:
    """Slow in 30 to 90 % of repeats."""
    return Defect(log_uniform(chance, 0.02, 0.5), duty=chance.uniform(0.3, 0.9), quick=True)


def rarely(chance: Chance) -> Defect:
    """Slow in 20 to 50 % of experiments."""
    return Defect(log_uniform(chance, 0.02, 0.5), duty=chance.uniform(0.2, 0.5))


def neighbours(nodes: int, chance: Chance) -> Fabric:
    """Bad nodes side by side in one leaf: a power feed, a bad batch."""
    names = named(nodes)
    count = chance.randint(2, min(most_bad(nodes), leaf_size(nodes) - 1))
    first = chance.randrange(nodes // leaf_size(nodes)) * leaf_size(nodes)
    first += chance.randint(0, leaf_size(nodes) - count)
    return Fabric(names, leaves(names), bad_nodes={name: very_slow(chance) for name in names[first : first + count]})


def links(nodes: int, chance: Chance) -> Fabric:
    """One or two bad links between ring neighbours of one leaf."""
    names = named(nodes)
    size = leaf_size(nodes)
    chosen = chance.sample(range(0, nodes - nodes % size, size), min(2, chance.randint(1, 2), nodes // size))
    starts = [leaf + chance.randrange(size - 1) for leaf in chosen]
    bad = {frozenset(names[start : start + 2]): Defect(log_uniform(chance, 0.02, 0.6)) for start in starts}
    return Fabric(names, leaves(names), bad_links=bad)


def leaf_pair(nodes: int, chance: Chance) -> Fabric:
    """Every flow between two neighbouring leaves is slow."""
    names = named(nodes)
    of = leaves(names)
    switches = sorted(set(of.values()))
    at = chance.randrange(len(switches) - 1)
    return Fabric(names, of, bad_leaves={frozenset(switches[at : at + 2]): Defect(log_uniform(chance, 0.05, 0.6))})


def thin_uplinks(nodes: int, chance: Chance) -> Fabric:
    """The links between two leaves carry a pair, and not three nodes at the same time."""
    names = named(nodes)
    of = leaves(names)
    pair = frozenset(chance.sample(sorted(set(of.values())), 2))
    return Fabric(names, of, bad_leaves={pair: Defect(log_uniform(chance, 0.1, 0.6), flows=3)})


def node_and_link(nodes: int, chance: Chance) -> Fabric:
    """A bad node and, elsewhere, a bad link."""
    names = named(nodes)
    start = chance.randrange(nodes - 1)
    while leaves(names)[names[start]] != leaves(names)[names[start + 1]]:
        start = chance.randrange(nodes - 1)
    link = names[start : start + 2]
    node = chance.choice([name for name in names if name not in link])
    return Fabric(
        names, leaves(names), bad_nodes={node: very_slow(chance)}, bad_links={frozenset(link): very_slow(chance)}
    )


def disturbed_once(nodes: int, _chance: Chance) -> Fabric:
    """Nothing is wrong; the first run of the whole set was disturbed."""
    names = named(nodes)
    return Fabric(names, leaves(names), dip_first_whole=True)


def healthy(nodes: int, _chance: Chance) -> Fabric:
    """Nothing is wrong."""
    names = named(nodes)
    return Fabric(names, leaves(names))


SCENARIOS = (
    Scenario("healthy", healthy),
    Scenario("healthy, first run disturbed", disturbed_once),
    Scenario("1…k very slow nodes", bad_nodes(very_slow), about_nodes=True),
    Scenario("1…k partly slow nodes", bad_nodes(partly_slow), about_nodes=True),
    Scenario("1…k nodes hang, die or compute wrong", bad_nodes(broken), about_nodes=True),
    Scenario("1…k nodes slow inside too", bad_nodes(inside), about_nodes=True),
    Scenario("2…k neighbours in one leaf", neighbours, about_nodes=True),
    Scenario("1…2 slow links", links),
    Scenario("slow pair of leaves", leaf_pair),
    Scenario("thin uplinks between two leaves", thin_uplinks),
    Scenario("a slow node and a slow link", node_and_link),
    Scenario("1…2 nodes slow in 60 to 95 % of experiments", bad_nodes(now_and_then, share=0.0)),
    Scenario("1…k nodes slow in 30 to 90 % of repeats", bad_nodes(flickering)),
    Scenario("beyond: 1…2 nodes slow in 20 to 50 % of experiments", bad_nodes(rarely, share=0.0), counts=False),
    Scenario("beyond: up to 15 % very slow nodes", bad_nodes(very_slow, share=0.15), counts=False),
)
