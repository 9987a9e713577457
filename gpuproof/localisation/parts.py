"""Owns the search for two parts that are good by themselves and slow together; must not know how parts came about.

With the parts numbered, one round a binary digit tells whether the two share it: the parts with a 0 run as one group
and those with a 1 as another, and only a group that holds both can miss. What is left are pairs of parts that have no
part in common, so one more round tells which of them it is: log2(parts) + 1 rounds, and one to see it again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuproof.localisation.reading import Reading
from gpuproof.localisation.runs import missed

Part = tuple[str, ...]
SEEN = 2
"""Times that the union of two parts must have missed."""
SEEN_IF_ONLY = 3
"""The same where no other union could have missed: nothing but the misses speaks for these two."""
OUTNUMBERED = 3
"""Runs met after which a part's single miss is let go."""


@dataclass(frozen=True)
class Found:
    """The two parts, and the readings of their union that missed."""

    parts: tuple[Part, Part]
    readings: tuple[Reading, ...]


@dataclass(frozen=True)
class Ask:
    """The groups to run next."""

    groups: tuple[Part, ...]


@dataclass(frozen=True)
class GaveUp:
    """The readings contradict the idea of one pair of parts."""


def parts_of(scope: Sequence[str], leaf: Mapping[str, str]) -> list[Part]:
    """Return the leaves of the nodes, in rank order; single nodes where labels do not place every one of them."""
    if all(node in leaf for node in scope):
        labels = dict.fromkeys(leaf[node] for node in scope)
        if len(labels) > 1:
            return [tuple(node for node in scope if leaf[node] == label) for label in labels]
    return [(node,) for node in scope]


class Search:
    """Looks for the pair of parts in what has been measured of groups of nodes."""

    def __init__(self, readings: Iterable[Reading]) -> None:
        """Index the readings by the set of their nodes."""
        self._seen: dict[frozenset[str], list[Reading]] = {}
        for reading in readings:
            self._seen.setdefault(frozenset(reading.nodes), []).append(reading)

    def step(self, parts: Sequence[Part]) -> Found | Ask | GaveUp:
        """Return the pair of parts, or what must be measured to find it."""
        by_themselves = [part for part in parts if len(part) > 1]
        if unknown := self._unknown(by_themselves):
            return Ask(unknown)
        if doubtful := [part for part in by_themselves if self._doubtful(part)]:
            return Ask(tuple(doubtful))
        slow = [part for part in by_themselves if self._missed(part)]
        if any(self._met(part) for part in slow):
            return GaveUp()
        if slow:
            return self.step([(node,) for node in slow[0]])
        return self._between(parts)

    def _between(self, parts: Sequence[Part]) -> Found | Ask | GaveUp:
        digits = (len(parts) - 1).bit_length()
        shared: dict[int, int] = {}
        for digit in range(digits):
            halves = [_union(part for at, part in enumerate(parts) if at >> digit & 1 == value) for value in (0, 1)]
            if unknown := self._unknown([half for half in halves if len(half) > 1]):
                return Ask(unknown)
            slow = [value for value in (0, 1) if self._missed(halves[value])]
            if len(slow) > 1:
                return GaveUp()
            if slow:
                shared[digit] = slow[0]
        mask = sum(1 << digit for digit in range(digits) if digit not in shared)
        pairs = [
            (parts[at], parts[at ^ mask])
            for at in range(len(parts))
            if at < at ^ mask < len(parts) and all(at >> digit & 1 == value for digit, value in shared.items())
        ]
        return self._which(pairs)

    def _which(self, pairs: Sequence[tuple[Part, Part]]) -> Found | Ask | GaveUp:
        if unknown := self._unknown([_union(pair) for pair in pairs]):
            return Ask(unknown)
        slow = [pair for pair in pairs if self._missed(_union(pair))]
        if len(slow) != 1:
            return GaveUp()
        readings = self._seen[frozenset(_union(slow[0]))]
        if self._count(_union(slow[0]))[0] < (SEEN if len(pairs) > 1 else SEEN_IF_ONLY):
            return Ask((_union(slow[0]),))
        return Found(slow[0], tuple(filter(missed, readings)))

    def _unknown(self, groups: Iterable[Part]) -> tuple[Part, ...]:
        return tuple(group for group in groups if frozenset(group) not in self._seen)

    def _doubtful(self, group: Part) -> bool:
        """Say whether a miss must be seen again, or be outnumbered, before it is taken for what it looks like."""
        misses, mets = self._count(group)
        return misses == 1 and mets < OUTNUMBERED

    def _met(self, group: Part) -> bool:
        return self._count(group)[1] > 0

    def _count(self, group: Part) -> tuple[int, int]:
        readings = self._seen.get(frozenset(group), [])
        misses = sum(map(missed, readings))
        return misses, len(readings) - misses

    def _missed(self, group: Part) -> bool:
        misses, mets = self._count(group)
        return misses > mets or misses >= SEEN


def _union(parts: Iterable[Part]) -> Part:
    return tuple(node for part in parts for node in part)
