"""Memory of a container's processes, sampled: an unprivileged user namespace has no cgroups to set a limit with.

Owns the estimate. It must not know what happens to whoever is over the limit.
"""

from __future__ import annotations

import os
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
PERIOD_S = 0.05


def tree(pid: int) -> list[int]:
    """The process and all its descendants."""
    found = [pid]
    for parent in found:
        try:
            threads = list(Path(f"/proc/{parent}/task").iterdir())
        except (FileNotFoundError, ProcessLookupError):
            continue
        for thread in threads:
            try:
                children = (thread / "children").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            found.extend(int(child) for child in children.split())
    return found


def resident_bytes(pid: int) -> int:
    """What the process tree holds: each process's own pages, and the largest set of shared ones once."""
    own, shared = 0, 0
    for process in tree(pid):
        try:
            fields = Path(f"/proc/{process}/statm").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        resident, common = int(fields[1]), int(fields[2])
        own += resident - common
        shared = max(shared, common)
    return (own + shared) * _PAGE


def own_bytes(pid: int) -> int:
    """What one process holds alone."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return (int(fields[1]) - int(fields[2])) * _PAGE
