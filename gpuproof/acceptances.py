"""Finds when each node was last part of an accepted run, among the runs that lie beside the new one.

It must not judge: what it finds is shown, and no decision depends on it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuproof.record import RecordError, read_record
from gpuproof.report import RunView
from gpuproof.report.history import PastRun, accepted_nodes, cluster_key
from gpuproof.run_folder import RECORD

MOST_READ = 12
"""Accepted runs that are read at most: a node that none of the latest accepted is as good as never accepted."""

_TAIL_BYTES = 65_536


@dataclass(frozen=True)
class Acceptances:
    """How many earlier runs there are of this cluster, and by node the last that accepted it: its name and start."""

    runs: int
    nodes: Mapping[str, Mapping[str, str]]


def last_acceptances(folders: Iterable[Path], cluster: Mapping[str, Any], nodes: Collection[str]) -> Acceptances:
    """Look through the runs in these folders, the newest first; a record that cannot be read accepts nobody."""
    wanted = cluster_key(cluster)
    starts = ((_start(folder), folder) for folder in folders)
    begun = [(start, folder) for start, folder in starts if start and cluster_key(start["cluster"]) == wanted]
    newest = sorted(begun, key=lambda each: (str(each[0].get("t")), each[1].name), reverse=True)
    accepting = [folder for _, folder in newest if _may_accept(folder)][:MOST_READ]
    found: dict[str, Mapping[str, str]] = {}
    for run in filter(None, map(past_run, accepting)):
        started = run.view.run.started_at
        for name in accepted_nodes(run.view) & set(nodes):
            found.setdefault(name, {"run": run.name, "at": started.isoformat() if started else ""})
        if len(found) == len(set(nodes)):
            break
    return Acceptances(len(begun), found)


def folders_beside(directory: Path, baseline: Path | None) -> tuple[Path, ...]:
    """The other folders with a record in the folder that this run's is in, and the run that is its baseline."""
    found = [record.parent for record in directory.parent.glob(f"*/{RECORD}")]
    if baseline is not None:
        found.append((baseline.parent if baseline.is_file() else baseline).resolve())
    return tuple(sorted({*found} - {directory}))


def _start(folder: Path) -> Mapping[str, Any] | None:
    try:
        with (folder / RECORD).open("rb") as file:
            line = json.loads(file.readline())
    except (OSError, ValueError, RecursionError):
        return None
    usable = isinstance(line, dict) and line.get("event") == "run_started" and isinstance(line.get("cluster"), dict)
    return line if usable else None


def _may_accept(folder: Path) -> bool:
    """Whether the record's end speaks of an acceptance: most that do not need not be read as a whole."""
    try:
        with (folder / RECORD).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            return b'"ACCEPTED"' in file.read()
    except OSError:
        return False


def past_run(folder: Path) -> PastRun | None:
    """The run in a folder; None where its record cannot be read."""
    try:
        return PastRun(folder.name, RunView.from_record(read_record(folder / RECORD)))
    except (OSError, RecordError):
        return None
