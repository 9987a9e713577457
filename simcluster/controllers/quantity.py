"""Resource amounts: text such as "500m", "2Gi" or "8" to whole numbers that can be added and compared.

Owns the suffixes; must not know what a resource is used for. cpu counts in thousandths, all else in units (bytes).
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from functools import lru_cache

_TEXT = re.compile(r"^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([numkMGTPE]|[KMGTPE]i)?$")
_FACTOR = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("0.001"),
    "k": Decimal(1000),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    **{f"{letter}i": Decimal(1024 ** (power + 1)) for power, letter in enumerate("KMGTPE")},
}


@lru_cache(maxsize=4096)
def number(text: str) -> Decimal:
    """The exact amount; ValueError where the text is no quantity."""
    found = _TEXT.match(text)
    if found is None:
        message = f"{text!r} is no quantity: expected a number with an optional suffix such as m, k, Gi"
        raise ValueError(message)
    return Decimal(found[1]) * _FACTOR.get(found[2] or "", Decimal(1))


@lru_cache(maxsize=8192)
def _amount(thousandths: bool, text: str) -> int:
    return math.ceil(number(text) * (1000 if thousandths else 1))


def amount(resource: str, value: str | float) -> int:
    """The amount of a resource, rounded up: thousandths of cpu, units of anything else."""
    return _amount(resource.rsplit(".", 1)[-1] == "cpu", str(value))


def text_of(resource: str, value: int) -> str:
    """The shortest text of an amount that keeps it exact: "2", "500m", "3Gi"."""
    if resource.rsplit(".", 1)[-1] == "cpu":
        return str(value // 1000) if value % 1000 == 0 else f"{value}m"
    for power, letter in reversed(list(enumerate("KMGTPE", start=1))):
        unit = 1024**power
        if value and value % unit == 0:
            return f"{value // unit}{letter}i"
    return str(value)
