"""How long the whole network suite takes on eight simulated nodes of two ranks, as a user would run it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from gpuproof.profile import THRESHOLDS
from gpuproof.record import read_record

CHECKS = ("nccl_single_node", "nccl_all_reduce", "nccl_scaling", "nccl_transport", "nccl_localisation")
PROFILE = """schema = 1
profile = "eight"
extends = "{simulated}"
[cluster]
nodes = 8
"""


@dataclass(frozen=True)
class NetworkCost:
    """Seconds of the run without the start of the cluster, its requests, and verdicts that are not PASS."""

    run_s: float
    wall_s: float
    requests: int
    not_passed: int


def network() -> NetworkCost:
    """One run of the five checks on a fresh cluster of eight nodes."""
    with tempfile.TemporaryDirectory() as folder:
        profile, out = Path(folder, "eight.toml"), Path(folder, "run")
        profile.write_text(PROFILE.format(simulated=THRESHOLDS / "simulated.toml"), encoding="utf-8")
        command = [sys.executable, "-c", "from gpuproof.cli import main; main()", "run", "--profile", str(profile)]
        command += ["--cluster", "sim", "--sim-topology", "eight", "--out", str(out)]
        command += [word for check in CHECKS for word in ("--only", check)]
        began = time.monotonic()
        subprocess.run(command, capture_output=True, check=False)
        wall_s = time.monotonic() - began
        lines = read_record(out / "record.jsonl")
    (end,) = [line for line in lines if line["event"] == "run_finished"]
    verdicts = [line["verdict"] for line in lines if line["event"] == "verdict" and line["check"] in CHECKS]
    return NetworkCost(end["seconds"], wall_s, end["requests"], sum(verdict != "PASS" for verdict in verdicts))
