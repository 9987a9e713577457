"""What NVML counts over time: SM activity between two moments, and XID events from a moment on. Knows no limit."""

from __future__ import annotations

import ctypes
from typing import List, Optional, Tuple

from workloads.nvml import Device, Nvml, NvmlError, answer
from workloads.nvml_types import GPM_SM_ACTIVITY, TIMEOUT, XID_EVENT, Event, GpmMetrics, GpmSupport


class SmActivity:
    """SM activity of one GPU between two moments (GPM counters: Hopper and later)."""

    def __init__(self, nvml: Nvml, device: Device) -> None:
        self._nvml = nvml
        self._device = device
        self._samples = [ctypes.c_void_p(), ctypes.c_void_p()]
        for sample in self._samples:
            nvml.call("nvmlGpmSampleAlloc", ctypes.byref(sample))

    @staticmethod
    def of(nvml: Nvml, device: Device) -> "Optional[SmActivity]":
        """The counters of a device; None where it has none, or this process may not read them."""

        def ask() -> "Optional[SmActivity]":
            support = GpmSupport(version=1)
            nvml.call("nvmlGpmQueryDeviceSupport", device.handle, ctypes.byref(support))
            return SmActivity(nvml, device) if support.supported else None

        return answer(ask)

    def begin(self) -> None:
        """The first moment. Raises `NvmlError`."""
        self._nvml.call("nvmlGpmSampleGet", self._device.handle, self._samples[0])

    def end(self) -> Optional[float]:
        """The share (0..1) of SMs that were busy since `begin`, averaged over that time."""

        def ask() -> float:
            self._nvml.call("nvmlGpmSampleGet", self._device.handle, self._samples[1])
            asked = GpmMetrics(version=1, count=1, first=self._samples[0].value, second=self._samples[1].value)
            asked.metrics[0].id = GPM_SM_ACTIVITY
            self._nvml.call("nvmlGpmMetricsGet", ctypes.byref(asked))
            if asked.metrics[0].result != 0:
                raise NvmlError("GPM SM activity", int(asked.metrics[0].result), "nvmlGpmMetricsGet")
            return float(asked.metrics[0].value) / 100.0

        return answer(ask)


class XidWatch:
    """Critical XID events of all given GPUs from now on. Raises `NvmlError` where they cannot be watched."""

    def __init__(self, nvml: Nvml, devices: List[Device]) -> None:
        self._nvml = nvml
        self._set = ctypes.c_void_p()
        self._index = {device.handle.value: device.index for device in devices}
        nvml.call("nvmlEventSetCreate", ctypes.byref(self._set))
        for device in devices:
            nvml.call("nvmlDeviceRegisterEvents", device.handle, ctypes.c_ulonglong(XID_EVENT), self._set)

    def seen(self, timeout_ms: int = 0) -> List[Tuple[int, int]]:
        """(GPU's NVML index, XID) of every event so far, waiting up to `timeout_ms` for the next one."""
        found: List[Tuple[int, int]] = []
        while True:
            event = Event()
            try:
                self._nvml.call("nvmlEventSetWait_v2", self._set, ctypes.byref(event), ctypes.c_uint(timeout_ms))
            except NvmlError as error:
                if error.code == TIMEOUT:
                    return found
                raise
            if event.kind & XID_EVENT:
                found.append((self._index.get(event.device, -1), int(event.data)))
