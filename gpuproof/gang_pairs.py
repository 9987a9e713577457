"""Who is measured with whom: rounds of disjoint pairs in which nobody meets a partner twice, and the ladder of sizes.

Pure. It must not know what a pair measures.
"""

from __future__ import annotations

from collections.abc import Sequence


def rounds_of_pairs(nodes: Sequence[str], rounds: int) -> list[tuple[tuple[str, str], ...]]:
    """The first `rounds` rounds of a round robin (circle method): with an odd number of nodes one rests in each."""
    circle: list[str | None] = [*nodes]
    if len(circle) % 2:
        circle.append(None)
    found = []
    for _ in range(min(rounds, max(0, len(circle) - 1))):
        half = len(circle) // 2
        pairs = zip(circle[:half], reversed(circle[half:]), strict=True)
        found.append(tuple((a, b) for a, b in pairs if a is not None and b is not None))
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return [pairs for pairs in found if pairs]


def ladder(nodes: int) -> tuple[int, ...]:
    """2, 4, 8 … below the number of all nodes, which is the last step."""
    steps = []
    step = 2
    while step < nodes:
        steps.append(step)
        step *= 2
    return (*steps, nodes) if nodes > 1 else ()
