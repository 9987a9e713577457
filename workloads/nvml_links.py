"""NVLink and the NVSwitch fabric as NVML tells of them. Knows no limit and moves no data."""

from __future__ import annotations

import ctypes
from typing import List, Optional, Tuple

from workloads.nvml import Device, NvmlError, answer
from workloads.nvml_types import FABRIC_STATES, FIELD_NVLINK_SPEED, INVALID_ARGUMENT, MAX_NVLINKS, Fabric


def nvlinks(device: Device) -> List[Tuple[int, bool]]:
    """(link, up) of every NVLink the GPU has; empty where it has none. Raises `NvmlError`."""
    found = []
    for link in range(MAX_NVLINKS):
        try:
            state = device.number("nvmlDeviceGetNvLinkState", link)
        except NvmlError as error:
            if error.code == INVALID_ARGUMENT:  # the GPU has no link of this number
                break
            raise
        if state is None:
            break
        found.append((link, bool(state)))
    return found


def speed_gb_s(device: Device, link: int) -> Optional[float]:
    """One link's rate in one direction, GB/s (1e9); the driver gives it in MB/s."""
    rate = device.field(FIELD_NVLINK_SPEED, link)
    return None if rate is None else rate / 1000.0


def link_errors(device: Device, link: int, counter: int) -> Optional[int]:
    """NVLINK_REPLAY, NVLINK_RECOVERY or NVLINK_CRC_FLIT of one link since the driver was loaded."""
    return device.number("nvmlDeviceGetNvLinkErrorCounter", link, counter, kind=ctypes.c_ulonglong)


def fabric_state(device: Device) -> Optional[Tuple[str, int]]:
    """(state, status) of the GPU's registration with the fabric: a word of `FABRIC_STATES`, an NVML code."""

    def ask() -> Tuple[str, int]:
        fabric = Fabric()
        device.nvml.call("nvmlDeviceGetGpuFabricInfo", device.handle, ctypes.byref(fabric))
        return FABRIC_STATES.get(int(fabric.state), "state %d" % fabric.state), int(fabric.status)

    return answer(ask)
