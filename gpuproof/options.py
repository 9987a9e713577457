"""What a user asked for, and why it cannot be done.

Must not know how anything of it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuproof.catalogue import ACCEPTANCE

Listener = Callable[[Mapping[str, Any]], None]


class LaunchError(Exception):
    """Why no run can start: usage, profile, checks or cluster; exit code 2."""


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    profile: Path
    simulated: bool = False
    context: str | None = None
    kubeconfig: Path | None = None
    in_cluster: bool = False
    run_id: str = ""
    out: Path = Path("reports")
    image: str | None = None
    resume: Path | None = None
    topology: str = "small"
    faults: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    folders: tuple[Path, ...] = (ACCEPTANCE,)
    only: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    narrowed: str | None = None
    """How the command line cut the run down, in words; None for the whole."""
    baseline: Path | None = None
    """Folder of the earlier run that limits with `of = "baseline"` are relative to."""
    max_gpu_hours: float | None = None
    """No run begins whose checks may hold GPUs for longer, by the profile's deadlines."""
    listener: Listener | None = None
    """Called with every line of the record as it is written."""
