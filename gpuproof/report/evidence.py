"""Owns how much raw text of a run a report carries; must not know what the text means.

A run can log hundreds of megabytes. A report keeps the head and the tail of each text, less of each the more there are,
and says what was cut and that the record has all of it.
"""

from dataclasses import dataclass

HEAD_CHARS = 2_048
TAIL_CHARS = 6_144
# What all evidence of a run may take together; past it, only the tail of a text is kept, then nothing but its size.
RUN_BUDGET_CHARS = 4_000_000
LATE_TAIL_CHARS = 512
HARD_BUDGET_CHARS = 6_000_000


@dataclass(frozen=True)
class Evidence:
    """One raw text: `kind` is log, events or status; `cut_chars` is how much of it was left out."""

    kind: str
    text: str
    cut_chars: int = 0


class EvidenceBudget:
    """Caps texts one by one under the budget of the whole run, in the order they arrive."""

    def __init__(self) -> None:
        self.kept_chars = 0
        self.cut_chars = 0

    def take(self, kind: str, text: str) -> Evidence:
        """Return the capped text and count what was kept and cut."""
        evidence = self._capped(kind, text)
        self.kept_chars += len(evidence.text)
        self.cut_chars += evidence.cut_chars
        return evidence

    def _capped(self, kind: str, text: str) -> Evidence:
        if self.kept_chars >= HARD_BUDGET_CHARS:
            return Evidence(kind, "", len(text))
        if self.kept_chars >= RUN_BUDGET_CHARS:
            kept = text[-LATE_TAIL_CHARS:]
            return Evidence(kind, kept, len(text) - len(kept))
        return _head_and_tail(kind, text)


def _head_and_tail(kind: str, text: str) -> Evidence:
    cut = len(text) - HEAD_CHARS - TAIL_CHARS
    if cut <= 0:
        return Evidence(kind, text)
    kept = f"{text[:HEAD_CHARS]}\n[… {cut} characters cut here; the record has all of them …]\n{text[-TAIL_CHARS:]}"
    return Evidence(kind, kept, cut)
