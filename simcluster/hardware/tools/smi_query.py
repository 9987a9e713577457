"""nvidia-smi --query-gpu: which fields there are, and the CSV of their values.

Owns names, units and cells (NVIDIA's help text of --help-query-gpu). It must not import the simulator.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from simcluster.hardware.tools.smi_state import Row, State, partitioned, unreadable

BAD_QUERY = 2
_UNKNOWN, _NOT_AVAILABLE = "[Unknown Error]", "[N/A]"
Value = Callable[[Row], str]


def _fixed(text: str) -> Value:
    return lambda _: text


def _of(key: str) -> Value:
    return lambda gpu: gpu[key]


def _watts(key: str) -> Value:
    return lambda gpu: f"{float(gpu[key]):.2f}"


def _reason(bit: int) -> Value:
    return lambda gpu: "Active" if int(gpu["throttle"]) & bit else "Not Active"


def _whole(value: Value) -> Value:
    return lambda gpu: _NOT_AVAILABLE if partitioned(gpu) else value(gpu)


def _mig(gpu: Row) -> str:
    return gpu["mig"] if gpu["mig"] != "N/A" else _NOT_AVAILABLE


REASONS = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
}
# Canonical name (as the header shows it) -> unit, value, and the group whose failure makes it unreadable.
FIELDS: dict[str, tuple[str, Value, str]] = {
    "index": ("", _of("index"), ""),
    "uuid": ("", _of("uuid"), ""),
    "name": ("", _of("product"), ""),
    "serial": ("", _of("serial"), ""),
    "pci.bus_id": ("", _of("pci"), ""),
    "pci.domain": ("", lambda gpu: "0x" + gpu["pci"].split(":")[0][-4:], ""),
    "pci.bus": ("", lambda gpu: "0x" + gpu["pci"].split(":")[1], ""),
    "pci.device": ("", lambda gpu: "0x" + gpu["pci"].split(":")[2][:2], ""),
    "pcie.link.gen.current": ("", _of("pcie_gen"), ""),
    "pcie.link.gen.gpucurrent": ("", _of("pcie_gen"), ""),
    "pcie.link.gen.max": ("", _fixed("5"), ""),
    "pcie.link.gen.gpumax": ("", _fixed("5"), ""),
    "pcie.link.width.current": ("", _of("pcie_width"), ""),
    "pcie.link.width.max": ("", _fixed("16"), ""),
    "persistence_mode": ("", _fixed("Enabled"), ""),
    "compute_mode": ("", _fixed("Default"), ""),
    "compute_cap": ("", _of("compute"), ""),
    "display_active": ("", _fixed("Disabled"), ""),
    "display_mode": ("", _fixed("Disabled"), ""),
    "vbios_version": ("", _of("vbios"), ""),
    "pstate": ("", _fixed("P0"), "clocks"),
    "fan.speed": ("%", _fixed(_NOT_AVAILABLE), "fan"),
    "memory.total": ("MiB", _of("memory"), "memory"),
    "memory.used": ("MiB", _of("used"), "memory"),
    "memory.reserved": ("MiB", _fixed("0"), "memory"),
    "memory.free": ("MiB", lambda gpu: str(int(gpu["memory"]) - int(gpu["used"])), "memory"),
    "utilization.gpu": ("%", _whole(_of("utilization")), "utilization"),
    "utilization.memory": ("%", _whole(_fixed("0")), "utilization"),
    "temperature.gpu": ("", _of("temperature"), "temperature"),
    "temperature.memory": ("", _of("temperature"), "temperature"),
    "power.draw": ("W", _watts("power"), "power"),
    "power.draw.average": ("W", _watts("power"), "power"),
    "power.draw.instant": ("W", _watts("power"), "power"),
    "power.limit": ("W", _watts("power_limit"), "power"),
    "enforced.power.limit": ("W", _watts("power_limit"), "power"),
    "power.default_limit": ("W", _watts("power_limit"), "power"),
    "power.max_limit": ("W", _watts("power_limit"), "power"),
    "clocks.current.sm": ("MHz", _of("sm_clock"), "clocks"),
    "clocks.current.graphics": ("MHz", _of("sm_clock"), "clocks"),
    "clocks.current.memory": ("MHz", _of("mem_clock"), "clocks"),
    "clocks.max.sm": ("MHz", _of("max_sm_clock"), "clocks"),
    "clocks.max.graphics": ("MHz", _of("max_sm_clock"), "clocks"),
    "clocks.max.memory": ("MHz", _of("mem_clock"), "clocks"),
    "clocks_event_reasons.supported": ("", _fixed("0x00000000000001FF"), "clocks"),
    "clocks_event_reasons.active": ("", lambda gpu: f"0x{int(gpu['throttle']):016X}", "clocks"),
    **{f"clocks_event_reasons.{name}": ("", _reason(bit), "clocks") for name, bit in REASONS.items()},
    "ecc.mode.current": ("", _fixed("Enabled"), "ecc"),
    "ecc.mode.pending": ("", _fixed("Enabled"), "ecc"),
    **{
        f"ecc.errors.{kind}.{span}.{where}": ("", _of(f"ecc_{kind}") if where != "sram" else _fixed("0"), "ecc")
        for kind in ("corrected", "uncorrected")
        for span in ("volatile", "aggregate")
        for where in ("total", "dram", "sram")
    },
    "remapped_rows.correctable": ("", _of("remap_correctable"), "ecc"),
    "remapped_rows.uncorrectable": ("", _of("remap_uncorrectable"), "ecc"),
    "remapped_rows.pending": ("", lambda gpu: "Yes" if gpu["remap_pending"] == "1" else "No", "ecc"),
    "remapped_rows.failure": ("", lambda gpu: "Yes" if gpu["remap_failed"] == "1" else "No", "ecc"),
    "retired_pages.pending": ("", _fixed(_NOT_AVAILABLE), ""),
    "mig.mode.current": ("", _mig, ""),
    "mig.mode.pending": ("", _mig, ""),
}
SAME = {
    "gpu_uuid": "uuid",
    "gpu_name": "name",
    "gpu_serial": "serial",
    "gpu_bus_id": "pci.bus_id",
    "clocks.sm": "clocks.current.sm",
    "clocks.gr": "clocks.current.graphics",
    "clocks.mem": "clocks.current.memory",
    **{f"clocks_throttle_reasons.{name}": f"clocks_event_reasons.{name}" for name in ("supported", "active", *REASONS)},
}
_WHOLE_NODE = ("driver_version", "count", "timestamp")


def query(state: State, gpus: list[Row], names: list[str], options: list[str]) -> tuple[str, int]:
    """The CSV of --query-gpu and its exit code."""
    canonical = [SAME.get(name.strip(), name.strip()) for name in names]
    for asked, name in zip(names, canonical, strict=True):
        if name not in FIELDS and name not in _WHOLE_NODE:
            return f'Field "{asked.strip()}" is not a valid field to query.\n\n', BAD_QUERY
    lines = []
    if "noheader" not in options:
        headers = []
        for name in canonical:
            unit = FIELDS[name][0] if name in FIELDS else ""
            headers.append(f"{name} [{unit}]" if unit else name)
        lines.append(", ".join(headers))
    units = "nounits" not in options
    lines += [", ".join(_cell(state, gpu, name, units=units) for name in canonical) for gpu in gpus]
    return "\n".join(lines) + "\n", 0


def _cell(state: State, gpu: Row, name: str, *, units: bool) -> str:
    if name == "driver_version":
        return state.driver
    if name == "count":
        return str(len(state.gpus))
    if name == "timestamp":
        return time.strftime("%Y/%m/%d %H:%M:%S.000")
    unit, value, group = FIELDS[name]
    text = _UNKNOWN if group and unreadable(gpu, group) else value(gpu)
    return f"{text} {unit}" if unit and units and not text.startswith("[") else text
