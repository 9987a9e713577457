"""Kubernetes quantities ("64Mi", "500m", "2") as numbers.

Owns the suffixes. It must not know what is measured.
"""

from __future__ import annotations

import re
from decimal import Decimal

_NUMBER = re.compile(r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$")
_SUFFIXES = {
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
}


def parse(value: str | int | float) -> Decimal:
    """The number a quantity stands for; `ValueError` where it is none."""
    text = str(value)
    for suffix, factor in _SUFFIXES.items():
        if text.endswith(suffix):
            return _number(text[: -len(suffix)], text) * factor
    return _number(text, text)


def _number(text: str, whole: str) -> Decimal:
    if not _NUMBER.match(text):
        raise ValueError(f"not a Kubernetes quantity: {whole!r}")
    return Decimal(text)
