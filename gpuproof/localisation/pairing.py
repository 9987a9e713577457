"""Owns which disjoint pairs to run next; must not know what a result says about a node beyond met and missed."""

import random
from collections.abc import Iterable, Mapping, Sequence

from gpuproof.localisation.runs import Pair, Runs, missed, partner

Groups = list[tuple[str, ...]]
MORE_ACROSS = 2
"""Further pairs between the same two leaves, beside one that missed: a leaf's uplink or only this link?"""


def ring(nodes: Sequence[str]) -> list[tuple[str, str]]:
    """Return the links that a ring over the nodes crosses, in rank order; one for two nodes."""
    if len(nodes) < 2:
        return []
    edges = list(zip(nodes, (*nodes[1:], nodes[0]), strict=True))
    return edges[:1] if len(nodes) == 2 else edges


def matching(edges: Iterable[tuple[str, str]], busy: set[str]) -> Groups:
    """Return as many of the edges as fit beside each other, in order, and mark their nodes as busy."""
    chosen: Groups = []
    for one, other in edges:
        if one not in busy and other not in busy:
            chosen.append((one, other))
            busy |= {one, other}
    return chosen


def within_leaves(nodes: Sequence[str], leaf: Mapping[str, str], runs: Runs, seed: int) -> Groups:
    """Return random disjoint pairs of all nodes, of one leaf where possible and never met before where possible."""
    chance = random.Random(seed)
    order = list(nodes)
    chance.shuffle(order)
    order.sort(key=lambda node: leaf.get(node, ""))
    free = dict.fromkeys(order)
    chosen: Groups = []
    while len(free) > 1:
        node = next(iter(free))
        del free[node]
        ahead = [other for other, _ in zip(free, range(64), strict=False)]
        mate = min(
            ahead, key=lambda other: (leaf.get(other) != leaf.get(node), runs.together(frozenset((node, other))))
        )
        del free[mate]
        chosen.append((node, mate))
    return chosen


class Partners:
    """Hands out nodes known good, each once a round."""

    def __init__(self, scope: Iterable[str], leaf: Mapping[str, str], runs: Runs, busy: set[str]) -> None:
        """Rank the nodes: those that have always met the floor first, then those that mostly did."""
        self._leaf, self._runs, self._busy = leaf, runs, busy
        share = {node: _missed_share(runs, node) for node in scope}
        self._good = sorted((node for node in share if runs.mets(node)), key=lambda node: (share[node], node))
        self._share = share

    def take(self, node: str) -> str | None:
        """Return a good partner: new to the node, and of a leaf where it has not missed, where there is one."""
        free = [other for other in self._good if other not in self._busy and other != node]
        free = [other for other in free if self._share[other] < max(self._share.get(node, 0.0), 0.01)]
        if not free:
            return None
        missed_in = {self._leaf.get(partner(run, node)) for run in self._runs.by_node.get(node, ()) if missed(run)}
        chosen = min(free, key=lambda other: self._order(node, other, missed_in))
        self._busy.add(chosen)
        return chosen

    def _order(self, node: str, other: str, missed_in: set[str | None]) -> tuple[object, ...]:
        leaf = self._leaf.get(other)
        return (
            self._share[other] > 0,
            leaf is not None and leaf in missed_in,
            self._runs.together(frozenset((node, other))),
            leaf != self._leaf.get(node),
            self._share[other],
        )

    def across(self, leaves: Sequence[str]) -> tuple[str, str] | None:
        """Return a spotless free node of each of two leaves, busy from now on; None if there are none."""
        ends = [
            next((node for node in self._good if self._spare(node) and self._leaf.get(node) == leaf), None)
            for leaf in leaves
        ]
        if len(ends) != 2 or ends[0] is None or ends[1] is None:
            return None
        self._busy |= {ends[0], ends[1]}
        return ends[0], ends[1]

    def _spare(self, node: str) -> bool:
        return node not in self._busy and self._share[node] == 0


def _missed_share(runs: Runs, node: str) -> float:
    ran = runs.by_node.get(node, [])
    return 1 - runs.mets(node) / len(ran) if ran else 0.0


def try_again(open_pairs: Sequence[Pair], scope: Sequence[str], leaf: Mapping[str, str], runs: Runs) -> Groups:
    """
    Return runs that tell whether a node or a link explains each open miss.

    The ends of a pair are run apart, each with a good partner, and the pair is run together again, in turns.
    """
    busy: set[str] = set()
    partners = Partners(scope, leaf, runs, busy)
    chosen: Groups = []
    turn = {pair: min(_apart(runs, pair)) > runs.together(pair) + _never_met(runs, pair) for pair in open_pairs}
    held = {node for pair in open_pairs for node in pair}
    for pair in sorted(open_pairs, key=runs.together):
        if turn[pair] and not pair & busy:
            busy |= pair
            chosen.append(tuple(sorted(pair)))
    waiting = sorted(held - busy, key=lambda node: (-_missed_share(runs, node), node))
    for pair in open_pairs:
        leaves = sorted({leaf[node] for node in pair if node in leaf})
        for _ in range(MORE_ACROSS if turn[pair] and len(leaves) == 2 else 0):
            if more := partners.across(leaves):
                chosen.append(more)
    for node in waiting:
        if node in busy:
            continue
        busy.add(node)
        mate = partners.take(node)
        if mate is None:
            busy.discard(node)
            continue
        chosen.append((node, mate))
    return chosen


def _apart(runs: Runs, pair: Pair) -> tuple[int, int]:
    one, other = sorted(pair)
    return runs.apart(one, other), runs.apart(other, one)


def _never_met(runs: Runs, pair: Pair) -> int:
    """Keep an end that has never met its floor with good partners rather than with the same one again."""
    return 0 if all(runs.mets(node) for node in pair) else 1_000
