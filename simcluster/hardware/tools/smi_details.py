"""nvidia-smi -q, whole or by section (-d).

Owns the sections that tests and people read most. It must not import the simulator.
"""

from __future__ import annotations

import time

from simcluster.hardware.tools.smi_query import REASONS
from simcluster.hardware.tools.smi_state import Row, State, partitioned, unreadable

_TITLES = {
    "gpu_idle": "Idle",
    "applications_clocks_setting": "Applications Clocks Setting",
    "sw_power_cap": "SW Power Cap",
    "hw_slowdown": "HW Slowdown",
    "hw_thermal_slowdown": "    HW Thermal Slowdown",
    "hw_power_brake_slowdown": "    HW Power Brake Slowdown",
    "sync_boost": "Sync Boost",
    "sw_thermal_slowdown": "SW Thermal Slowdown",
}


def _line(depth: int, name: str, value: str) -> str:
    return f"{' ' * depth}{name:<{42 - depth}}: {value}"


def details(state: State, gpus: list[Row], wanted: list[str]) -> str:
    """All sections, or those named (MEMORY, UTILIZATION, ECC, TEMPERATURE, POWER, CLOCK, PERFORMANCE, …)."""
    lines = [
        "",
        "==============NVSMI LOG==============",
        "",
        _line(0, "Timestamp", time.strftime("%a %b %e %H:%M:%S %Y")),
        _line(0, "Driver Version", state.driver),
        _line(0, "CUDA Version", state.cuda),
        "",
        _line(0, "Attached GPUs", str(len(gpus))),
    ]
    for gpu in gpus:
        lines.append(f"GPU {gpu['pci']}")
        if not wanted:
            lines += _identity(gpu, [each for each in state.instances if each["parent"] == gpu["index"]])
        for section, make in _SECTIONS.items():
            if not wanted or section in wanted:
                lines += make(gpu)
        lines += [*([] if wanted else [_line(4, "Processes", "None")]), ""]
    return "\n".join(lines) + "\n"


def _shown(gpu: Row, group: str, text: str) -> str:
    return "Unknown Error" if unreadable(gpu, group) else text


def _identity(gpu: Row, instances: list[Row]) -> list[str]:
    lines = [
        _line(4, "Product Name", gpu["product"]),
        _line(4, "Persistence Mode", "Enabled"),
        "    MIG Mode",
        _line(8, "Current", gpu["mig"]),
        _line(8, "Pending", gpu["mig"]),
    ]
    for each in instances:
        lines += [
            "    MIG Device",
            _line(8, "Index", each["device"]),
            _line(8, "GPU Instance ID", each["gi"]),
            _line(8, "Compute Instance ID", "0"),
            "        FB Memory Usage",
            _line(12, "Total", f"{each['memory']} MiB"),
        ]
    return [
        *lines,
        _line(4, "Serial Number", gpu["serial"]),
        _line(4, "GPU UUID", gpu["uuid"]),
        _line(4, "Minor Number", gpu["index"]),
        "    PCI",
        _line(8, "Bus Id", gpu["pci"]),
        "        GPU Link Info",
        "            PCIe Generation",
        _line(16, "Max", "5"),
        _line(16, "Current", gpu["pcie_gen"]),
        "            Link Width",
        _line(16, "Max", "16x"),
        _line(16, "Current", f"{gpu['pcie_width']}x"),
        _line(8, "Replays Since Reset", gpu["pcie_replays"]),
        _line(4, "Compute Mode", "Default"),
    ]


def _performance(gpu: Row) -> list[str]:
    active = int(gpu["throttle"])
    lines = [_line(4, "Performance State", _shown(gpu, "clocks", "P0")), "    Clocks Event Reasons"]
    for name, title in _TITLES.items():
        lines.append(_line(8, title, "Active" if active & REASONS[name] else "Not Active"))
    return lines


def _memory(gpu: Row) -> list[str]:
    free = int(gpu["memory"]) - int(gpu["used"])
    values = {"Total": gpu["memory"], "Reserved": "0", "Used": gpu["used"], "Free": str(free)}
    return [
        "    FB Memory Usage",
        *(_line(8, name, _shown(gpu, "memory", f"{value} MiB")) for name, value in values.items()),
    ]


def _utilization(gpu: Row) -> list[str]:
    def share(value: str) -> str:
        return "N/A" if partitioned(gpu) else _shown(gpu, "utilization", f"{value} %")

    return ["    Utilization", _line(8, "Gpu", share(gpu["utilization"])), _line(8, "Memory", share("0"))]


def _ecc(gpu: Row) -> list[str]:
    lines = ["    ECC Mode", _line(8, "Current", "Enabled"), _line(8, "Pending", "Enabled"), "    ECC Errors"]
    for span in ("Volatile", "Aggregate"):
        lines += [
            f"        {span}",
            _line(12, "SRAM Correctable", _shown(gpu, "ecc", "0")),
            _line(12, "SRAM Uncorrectable Parity", _shown(gpu, "ecc", "0")),
            _line(12, "SRAM Uncorrectable SEC-DED", _shown(gpu, "ecc", "0")),
            _line(12, "DRAM Correctable", _shown(gpu, "ecc", gpu["ecc_corrected"])),
            _line(12, "DRAM Uncorrectable", _shown(gpu, "ecc", gpu["ecc_uncorrected"])),
        ]
    return lines


def _rows(gpu: Row) -> list[str]:
    yes = {"1": "Yes", "0": "No"}
    return [
        "    Remapped Rows",
        _line(8, "Correctable Error", gpu["remap_correctable"]),
        _line(8, "Uncorrectable Error", gpu["remap_uncorrectable"]),
        _line(8, "Pending", yes[gpu["remap_pending"]]),
        _line(8, "Remapping Failure Occurred", yes[gpu["remap_failed"]]),
    ]


def _temperature(gpu: Row) -> list[str]:
    text = _shown(gpu, "temperature", f"{gpu['temperature']} C")
    return ["    Temperature", _line(8, "GPU Current Temp", text), _line(8, "Memory Current Temp", text)]


def _power(gpu: Row) -> list[str]:
    draw = _shown(gpu, "power", f"{float(gpu['power']):.2f} W")
    limit = _shown(gpu, "power", f"{float(gpu['power_limit']):.2f} W")
    return [
        "    GPU Power Readings",
        _line(8, "Power Draw", draw),
        _line(8, "Current Power Limit", limit),
        _line(8, "Default Power Limit", limit),
        _line(8, "Max Power Limit", limit),
    ]


def _clock(gpu: Row) -> list[str]:
    def clocks(core: str) -> list[str]:
        pairs = {"Graphics": gpu[core], "SM": gpu[core], "Memory": gpu["mem_clock"]}
        return [_line(8, name, _shown(gpu, "clocks", f"{value} MHz")) for name, value in pairs.items()]

    return ["    Clocks", *clocks("sm_clock"), "    Max Clocks", *clocks("max_sm_clock")]


_SECTIONS = {
    "PERFORMANCE": _performance,
    "MEMORY": _memory,
    "UTILIZATION": _utilization,
    "ECC": _ecc,
    "ROW_REMAPPER": _rows,
    "TEMPERATURE": _temperature,
    "POWER": _power,
    "CLOCK": _clock,
}
