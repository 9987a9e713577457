"""Reads the state file of a container's GPUs for nvidia-smi.

Owns its lines' meaning and what cannot be read of a GPU. It must not import the simulator.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Row = dict[str, str]


@dataclass
class State:
    """What the container may see: physical GPUs, and its MIG instances where it has such."""

    driver: str = ""
    cuda: str = ""
    nvml_error: int = 0
    gpus: list[Row] = field(default_factory=list)
    instances: list[Row] = field(default_factory=list)


def read_state(path: str) -> State | None:
    """The state file, or None where the node has no driver."""
    state = State()
    kinds: dict[str, list[Row]] = {"gpu": [], "parent": []}
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - this tool starts fast by importing little
            lines = file.read().splitlines()
    except OSError:
        return None
    for line in lines:
        kind, *pairs = line.split("\t")
        values = dict(pair.split("=", 1) for pair in pairs)
        if kind == "node":
            version = int(values.get("cuda", "0"))
            state.nvml_error = int(values.get("nvml", "0"))
            state.driver, state.cuda = values.get("driver", ""), f"{version // 1000}.{version % 1000 // 10}"
        elif kind in kinds:
            kinds[kind].append(values)
    state.gpus, state.instances = (kinds["parent"], kinds["gpu"]) if kinds["parent"] else (kinds["gpu"], [])
    return state


def unreadable(gpu: Row, group: str) -> bool:
    """Whether the driver fails to read this group of values (power, temperature, utilization, memory, clocks, ecc)."""
    return group in gpu.get("errors", "").split(",")


def partitioned(gpu: Row) -> bool:
    """Whether the GPU is split into MIG instances."""
    return gpu["mig"] == "Enabled"
