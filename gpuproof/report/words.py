"""Owns the words, signs and order of verdicts and decisions on every report; must not know how one is reached."""

from collections.abc import Mapping
from typing import Final, Literal

Verdict = Literal["PASS", "FAIL", "ERROR", "NOT_RUN", "NOT_APPLICABLE", "RECORDED"]
Decision = Literal["ACCEPTED", "REJECTED", "UNDECIDED"]

# Worst first: the order of every table, and the rule when one subject has several verdicts.
VERDICTS: Final[tuple[Verdict, ...]] = ("FAIL", "ERROR", "NOT_RUN", "RECORDED", "NOT_APPLICABLE", "PASS")

# A sign beside the word, so that no meaning hangs on colour.
SIGNS: Final[Mapping[str, str]] = {
    "PASS": "✓",
    "FAIL": "✗",
    "ERROR": "!",
    "NOT_RUN": "○",
    "NOT_APPLICABLE": "-",
    "RECORDED": "•",
    "ACCEPTED": "✓",
    "REJECTED": "✗",
    "UNDECIDED": "?",
}

MEANINGS: Final[Mapping[str, str]] = {
    "PASS": "every required finding met",
    "FAIL": "measured and missed, or the cluster refused by its own fault",
    "ERROR": "could not be judged: harness, image or environment",
    "NOT_RUN": "planned and not reached",
    "NOT_APPLICABLE": "left out by the profile, with a reason",
    "RECORDED": "measured and shown, not judged",
    "ACCEPTED": "Every required check passed on everything this run promised to cover.",
    "REJECTED": "At least one required check failed: the cluster does not deliver what the profile asks for.",
    "UNDECIDED": "This run does not settle it: there is no basis here to accept the cluster, nor to reject it.",
}


def severity(verdict: str) -> int:
    """Return the rank of a verdict, 0 being the worst; an unknown word ranks with ERROR."""
    return VERDICTS.index(verdict) if verdict in VERDICTS else VERDICTS.index("ERROR")


def spoken(verdict: str) -> str:
    """Return the verdict as a reader sees it, `NOT RUN` for `NOT_RUN`."""
    return verdict.replace("_", " ")
