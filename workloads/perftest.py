"""What perftest's ib_write_bw reports: the average rate of one run, from its text or its JSON.

Owns the report's form and its units, which are read from the head of its columns (perftest's manual page: MB are 2**20
bytes unless --report_gbits). The peak is never taken. A report that is not wholly understood has no rate: None.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Dict, List, Optional

_AVERAGE = re.compile(r"BW average\[([A-Za-z/]{1,10})\]")
_COLUMN = re.compile(r"#?[A-Za-z]+(?: [a-z]+)?(?:\[[^\]]*\])?")
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?")
GBITS = {"Gb/sec": 1.0, "MB/sec": (1 << 20) * 8 / 1e9, "MiB/sec": (1 << 20) * 8 / 1e9}
MAX_GBITS = 10_000.0
"""No port is that fast: a number beyond it is damage."""


def average_gbits(report: str) -> Optional[float]:
    """The average of the report's only run in Gb/s; None for anything that is not such a report."""
    found = _from_json(report) if report.lstrip().startswith("{") else _from_text(report)
    return found if found is not None and math.isfinite(found) and 0 < found < MAX_GBITS else None


def _from_text(report: str) -> Optional[float]:
    lines = report.splitlines()
    heads = [number for number, line in enumerate(lines) if _AVERAGE.search(line)]
    if len(heads) != 1:
        return None
    columns = _COLUMN.findall(lines[heads[0]])
    rows = _rows(lines[heads[0] + 1 :])
    # An average over several sizes is none: one run has one row, with a number for every column.
    if rows is None or len(rows) != 1 or len(rows[0]) != len(columns):
        return None
    unit = _AVERAGE.search(lines[heads[0]])
    place = [number for number, name in enumerate(columns) if name.startswith("BW average")]
    if unit is None or unit.group(1) not in GBITS or len(place) != 1:
        return None
    return float(rows[0][place[0]]) * GBITS[unit.group(1)]


def _rows(lines: List[str]) -> Optional[List[List[str]]]:
    """The rows up to the rule that ends them; None where no rule does, or a line between is no row."""
    rows: List[List[str]] = []
    for line in lines:
        if line.startswith("----"):
            return rows
        words = line.split()
        if not words or not all(_NUMBER.fullmatch(word) for word in words):
            return None
        rows.append(words)
    return None


def _from_json(report: str) -> Optional[float]:
    try:
        told: Any = json.loads(report)
    except (ValueError, RecursionError):
        return None
    results: Any = told.get("results") if isinstance(told, dict) else None
    if not isinstance(results, dict):
        return None
    averages: Dict[str, Any] = {key: value for key, value in results.items() if str(key).startswith("BW_average")}
    if len(averages) != 1:
        return None
    ((key, value),) = averages.items()
    info = told.get("test_info")
    unit = key[len("BW_average") :].strip("[]") or (info.get("BW_unit") if isinstance(info, dict) else None)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isinstance(unit, str):
        return None
    return float(value) * GBITS[unit] if unit in GBITS and value < MAX_GBITS * 1e3 else None
