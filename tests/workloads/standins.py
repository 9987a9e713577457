"""A node's GPUs as the stand-ins show them, for programs that the tests start outside of any cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simcluster.hardware.build import build_into
from simcluster.hardware.gpus import NodeGpus
from simcluster.topology import GpuModel
from workloads.contract import Measurement, parse

ROOT = Path(__file__).resolve().parents[2]
TOOL = """#!/bin/sh
exec {python} -I -c "import sys; sys.path.insert(0, '{root}'); sys.argv[0] = 'nvidia-smi'
from simcluster.hardware.tools.nvidia_smi import main; sys.exit(main())" "$@"
"""


@dataclass
class Bench:
    """Programs see the GPUs of `node` that were given to `show`."""

    directory: Path
    node: NodeGpus

    @classmethod
    def of(cls, directory: Path, model: GpuModel | None = None) -> Bench:
        """Two simulated GPUs, or what the model says."""
        (directory / "lib").mkdir()
        (directory / "bin").mkdir()
        build_into(directory / "lib")
        tool = directory / "bin" / "nvidia-smi"
        tool.write_text(TOOL.format(python=sys.executable, root=ROOT))
        tool.chmod(0o755)
        made = cls(directory, NodeGpus.of("gpu-01", model or GpuModel(count=2)))
        made.show([unit for units in made.node.units().values() for unit in units])
        return made

    @property
    def state(self) -> Path:
        """The state file, of the name that a container's has."""
        return self.directory / "measure.gpus"

    def show(self, units: Sequence[str]) -> None:
        """From now on programs see these units."""
        self.node.show(self.state, units)

    def environment(self, **more: str) -> dict[str, str]:
        """What a container on the node would have."""
        return {
            **{key: value for key, value in os.environ.items() if not key.startswith("GPUPROOF_")},
            "SIMCLUSTER_GPU_STATE": str(self.state),
            "LD_LIBRARY_PATH": str(self.directory / "lib"),
            "PATH": f"{self.directory / 'bin'}:{os.environ['PATH']}",
            "TERMINATION_LOG": str(self.directory / "message"),
            "PYTHONPATH": str(ROOT),
            **more,
        }

    def start(self, program: str, **environment: str) -> subprocess.Popen[str]:
        """Start `workloads/PROGRAM.py`; its output is a pipe."""
        command = [sys.executable, "-u", "-m", f"workloads.{program}"]
        return subprocess.Popen(
            command, env=self.environment(**environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def measured(self, process: subprocess.Popen[str]) -> Measurement:
        """Wait for the program's end and read its measurement; fails with its output where it gave none."""
        output, _ = process.communicate(timeout=90)
        assert process.returncode == 0, output
        return parse((self.directory / "message").read_text())


def values(measurement: Measurement, *keys: str) -> dict[Any, float]:
    """By metric and the named keys of the operating point, the samples' values."""
    return {(sample.metric, *(sample.at.get(key) for key in keys)): sample.value for sample in measurement.samples}
