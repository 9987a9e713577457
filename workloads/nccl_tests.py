"""NVIDIA's nccl-tests inside a node, where the image carries them: run, and their table read by its header.

Columns moved and changed names from 2.5 to 2.18 (`error` became `#wrong`, `root` came, lines before and after the table
changed), so a column is what the header calls it, never where it stands. What is not one whole table of the ranks that
were asked for is `NotUnderstood`. Forms: the tool's own source (src/common.cu) and outputs in public
threads (NVIDIA/nccl-tests#71, #82, #106, #120, #182, #294). Python 3.9 syntax, standard library only.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

PROGRAMS = {
    "all_reduce": "all_reduce_perf",
    "all_gather": "all_gather_perf",
    "reduce_scatter": "reduce_scatter_perf",
    "all_to_all": "alltoall_perf",
    "sendrecv": "sendrecv_perf",
}
_RANK = re.compile(r"^#\s+Rank\s+(\d+)\s.*?\bon\s+(\S+)\s+device", re.MULTILINE)
_AVERAGE = re.compile(r"^#\s*Avg bus bandwidth\s*:\s*(\S+)", re.MULTILINE)
_OUT_OF_BOUNDS = re.compile(r"^#\s*Out of bounds values\s*:\s*(\d+)\s*(\w*)", re.MULTILINE)
_REDUCED = re.compile(r"^#\s*Reducing maxBytes to (\d+)", re.MULTILINE)
_VERSION = re.compile(r"nccl-tests version (\S+)")
_MEASURES = ("time", "algbw", "busbw", "wrong")
_NAMES = {"#wrong": "wrong", "error": "wrong", "wrong": "wrong"}
_SHORTEST_US = 0.5
"""No collective of several ranks ends sooner: what does is a world of one (NVIDIA/nccl-tests#294)."""


class NotUnderstood(ValueError):
    """An output that is not one whole table of what was asked for; nothing of it counts."""


@dataclass(frozen=True)
class Half:
    """One half of a row: microseconds, GB/s, and wrong elements, None where they were not checked."""

    time_us: float
    algbw: float
    busbw: float
    wrong: Optional[int]


@dataclass(frozen=True)
class Row:
    """One size in bytes, out of place and in place."""

    size: int
    out_of_place: Half
    in_place: Half


@dataclass(frozen=True)
class Output:
    """A whole table: rows by size, ranks and hosts of the device list, and what the tool says around it."""

    rows: Tuple[Row, ...]
    ranks: int
    hosts: int
    version: str
    out_of_bounds: Optional[int]
    reduced_to: Optional[int]


def parse(text: str, ranks: int) -> Output:
    """Read an output; raises `NotUnderstood` unless it is one table of so many ranks with rows and an end."""
    listed = _RANK.findall(text)
    numbers = sorted(int(rank) for rank, _ in listed)
    if numbers != list(range(ranks)):
        raise NotUnderstood("ranks %s are listed under the devices, expected 0 to %d once each" % (numbers, ranks - 1))
    headers = [line for line in text.splitlines() if _is_header(line)]
    ends = _AVERAGE.findall(text)
    if len(headers) != 1 or len(ends) != 1:
        raise NotUnderstood("%d headers and %d averages, expected one table" % (len(headers), len(ends)))
    columns = headers[0].lstrip("#").split()
    rows = [_row(line.split(), columns) for line in text.splitlines() if _is_row(line, columns)]
    if not rows:
        raise NotUnderstood("the table has no row")
    sizes = [row.size for row in rows]
    if len(set(sizes)) != len(sizes):
        raise NotUnderstood("sizes come more than once: several tables run into one")
    bounds, reduced, version = _OUT_OF_BOUNDS.search(text), _REDUCED.search(text), _VERSION.search(text)
    return Output(
        rows=tuple(rows),
        ranks=len(listed),
        hosts=len({host for _, host in listed}),
        version=version.group(1) if version else "unknown",
        out_of_bounds=int(bounds.group(1)) if bounds else None,
        reduced_to=int(reduced.group(1)) if reduced else None,
    )


def _is_header(line: str) -> bool:
    words = set(line.lstrip("#").split())
    return line.lstrip().startswith("#") and {"size", "count", "type", "time", "busbw"} <= words


def _is_row(line: str, columns: List[str]) -> bool:
    cells = line.split()
    # Noise of libraries and schedulers stands between the rows; a row has a cell a column and begins with a size.
    return len(cells) == len(columns) and cells[0].isascii() and cells[0].isdigit()


def _row(cells: List[str], columns: List[str]) -> Row:
    halves: List[Dict[str, str]] = [{}, {}]
    size = ""
    for name, cell in zip(columns, cells):
        known = _NAMES.get(name, name)
        if known == "size":
            size = cell
        elif known in _MEASURES:
            half = halves[0] if known not in halves[0] else halves[1]
            half[known] = cell
    return Row(int(size), _half(halves[0]), _half(halves[1]))


def _half(cells: Mapping[str, str]) -> Half:
    try:
        wrong = cells["wrong"]
        half = Half(
            time_us=float(cells["time"]),
            algbw=float(cells["algbw"]),
            busbw=float(cells["busbw"]),
            # An old `error` is the largest difference: any but nought is wrong.
            wrong=None if wrong.upper() == "N/A" else (0 if float(wrong) == 0 else max(1, int(float(wrong)))),
        )
    except (KeyError, ValueError, OverflowError) as error:
        raise NotUnderstood("a row without time, algbw, busbw and wrong in both halves: %r" % error) from error
    if not half.time_us >= _SHORTEST_US:
        raise NotUnderstood("a time of %g us: no exchange of several ranks is that quick" % half.time_us)
    return half


def run_node(order: Mapping[str, Any]) -> Dict[str, Any]:
    """All collectives and sizes on the GPUs of this node, one run of the tool each; a node's part of a result."""
    local = int(order["local_ranks"])
    results = []
    for collective in order["collectives"]:
        for size in order["sizes_bytes"]:
            program = shutil.which(PROGRAMS[str(collective)])
            if program is None:
                return {"outcome": "broken", "said": "the image has no %s" % PROGRAMS[str(collective)], "results": []}
            counts = ["-w", str(order["warmups"]), "-n", str(order["iterations"]), "-c", "1"]
            command = [program, "-b", str(size), "-e", str(size), "-g", str(local), *counts]
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=float(order["timeout_s"]), check=False
                )
                # Exit code 1 is its own threshold's; a whole table counts whatever it says.
                output = parse(done.stdout, local)
            except subprocess.TimeoutExpired:
                return {"outcome": "hung", "said": "%s does not end" % " ".join(command), "results": []}
            except NotUnderstood as error:
                return {"outcome": "broken", "said": "%s: %s" % (" ".join(command), error), "results": []}
            results.append(_result(str(collective), int(size), output))
    return {"outcome": "measured", "world": [local], "hosts": [1], "results": results, "census": {}}


def _result(collective: str, size: int, output: Output) -> Dict[str, Any]:
    row = next((row for row in output.rows if row.size == size), output.rows[0])
    half = row.in_place
    return {
        "collective": collective,
        "bytes": size,
        "moved_bytes": row.size,
        "seconds": [half.time_us / 1e6],
        # Not checked is not right: it must not be taken for nought.
        "wrong": -1 if half.wrong is None else half.wrong,
    }
