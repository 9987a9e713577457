"""Starts and stops the embedded simulated cluster through its own command line.

Must not know what the simulator is made of, and imports none of it: a process, one line of JSON, a kubeconfig.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

READY_WITHIN_S = 60.0
STOP_WITHIN_S = 20.0


class SimulationError(RuntimeError):
    """The simulated cluster did not come up; says what it said."""


@dataclass
class Simulation:
    """A running simulated cluster; stops with the context, with the harness process, or when its stdin is closed."""

    kubeconfig: Path
    process: subprocess.Popen[bytes]
    log: IO[bytes]

    def stop(self) -> None:
        """End the simulator and wait until it is gone; kill it where it does not listen."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.log):
            if stream is not None:
                stream.close()

    def __enter__(self) -> Simulation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start(topology: str = "small", faults: Sequence[str] = (), time_scale: float | None = None) -> Simulation:
    """Start `python -m simcluster serve` and wait until it is ready; raises `SimulationError`."""
    # It keeps its files in a folder of its own, which goes with it: a harness that is killed could not remove one.
    command = [sys.executable, "-m", "simcluster", "serve", "--exit-with-stdin", "--topology", topology]
    for fault in faults:
        command += ["--fault", fault]
    if time_scale is not None:
        command += ["--time-scale", str(time_scale)]
    log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `stop`; it has no name, so nothing can stay behind
    # Its own session: a Ctrl-C must reach the harness first, which still needs the cluster to tidy up.
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        start_new_session=True,
        env=_environment(),
    )
    simulation = Simulation(Path(), process, log)
    try:
        ready = json.loads(_first_line(process, log))
        simulation.kubeconfig = Path(ready["kubeconfig"])
    except BaseException:
        simulation.stop()
        raise
    return simulation


def command(*words: str) -> int:
    """Run one command of the simulator with this process's terminal; its exit code."""
    return subprocess.run([sys.executable, "-m", "simcluster", *words], env=_environment(), check=False).returncode


def _environment() -> dict[str, str]:
    here = str(Path(__file__).resolve().parent.parent)
    path = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{here}{os.pathsep}{path}" if path else here}


def _first_line(process: subprocess.Popen[bytes], log: IO[bytes]) -> bytes:
    assert process.stdout is not None
    deadline = time.monotonic() + READY_WITHIN_S
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            if not selector.select(deadline - time.monotonic()):
                raise SimulationError(f"the simulated cluster was not ready within {READY_WITHIN_S:g} s\n{_tail(log)}")
            chunk = os.read(process.stdout.fileno(), 65536)
            if not chunk:
                raise SimulationError(f"the simulated cluster ended before it was ready\n{_tail(log)}")
            line += chunk
    return line


def _tail(log: IO[bytes]) -> str:
    log.seek(0)
    text = log.read().decode("utf-8", "replace").strip()
    return "\n".join(text.splitlines()[-15:]) or "(it said nothing)"
