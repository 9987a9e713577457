"""Completion indexes as Job status writes them: "0-3,5,7,8".

Owns the text form only; knows no Job.
"""

from __future__ import annotations

from collections.abc import Iterable


def parse(text: str, completions: int) -> set[int]:
    """The indexes below `completions` that the text names; ValueError where it is no such text."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), min(int(last or first), completions - 1) + 1))
    return found


def text_of(indexes: Iterable[int]) -> str:
    """Ascending, comma separated; three or more neighbours become one range, two stay two numbers."""
    runs: list[tuple[int, int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][1] == index - 1:
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    parts: list[str] = []
    for first, last in runs:
        if last == first:
            parts.append(str(first))
        else:
            parts.append(f"{first}-{last}" if last > first + 1 else f"{first},{last}")
    return ",".join(parts)
