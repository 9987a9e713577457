"""Which GPUs does this container see? Asked of four witnesses, none of which needs a request to have been made.

Owns the witnesses: NVML, nvidia-smi, the CUDA driver and the device files. A container without the driver's libraries
sees none, which is an answer. It must not know how many were asked for.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Dict, List, NamedTuple

from workloads.contract import Sample
from workloads.cuda_driver import CudaError, Driver
from workloads.nvml import Nvml, NvmlError

DEVICE_FILE = re.compile(r"nvidia[0-9]+")
_LISTED = re.compile(r"GPU [0-9]+: .*\(UUID: (GPU-[^)]+)\)")
_INSTANCE = re.compile(r"\s+MIG .*\(UUID: (MIG-[^)]+)\)")


class Seen(NamedTuple):
    """What each witness counts, and the UUIDs (of MIG instances where there are any) that could be read."""

    by: Dict[str, int]
    uuids: List[str]


def samples_of(seen: Seen, asked: int, container: str) -> List[Sample]:
    """One sample a witness, of a container that asked for so many."""
    return [
        Sample("gpus_seen", float(count), "count", {"asked": asked, "container": container, "by": witness})
        for witness, count in seen.by.items()
    ]


def look(timeout_s: float) -> Seen:
    """Ask all witnesses."""
    physical, instances = listed(timeout_s)
    shown = from_nvml()
    counts = {
        "nvml": len(shown),
        "nvidia-smi": len(physical),
        "cuda": from_cuda(),
        "device files": device_files(),
    }
    return Seen(counts, sorted(instances or set(physical) | set(shown)))


def from_nvml() -> List[str]:
    """The UUIDs of the physical GPUs that NVML shows; a GPU that cannot be read counts by its number."""
    try:
        nvml = Nvml()
        devices = [(number, nvml.device(number)) for number in range(nvml.count())]
        return [device.uuid() or "GPU %d" % number for number, device in devices]
    except NvmlError:
        return []


def from_cuda() -> int:
    """How many devices a program may use."""
    try:
        return Driver().device_count()
    except CudaError:
        return 0


def listed(timeout_s: float) -> "tuple[List[str], List[str]]":
    """The UUIDs in `nvidia-smi -L`: of physical GPUs, and of MIG instances."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return [], []
    try:
        done = subprocess.run([tool, "-L"], capture_output=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return [], []
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    matches = [[pattern.match(line) for line in lines] for pattern in (_LISTED, _INSTANCE)]
    physical, instances = ([found.group(1) for found in each if found] for each in matches)
    return physical, instances


def device_files(folder: str = "/dev") -> int:
    """Character devices of the name of a GPU; a plain file of that name is none."""
    try:
        named = [place for place in Path(folder).iterdir() if DEVICE_FILE.fullmatch(place.name)]
        return sum(place.is_char_device() for place in named)
    except OSError:
        return 0
