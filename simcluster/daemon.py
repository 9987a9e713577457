"""A cluster in the background: `up`, `down` and `status`, by way of one directory of state a name.

Owns that directory and the process behind it. It must not know what the process does but for its ready line.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_READY_WITHIN_S = 60.0
_GONE_WITHIN_S = 15.0
_POLL_S = 0.02
_NAME = re.compile(r"^[a-z0-9][a-z0-9-]{0,30}$")


class DaemonError(Exception):
    """The cluster cannot be started or stopped; the text says why."""


@dataclass(frozen=True)
class Running:
    """A cluster that runs: the ready line's fields."""

    ready: dict[str, Any]

    @property
    def kubeconfig(self) -> Path:
        """What clients need."""
        return Path(self.ready["kubeconfig"])


def state_home() -> Path:
    """Where the directories of all clusters lie, by the XDG base directory rules."""
    given = os.environ.get("XDG_STATE_HOME")
    return (Path(given) if given else Path.home() / ".local" / "state") / "simcluster"


class Daemon:
    """The cluster of one name."""

    def __init__(self, name: str = "default", home: Path | None = None) -> None:
        if not _NAME.match(name):
            raise DaemonError(f"{name!r} is no name for a cluster: lower case letters, digits and dashes only")
        self.directory = (home if home is not None else state_home()) / name

    def status(self) -> Running | None:
        """The running cluster, or None."""
        try:
            ready: dict[str, Any] = json.loads((self.directory / "ready.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        return Running(ready) if _is_ours(int(ready["pid"]), self.directory) else None

    def up(self, arguments: Sequence[str]) -> Running:
        """Start it with these arguments of `serve`, and wait until it is ready. Raises `DaemonError`."""
        if self.status() is not None:
            raise DaemonError(f"a cluster runs already in {self.directory}: take it down first")
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True, mode=0o700)
        ready, errors = self.directory / "ready.json", self.directory / "stderr"
        command = [sys.executable, "-m", "simcluster", "serve", "--dir", str(self.directory), *arguments]
        package_root = str(Path(__file__).resolve().parent.parent)
        path = os.pathsep.join(part for part in (package_root, os.environ.get("PYTHONPATH", "")) if part)
        with ready.open("wb") as out, errors.open("wb") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                start_new_session=True,
                cwd="/",
                env={**os.environ, "PYTHONPATH": path},
            )
        if _until(lambda: self._is_ready() or process.poll() is not None, _READY_WITHIN_S) and self._is_ready():
            running = self.status()
            if running is not None:
                return running
        process.kill()
        process.wait()
        told = errors.read_text(encoding="utf-8", errors="replace").strip()
        shutil.rmtree(self.directory, ignore_errors=True)
        raise DaemonError(told or f"the cluster was not ready within {_READY_WITHIN_S:g} s")

    def _is_ready(self) -> bool:
        return (self.directory / "ready.json").read_bytes().endswith(b"\n")

    def down(self) -> bool:
        """End it and remove its directory; False where there was none. Raises `DaemonError`."""
        running = self.status()
        if running is not None:
            pid = int(running.ready["pid"])
            for number in (signal.SIGTERM, signal.SIGKILL):
                os.kill(pid, number)
                if _until(lambda: not _is_ours(pid, self.directory), _GONE_WITHIN_S):
                    break
            else:
                raise DaemonError(f"process {pid} does not end")
        there = self.directory.exists()
        shutil.rmtree(self.directory, ignore_errors=True)
        return there


def _is_ours(pid: int, directory: Path) -> bool:
    """Whether the process is a simulator with this directory: a pid alone may belong to somebody else by now."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False
    return state != "Z" and b"simcluster" in words and str(directory).encode() in words


def _until(holds: Callable[[], bool], patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True
