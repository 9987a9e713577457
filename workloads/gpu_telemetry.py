"""Clocks, temperature, power, throttle reasons and SM activity of GPUs, sampled while a load runs on them.

Knows no limit and no CUDA. A reading after the load says nothing: clocks and reasons change within milliseconds.
"""

from __future__ import annotations

import statistics
import threading
from dataclasses import dataclass, field
from typing import Dict, List, Optional, TypeVar

from workloads.contract import Sample
from workloads.nvml import Device, Nvml, NvmlError
from workloads.nvml_types import THROTTLE_REASONS
from workloads.nvml_watch import SmActivity

T = TypeVar("T")
PERIOD_S = 0.05
HARMFUL = ("hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")
"""Heat and power brakes. At its power limit (sw_power_cap) a GPU under load is where it should be."""


@dataclass
class Readings:
    """One GPU's readings during a load, in the order they were taken."""

    clock_mhz: List[int] = field(default_factory=list)
    temperature_c: List[int] = field(default_factory=list)
    power_w: List[float] = field(default_factory=list)
    reasons: List[int] = field(default_factory=list)
    sm_activity: Optional[float] = None
    slowdown_c: Optional[int] = None


class Telemetry:
    """Samples the given GPUs (by CUDA ordinal) from entering to leaving its block; errors are kept, not raised."""

    def __init__(self, nvml: Nvml, devices: Dict[int, Device], period_s: float = PERIOD_S) -> None:
        self._devices = devices
        self._period_s = period_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._activity: Dict[int, SmActivity] = {}
        self.readings = {gpu: Readings() for gpu in devices}
        self.errors: List[str] = []
        for gpu, device in devices.items():
            counters = SmActivity.of(nvml, device)
            if counters is not None:
                self._activity[gpu] = counters

    def __enter__(self) -> "Telemetry":
        for counters in self._activity.values():
            counters.begin()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        for gpu, counters in self._activity.items():
            try:
                self.readings[gpu].sm_activity = counters.end()
            except NvmlError as error:
                self._keep(gpu, error)

    def _run(self) -> None:
        while not self._stop.wait(self._period_s):
            for gpu, device in self._devices.items():
                try:
                    take(self.readings[gpu], device)
                except NvmlError as error:
                    self._keep(gpu, error)

    def _keep(self, gpu: int, error: NvmlError) -> None:
        text = "gpu %d: %s" % (gpu, error)
        if text not in self.errors:
            self.errors.append(text)


def take(into: Readings, device: Device) -> None:
    """One reading of everything. Raises `NvmlError`."""
    keep(into.clock_mhz, device.clock_mhz())
    keep(into.temperature_c, device.temperature_c())
    keep(into.power_w, device.power_w())
    keep(into.reasons, device.throttle_reasons())
    if into.slowdown_c is None:
        into.slowdown_c = device.slowdown_temperature_c()


def keep(values: List[T], value: Optional[T]) -> None:
    """Append a value that there is."""
    if value is not None:
        values.append(value)


def names_of(mask: int) -> List[str]:
    """The reasons of a mask by nvidia-smi's names; a bit without a name is shown as it is."""
    found = [name for bit, name in THROTTLE_REASONS.items() if mask & bit]
    rest = mask & ~sum(THROTTLE_REASONS)
    return found + (["0x%x" % rest] if rest else [])


def harmful(mask: int) -> bool:
    """Whether a mask holds a reason that a healthy GPU in a healthy room does not have."""
    return any(name in HARMFUL for name in names_of(mask))


def samples_of(gpu: int, seen: Readings) -> List[Sample]:
    """What one GPU's readings say: medians, the hottest moment, the share of moments in which it was held back."""
    at = {"gpu": gpu}
    found = [Sample("telemetry_readings", float(len(seen.reasons)), "count", at)]
    if seen.clock_mhz:
        found.append(Sample("sm_clock", float(statistics.median(seen.clock_mhz)), "MHz", {**at, "statistic": "median"}))
    if seen.temperature_c:
        hottest = float(max(seen.temperature_c))
        found.append(Sample("temperature", hottest, "C", {**at, "statistic": "max"}))
        if seen.slowdown_c:
            found.append(Sample("temperature_of_slowdown", hottest / seen.slowdown_c, "1", at))
    if seen.power_w:
        found.append(Sample("power", round(statistics.median(seen.power_w), 1), "W", {**at, "statistic": "median"}))
    if seen.reasons:
        held_back = sum(harmful(mask) for mask in seen.reasons) / len(seen.reasons)
        found.append(Sample("throttled_fraction", round(held_back, 4), "1", at))
    if seen.sm_activity is not None:
        found.append(Sample("sm_activity", round(seen.sm_activity, 4), "1", at))
    return found


def reasons_of(seen: Readings) -> str:
    """Every reason that was seen, "none" where the clocks were never held back; being idle is none."""
    union = 0
    for mask in seen.reasons:
        union |= mask
    names = [name for name in names_of(union) if name != "gpu_idle"]
    return "+".join(names) or "none"
