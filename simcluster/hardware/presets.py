"""GPU models by their everyday name: what the driver and GPU feature discovery say of them.

Owns these numbers. Pure data: it must not know topologies or nodes. Memory is MiB as the driver reports it (less than
the marketing number where ECC or firmware keep a part); power limit in W, clocks in MHz.
Memory and product names are those that public reports show; power and compute capability are plausible values of each
model, which no check rests on.
"""

from __future__ import annotations

from typing import Any, Final

PRESETS: Final[dict[str, dict[str, Any]]] = {
    "H100": {
        "product": "NVIDIA-H100-80GB-HBM3",
        "name": "NVIDIA H100 80GB HBM3",
        "memory_mib": 81559,
        "compute": "9.0",
        "family": "hopper",
        "power_w": 700,
        "sm_clock_mhz": 1980,
        "mem_clock_mhz": 2619,
        "nvlinks": 18,
        "nvlink_mb_s": 26562,
        "mig_capable": True,
    },
    "H200": {
        "product": "NVIDIA-H200",
        "name": "NVIDIA H200",
        "memory_mib": 143771,
        "compute": "9.0",
        "family": "hopper",
        "power_w": 700,
        "sm_clock_mhz": 1980,
        "mem_clock_mhz": 3201,
        "nvlinks": 18,
        "nvlink_mb_s": 26562,
        "mig_capable": True,
    },
    "B200": {
        "product": "NVIDIA-B200",
        "name": "NVIDIA B200",
        "memory_mib": 183359,
        "compute": "10.0",
        "family": "blackwell",
        "power_w": 1000,
        "sm_clock_mhz": 1965,
        "mem_clock_mhz": 3996,
        "nvlinks": 18,
        "nvlink_mb_s": 53125,
        "mig_capable": True,
    },
    "A100": {
        "product": "NVIDIA-A100-SXM4-80GB",
        "name": "NVIDIA A100-SXM4-80GB",
        "memory_mib": 81920,
        "compute": "8.0",
        "family": "ampere",
        "power_w": 400,
        "sm_clock_mhz": 1410,
        "mem_clock_mhz": 1593,
        "nvlinks": 12,
        "nvlink_mb_s": 25000,
        "mig_capable": True,
    },
    "L40S": {
        "product": "NVIDIA-L40S",
        "name": "NVIDIA L40S",
        "memory_mib": 46068,
        "compute": "8.9",
        "family": "ada-lovelace",
        "power_w": 350,
        "sm_clock_mhz": 2520,
        "mem_clock_mhz": 9001,
        "nvlinks": 0,
        "fabric": False,
        "mig_capable": False,
    },
}
