"""Kubernetes quantities ("500m", "1Gi"): exact numbers from text, and the one canonical text of each.

Owns the arithmetic. It must not know what is being counted.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

_PARTS = re.compile(r"^([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][-+]?[0-9]+)|([numkKMGTPEi]*))$")
_LARGEST_POWER = 100
_BINARY = {f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", start=1)}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


@lru_cache(maxsize=8192)
def parse(text: str | float) -> Decimal:
    """The number a quantity stands for; a bare number is one too. Raises ValueError for what is none."""
    found = _PARTS.match(str(text))
    if found is None:
        raise ValueError(f"{text!r} is no quantity: expected a number with an optional suffix such as m, k, Gi")
    number = Decimal(found[1])
    if found[2]:
        if abs(int(found[2][1:])) > _LARGEST_POWER:
            raise ValueError(f"out of all proportion: {text!r}")
        return number * Decimal(10) ** int(found[2][1:])
    suffix = found[3] or ""
    if suffix in _BINARY:
        return number * _BINARY[suffix]
    if suffix in _DECIMAL:
        return number * Decimal(10) ** _DECIMAL[suffix]
    raise ValueError(f"{text!r} is no quantity: expected a number with an optional suffix such as m, k, Gi")


def _scaled(value: Decimal, scales: dict[str, Decimal]) -> str:
    best = str(int(value)) if value == int(value) else ""
    for suffix, scale in scales.items():
        if value % scale == 0:
            best = f"{int(value / scale)}{suffix}"
    return best


_UP = {"k": Decimal(10) ** 3, "M": Decimal(10) ** 6, "G": Decimal(10) ** 9, "T": Decimal(10) ** 12}
_UP |= {"P": Decimal(10) ** 15, "E": Decimal(10) ** 18}
_DOWN = {"m": Decimal(1000), "u": Decimal(10) ** 6, "n": Decimal(10) ** 9}


@lru_cache(maxsize=8192)
def canonical(text: str) -> str:
    """The shortest text with an integer in the family (binary or decimal) that the quantity was written in."""
    if text.isdigit() and (text == "0" or (text[0] != "0" and not text.endswith("000"))):
        return text
    try:
        value = parse(text)
    except ValueError:
        return text
    if value == 0:
        return "0"
    if "i" in text and value == int(value):
        return _scaled(value, _BINARY) if abs(value) >= 1024 else str(int(value))
    if value == int(value):
        return _scaled(value, _UP)
    for suffix, scale in _DOWN.items():
        scaled = value * scale
        if scaled == int(scaled):
            return f"{int(scaled)}{suffix}"
    return f"{int((value * _DOWN['n']).to_integral_value(rounding='ROUND_UP'))}n"


def render(value: Decimal, *, binary: bool) -> str:
    """A sum as text."""
    if value == 0:
        return "0"
    if value != int(value):
        return canonical(f"{int(value * 1000)}m")
    return canonical(f"{int(value / 1024)}Ki") if binary and value % 1024 == 0 else canonical(str(int(value)))
