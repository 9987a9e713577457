"""Owns what reports read out of a bound's text: its number and its good side; must not judge anything by it."""

import re
from typing import Literal

Side = Literal["at least", "at most", "exactly"]

_BOUND = re.compile(r"^\s*(>=|<=|=)\s*(-?\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?)(?=$|[\s(%])")
_SIDES: dict[str, Side] = {">=": "at least", "<=": "at most", "=": "exactly"}


def side_of(text: str) -> Side | None:
    """Return on which side of a bound such as `>= 0.75 x fleet_median` a value is good; None for words and lists."""
    return next((side for sign, side in _SIDES.items() if text.lstrip().startswith(sign)), None)


def number_of(text: str) -> float | None:
    """Return the number of a bound such as `>= 400 GB/s`; None where it has none, or is a fraction of something."""
    found = _BOUND.match(text)
    if found is None or re.match(r"\s*x ", text[found.end() :]):
        return None
    return float(found.group(2).replace("_", ""))


def margin(observed: object, bound: object) -> float | None:
    """
    Return how far a number is on the good side of its bound, as a share of the bound: 0.1 is 10 % better than needed,
    -0.5 is half of what was asked. None for words, for `exactly`, for a bound of zero and for what is not finite.
    """
    if not isinstance(observed, int | float) or isinstance(observed, bool) or not isinstance(bound, str):
        return None
    side, limit = side_of(bound), number_of(bound)
    if limit is None or limit == 0 or side not in ("at least", "at most") or observed - observed != 0:
        return None
    share = (observed - limit) / abs(limit)
    return share if side == "at least" else -share


def margin_text(observed: object, bound: object) -> str:
    """Return the margin as a reader takes it, `+12 %`; empty where there is none to tell."""
    share = margin(observed, bound)
    return "" if share is None else f"{share * 100:+.3g} %"
