"""How fast a simulated GPU is in its present state: rates that the CUDA stand-in keeps to, far below what a CPU can do.

Owns these rates and what slows them. A rate says nothing about a real GPU; what is real is that a GPU with four lanes
instead of sixteen, or with its clock held at a quarter, takes four times as long. It must not know nodes or files.
"""

from __future__ import annotations

from dataclasses import dataclass

FULL_MFLOPS = 800.0
"""Millions of operations a second at the highest clock: a product of 256 x 256 takes 42 ms, a CPU needs a few."""
FULL_MEMORY_MB_S = 400.0
"""Bytes read and written inside the device, at the highest memory clock."""
LANE_MB_S = 12.5
"""One PCIe lane of generation 5; each generation has twice the rate of the one before."""
NVLINK_SHARE = 1 / 500
"""Of the rate that an NVLink claims."""
_GENERATION = 5


@dataclass(frozen=True)
class Pace:
    """Millions of operations, and MB (1e6 bytes), a second."""

    mflops: float
    to_device: float
    to_host: float
    inside: float
    to_peer: float


def pace(
    *,
    clock_share: float,
    memory_clock_share: float,
    foreign_share: float,
    pcie_generation: int,
    pcie_width: int,
    nvlinks_up: int,
    nvlink_mb_s: int,
) -> Pace:
    """The rates of a GPU whose clocks run at these shares of their maximum and whose foreign load takes its share."""
    pcie = pcie_width * LANE_MB_S * 2.0 ** (pcie_generation - _GENERATION)
    links = nvlinks_up * nvlink_mb_s * NVLINK_SHARE
    return Pace(
        mflops=FULL_MFLOPS * clock_share * (1 - foreign_share),
        to_device=pcie,
        to_host=pcie,
        inside=FULL_MEMORY_MB_S * memory_clock_share,
        to_peer=links or pcie / 2,
    )
