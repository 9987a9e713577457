"""Resource amounts: text such as "500m", "2Gi" or "8" to whole numbers that can be added and compared.

Owns the rounding; must not know what a resource is used for. cpu counts in thousandths, all else in units (bytes).
"""

from __future__ import annotations

import math
from functools import lru_cache

from simcluster.api.quantities import parse


@lru_cache(maxsize=8192)
def _amount(thousandths: bool, text: str) -> int:
    return math.ceil(parse(text) * (1000 if thousandths else 1))


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
