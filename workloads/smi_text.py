"""What nvidia-smi wrote, read with distrust: a table by its header's names, and every word that stands for no value.

Knows the tool's text and nothing else. The words are those that its manual page and its users show for a value that
it cannot read: a GPU that needs a reset or has lost its bus still has a row, and a lone error line has none.
"""

from __future__ import annotations

import csv
import re
from typing import Dict, List, NamedTuple, Optional

INDEX, UUID, NAME, DRIVER, MEMORY = "index", "uuid", "name", "driver_version", "memory.total"
ESSENTIAL = (INDEX, UUID, NAME, DRIVER, MEMORY)
"""Without these a row says nothing about its GPU."""

_IDENTITY = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SHAPES = {
    INDEX: re.compile(r"[0-9]{1,3}"),
    UUID: re.compile("GPU-" + _IDENTITY.pattern),
    NAME: re.compile(r"(?!\[)(?!ERR!)(?!N/A)[A-Za-z0-9][A-Za-z0-9 ()+._/-]*"),
    DRIVER: re.compile(r"[0-9]{2,4}(?:\.[0-9]+){1,3}"),
    MEMORY: re.compile(r"[0-9]{1,9} MiB"),
}
_SLICE = re.compile(r"\s+MIG (\S+)\s+Device\s+[0-9]+:\s+\(UUID: (MIG-[^)]+)\)")

Row = Dict[str, str]


class Slice(NamedTuple):
    """A MIG instance in a listing: its profile, such as "1g.10gb", and its UUID."""

    profile: str
    uuid: str


def rows_of(text: str) -> List[Row]:
    """CSV rows keyed by the header's names without their units ("memory.total [MiB]" is "memory.total").

    A row with more or fewer cells than the header is none, nor is anything above the header.
    """
    lines = [[cell.strip() for cell in line] for line in _cells(text)]
    for number, header in enumerate(lines):
        names = [cell.partition(" [")[0] for cell in header]
        if UUID in names and INDEX in names:
            return [dict(zip(names, cells)) for cells in lines[number + 1 :] if len(cells) == len(names)]
    return []


def _cells(text: str) -> List[List[str]]:
    found = []
    for line in text.splitlines():
        try:
            found += list(csv.reader([line]))
        except csv.Error:  # a NUL or an open quote: whatever this line is, it is no row
            continue
    return found


def unreadable(rows: List[Row]) -> List[str]:
    """Every essential cell that holds no value of its kind, as "GPU 1 memory.total: ERR!", and rows out of order."""
    found = []
    for place, row in enumerate(rows):
        for name in ESSENTIAL:
            cell = row.get(name, "")
            if not _SHAPES[name].fullmatch(cell):
                found.append("GPU %d %s: %s" % (place, name, cell[:40] or "empty"))
        if row.get(INDEX) != str(place):
            found.append("row %d is about GPU %s" % (place, row.get(INDEX, "?")[:40]))
    return found


def memory_mib(cell: str) -> Optional[float]:
    """A cell such as "81559 MiB" in MiB; None for "[N/A]", "ERR!" and other words."""
    return float(cell.partition(" ")[0]) if _SHAPES[MEMORY].fullmatch(cell) else None


def slices_of(text: str) -> List[Slice]:
    """The MIG instances of `nvidia-smi -L`, in its order."""
    matches = (_SLICE.fullmatch(line.rstrip()) for line in text.splitlines())
    return [Slice(match.group(1), match.group(2)) for match in matches if match]
