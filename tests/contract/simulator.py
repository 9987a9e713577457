"""Starts a simulated cluster as its users do: one command, one line of JSON, ended by closing its standard input.

Owns the subprocess. It must not know what runs on the cluster.
"""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

_READY_S = 40.0


class NotStartedError(Exception):
    """The simulated cluster did not become ready; the text is what it said."""


@contextlib.contextmanager
def simulated(
    directory: Path, *, time_scale: float, topology: str = "small", more: Sequence[str] = ()
) -> Iterator[Path]:
    """A running simulated cluster; yields its kubeconfig. `directory` gets its files and its log."""
    directory.mkdir(parents=True, exist_ok=True)
    words = ["serve", "--exit-with-stdin", "--topology", topology, "--time-scale", str(time_scale)]
    with (directory / "stderr").open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "simcluster", *words, "--dir", str(directory / "state"), *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=Path(__file__).parents[2],
        )
    try:
        yield Path(_ready_line(process, directory)["kubeconfig"])
    finally:
        _end(process)


def _ready_line(process: subprocess.Popen[bytes], directory: Path) -> dict[str, str]:
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], _READY_S)
    line = process.stdout.readline() if readable else b""
    if not line:
        raise NotStartedError((directory / "stderr").read_text(encoding="utf-8", errors="replace") or "no ready line")
    found: dict[str, str] = json.loads(line)
    return found


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)
    process.stdout.close()
