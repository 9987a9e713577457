"""Owns what was seen of each node and pair in groups of two; must not know whom to blame."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from gpuproof.localisation.reading import Reading, State

Pair = frozenset[str]


@dataclass(frozen=True)
class Runs:
    """All groups of two, by pair and by node; a run that is not MET is a miss."""

    by_pair: Mapping[Pair, list[Reading]] = field(default_factory=dict)
    by_node: Mapping[str, list[Reading]] = field(default_factory=dict)

    @staticmethod
    def of(readings: Iterable[Reading]) -> "Runs":
        """Sort readings by pair and by node."""
        by_pair: dict[Pair, list[Reading]] = {}
        by_node: dict[str, list[Reading]] = {}
        for reading in readings:
            if len(reading.nodes) == 2:
                by_pair.setdefault(frozenset(reading.nodes), []).append(reading)
                for node in reading.nodes:
                    by_node.setdefault(node, []).append(reading)
        return Runs(by_pair, by_node)

    def without(self, explained: Callable[[Pair], bool]) -> "Runs":
        """Leave out the runs of pairs that are explained: they say nothing about whoever else took part."""
        gone = set(filter(explained, self.by_pair))
        by_node = {
            node: [run for run in runs if frozenset(run.nodes) not in gone] for node, runs in self.by_node.items()
        }
        return Runs({pair: runs for pair, runs in self.by_pair.items() if pair not in gone}, by_node)

    def mets(self, node: str, *, without: str = "") -> int:
        """Count the runs in which the node met the floor, leaving out those with one partner."""
        return sum(run.state is State.MET and partner(run, node) != without for run in self.by_node.get(node, ()))

    def apart(self, node: str, without: str) -> int:
        """Count the runs of the node with others than this partner."""
        return sum(partner(run, node) != without for run in self.by_node.get(node, ()))

    def together(self, pair: Pair) -> int:
        """Count the runs of a pair."""
        return len(self.by_pair.get(pair, ()))

    def misses(self, pair: Pair) -> int:
        """Count the runs of a pair that missed."""
        return sum(missed(run) for run in self.by_pair.get(pair, ()))

    def missed_pairs(self) -> list[Pair]:
        """Return every pair that missed at least once, in the order of its first miss."""
        rounds = {pair: [run.round for run in runs if missed(run)] for pair, runs in self.by_pair.items()}
        return sorted((pair for pair in rounds if rounds[pair]), key=lambda pair: (rounds[pair][0], sorted(pair)))


def missed(run: Reading) -> bool:
    """Say whether a run did not meet its floor throughout."""
    return run.state is not State.MET


def partner(run: Reading, node: str) -> str:
    """Return the other node of a pair's run."""
    one, other = run.nodes
    return other if one == node else one
