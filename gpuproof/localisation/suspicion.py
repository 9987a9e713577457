"""Owns whom the runs so far accuse, and what they leave open; must not know how the next runs are chosen.

Every miss of a pair must be explained: by one of its nodes, by the link between them, by the fabric between their
leaves, or by something that happened once. An explanation needs three misses, as a single one is seen on healthy nodes
too; a node needs partners that are good with others, a link needs both its ends good with others.
"""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuproof.localisation.blame import FabricBlame, LinkBlame, NodeBlame, SeenOnce, Symptom
from gpuproof.localisation.reading import Reading
from gpuproof.localisation.runs import Pair, Runs, missed, partner

ENOUGH = 3
"""Misses that make an explanation, and runs of a pair after which a single miss is let go."""
CLEARED = 4
"""Runs met elsewhere that clear the ends of a link that always misses."""
CLEARED_OFTEN = 10
"""The same for a link that misses now and then: a node that does so may have met elsewhere by luck."""
LEAST_SHARE = 1 / 3
"""Of a node's runs must have missed: three misses in twenty runs are what healthy nodes show in a large set."""
RARE = 0.25
"""A node that missed at most this share of its runs, eight at least, is not kept under suspicion."""
CLEARER = 0.7
"""A partner speaks against a node if its share of misses with others is at most this part of the node's."""
WORST_FIRST = (Symptom.WRONG, Symptom.DIED, Symptom.HUNG, Symptom.SLOW)


@dataclass
class Suspicion:
    """The accused so far, and the pairs whose misses nothing explains yet."""

    nodes: dict[str, NodeBlame] = field(default_factory=dict)
    links: dict[Pair, LinkBlame] = field(default_factory=dict)
    fabric: dict[Pair, FabricBlame] = field(default_factory=dict)
    seen_once: list[SeenOnce] = field(default_factory=list)
    open: list[Pair] = field(default_factory=list)

    def explains(self, pair: Pair, leaf: Mapping[str, str]) -> bool:
        """Say whether what is blamed explains a miss of the pair."""
        return bool(self.nodes.keys() & pair) or pair in self.links or _leaves(leaf, pair) in self.fabric


def accuse(runs: Runs, leaf: Mapping[str, str], alone: Iterable[str]) -> Suspicion:
    """Explain the misses, nodes first, then fabric, then links, until nothing more can be explained."""
    found = Suspicion()
    left = runs.missed_pairs()
    slow_alone = set(alone)
    while True:
        named = _node(runs, leaf, left)
        if named is not None:
            found.nodes[named] = _node_blame(runs, named, left, alone=named in slow_alone)
            left = [pair for pair in left if named not in pair]
            continue
        leaves = _fabric(runs, leaf, left)
        if leaves is None:
            break
        found.fabric[leaves] = _fabric_blame(runs, leaf, leaves, left)
        left = [pair for pair in left if _leaves(leaf, pair) != leaves]
    for pair in left:
        _settle(runs, leaf, pair, left, found)
    return found


def _share(runs: Runs, left: Iterable[Pair]) -> dict[str, float]:
    """Return the share of unexplained misses in all runs of every node that has one."""
    counts: dict[str, int] = {}
    for pair in left:
        for node in pair:
            counts[node] = counts.get(node, 0) + runs.misses(pair)
    return {node: count / len(runs.by_node[node]) for node, count in counts.items()}


def _node(runs: Runs, leaf: Mapping[str, str], left: list[Pair]) -> str | None:
    share = _share(runs, left)
    for node in sorted(share, key=lambda node: (-share[node], node)):
        if share[node] >= LEAST_SHARE and _accused(runs, leaf, node, share, left):
            return node
    return None


def _accused(runs: Runs, leaf: Mapping[str, str], node: str, share: Mapping[str, float], left: list[Pair]) -> bool:
    pairs = [pair for pair in left if node in pair]
    partners = {other: pair for pair in pairs for other in pair - {node}}
    vouching = {
        other: pair
        for other, pair in partners.items()
        if runs.mets(other, without=node) and _share_with_others(runs, other, node) <= CLEARER * share[node]
    }
    spotless = [other for other in vouching if not _share_with_others(runs, other, node)]
    never_met = not runs.mets(node)
    if not spotless and not (never_met and len(vouching) >= ENOUGH):
        return False
    grouped: dict[str, int] = {}
    for other, pair in vouching.items():
        group = other if leaf.get(other) == leaf.get(node) else leaf.get(other, other)
        grouped[group] = grouped.get(group, 0) + runs.misses(pair)
    beside_the_worst = sum(grouped.values()) - max(grouped.values(), default=0)
    if sum(grouped.values()) < ENOUGH or beside_the_worst < (1 if never_met else 2):
        return False
    where = {leaf.get(other, other) for other in vouching}
    return len(where) > 1 or leaf.get(node) in where


def _share_with_others(runs: Runs, node: str, accused: str) -> float:
    others = [missed(run) for run in runs.by_node[node] if partner(run, node) != accused]
    return sum(others) / len(others)


def _leaves(leaf: Mapping[str, str], pair: Pair) -> Pair:
    return frozenset(leaf[node] for node in pair if node in leaf)


def _fabric(runs: Runs, leaf: Mapping[str, str], left: list[Pair]) -> Pair | None:
    """Return two leaves between which nearly every run missed, of nodes that are good everywhere else."""
    across: dict[Pair, list[Pair]] = {}
    for pair in left:
        if len(leaves := _leaves(leaf, pair)) == 2 and all(node in leaf for node in pair):
            across.setdefault(leaves, []).append(pair)
    for leaves, all_pairs in across.items():
        pairs = [pair for pair in all_pairs if all(_good_elsewhere(runs, leaf, node, leaves) for node in pair)]
        if len(pairs) < ENOUGH or not _disjoint(pairs):
            continue
        ends = frozenset().union(*pairs)
        between = [pair for pair in runs.by_pair if _leaves(leaf, pair) == leaves and pair <= ends]
        ran = [run for pair in between for run in runs.by_pair[pair]]
        misses = sum(map(missed, ran))
        if 3 * misses >= 2 * len(ran):
            return leaves
    return None


def _disjoint(pairs: list[Pair]) -> bool:
    return any(not one & other for one in pairs for other in pairs)


def _good_elsewhere(runs: Runs, leaf: Mapping[str, str], node: str, leaves: Pair) -> bool:
    others = [run for run in runs.by_node[node] if _leaves(leaf, frozenset(run.nodes)) != leaves]
    return bool(others) and sum(map(missed, others)) <= LEAST_SHARE * len(others)


def _settle(runs: Runs, leaf: Mapping[str, str], pair: Pair, left: list[Pair], found: Suspicion) -> None:
    """Take the miss of a pair for a bad link, for something that happened once, or leave it open."""
    one, other = sorted(pair)
    elsewhere = [rest for rest in left if rest != pair and rest & pair]
    cleared = min(runs.mets(one, without=other), runs.mets(other, without=one))
    together, misses = runs.together(pair), runs.misses(pair)
    readings = [run for run in runs.by_pair[pair] if missed(run)]
    always = misses == together
    needed = (CLEARED if always else CLEARED_OFTEN) + 2 * len(elsewhere)
    alone = all(always and _once(runs, rest) for rest in elsewhere)
    if _lasting(runs, pair) and cleared >= needed and alone:
        if not _crowded(leaf, pair, left):
            found.links[pair] = LinkBlame((one, other), _worst(readings), _median(readings), misses < together)
            return
    elif (
        _once(runs, pair)
        and cleared >= ENOUGH
        and (all(_lasting(runs, rest) for rest in elsewhere) or _rare(runs, pair, left))
    ):
        first = readings[0]
        found.seen_once.append(SeenOnce((one, other), first.stage, first.symptom, first.median_gb_per_s))
        return
    found.open.append(pair)


def _lasting(runs: Runs, pair: Pair) -> bool:
    return runs.misses(pair) >= ENOUGH and 2 * runs.misses(pair) >= runs.together(pair)


def _once(runs: Runs, pair: Pair) -> bool:
    return runs.misses(pair) == 1 and runs.together(pair) >= ENOUGH


def _rare(runs: Runs, pair: Pair, left: Iterable[Pair]) -> bool:
    """Say whether both ends missed so seldom in so many runs that healthy nodes would."""
    share = _share(runs, left)
    return all(share[node] <= RARE and RARE * len(runs.by_node[node]) >= 2 for node in pair)


def _crowded(leaf: Mapping[str, str], pair: Pair, left: list[Pair]) -> bool:
    """Say whether other pairs between the same two leaves missed: then it is not about this link alone."""
    leaves = _leaves(leaf, pair)
    return len(leaves) == 2 and any(not rest & pair and _leaves(leaf, rest) == leaves for rest in left)


def _node_blame(runs: Runs, node: str, left: list[Pair], *, alone: bool) -> NodeBlame:
    readings = [run for run in runs.by_node[node] if missed(run) and frozenset(run.nodes) in left]
    partners = tuple(sorted({partner(run, node) for run in readings}))
    met = runs.mets(node) > 0
    return NodeBlame(node, _worst(readings), partners, _median(readings), intermittent=met, alone=alone)


def _fabric_blame(runs: Runs, leaf: Mapping[str, str], leaves: Pair, left: list[Pair]) -> FabricBlame:
    one, other = sorted(leaves)
    pairs = [pair for pair in left if _leaves(leaf, pair) == leaves]
    readings = [run for pair in pairs for run in runs.by_pair[pair]]
    misses = [run for run in readings if missed(run)]
    return FabricBlame((one, other), _worst(misses), _median(misses), len(misses) < len(readings))


def _worst(readings: Iterable[Reading]) -> Symptom:
    seen = {run.symptom for run in readings}
    return next(symptom for symptom in WORST_FIRST if symptom in seen)


def _median(readings: Iterable[Reading]) -> float | None:
    values = [run.median_gb_per_s for run in readings if run.median_gb_per_s is not None]
    return statistics.median(values) if values else None
