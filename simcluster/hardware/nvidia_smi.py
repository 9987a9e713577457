"""Stand-in for nvidia-smi inside simulated containers: answers from the state file in the real tool's text formats.

Owns formats and exit codes of the questions it knows; runs alone under `python -I -S`, and must not import the
simulator.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

NOT_FOUND, DRIVER_MISSING, BAD_QUERY, BAD_ARGUMENT = 6, 9, 2, 1
Row = dict[str, str]
_NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
    "driver is installed and running.\n\n"
)


@dataclass
class State:
    """What the container may see."""

    driver: str = ""
    cuda: str = ""
    gpus: list[Row] = field(default_factory=list)


def read_state(path: str) -> State | None:
    """The state file, or None where the node has no driver."""
    state = State()
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
            state.driver, state.cuda = values.get("driver", ""), f"{version // 1000}.{version % 1000 // 10}"
        elif kind == "gpu":
            state.gpus.append(values)
    return state


def _fixed(text: str) -> Callable[[Row], str]:
    return lambda _: text


def _of(key: str) -> Callable[[Row], str]:
    return lambda gpu: gpu[key]


# Canonical name (as the header shows it) -> unit and value. Units are appended as the real tool does.
_FIELDS: dict[str, tuple[str, Callable[[Row], str]]] = {
    "index": ("", _of("index")),
    "uuid": ("", _of("uuid")),
    "name": ("", _of("product")),
    "serial": ("", _of("serial")),
    "pci.bus_id": ("", _of("pci")),
    "pci.domain": ("", lambda gpu: "0x" + gpu["pci"].split(":")[0][-4:]),
    "pci.bus": ("", lambda gpu: "0x" + gpu["pci"].split(":")[1]),
    "pci.device": ("", lambda gpu: "0x" + gpu["pci"].split(":")[2][:2]),
    "pcie.link.gen.current": ("", _fixed("5")),
    "pcie.link.gen.max": ("", _fixed("5")),
    "pcie.link.width.current": ("", _fixed("16")),
    "pcie.link.width.max": ("", _fixed("16")),
    "persistence_mode": ("", _fixed("Enabled")),
    "compute_mode": ("", _fixed("Default")),
    "compute_cap": ("", _of("compute")),
    "display_active": ("", _fixed("Disabled")),
    "pstate": ("", _fixed("P0")),
    "fan.speed": ("%", _fixed("[N/A]")),
    "memory.total": ("MiB", _of("memory")),
    "memory.used": ("MiB", _of("used")),
    "memory.reserved": ("MiB", _fixed("0")),
    "memory.free": ("MiB", lambda gpu: str(int(gpu["memory"]) - int(gpu["used"]))),
    "utilization.gpu": ("%", _of("utilization")),
    "utilization.memory": ("%", _fixed("0")),
    "temperature.gpu": ("", _of("temperature")),
    "temperature.memory": ("", _of("temperature")),
    "power.draw": ("W", lambda gpu: f"{float(gpu['power']):.2f}"),
    "power.limit": ("W", lambda gpu: f"{float(gpu['power_limit']):.2f}"),
    "power.max_limit": ("W", lambda gpu: f"{float(gpu['power_limit']):.2f}"),
    "clocks.current.sm": ("MHz", _of("sm_clock")),
    "clocks.current.graphics": ("MHz", _of("sm_clock")),
    "clocks.current.memory": ("MHz", _of("mem_clock")),
    "clocks.max.sm": ("MHz", _of("max_sm_clock")),
    "clocks.max.memory": ("MHz", _of("mem_clock")),
    "clocks_event_reasons.active": ("", _fixed("0x0000000000000001")),
    "ecc.mode.current": ("", _fixed("Enabled")),
    "ecc.mode.pending": ("", _fixed("Enabled")),
    "ecc.errors.corrected.volatile.total": ("", _of("ecc_corrected")),
    "ecc.errors.corrected.aggregate.total": ("", _of("ecc_corrected")),
    "ecc.errors.uncorrected.volatile.total": ("", _of("ecc_uncorrected")),
    "ecc.errors.uncorrected.aggregate.total": ("", _of("ecc_uncorrected")),
    "retired_pages.pending": ("", _fixed("No")),
    "mig.mode.current": ("", _of("mig")),
    "mig.mode.pending": ("", _of("mig")),
}
_SAME = {
    "gpu_uuid": "uuid",
    "gpu_name": "name",
    "gpu_serial": "serial",
    "gpu_bus_id": "pci.bus_id",
    "clocks.sm": "clocks.current.sm",
    "clocks.gr": "clocks.current.graphics",
    "clocks.mem": "clocks.current.memory",
    "clocks_throttle_reasons.active": "clocks_event_reasons.active",
}
_WHOLE_NODE = ("driver_version", "count", "timestamp", "cuda_version")


def query(state: State, gpus: list[Row], names: list[str], options: list[str]) -> tuple[str, int]:
    """The CSV of --query-gpu and its exit code."""
    canonical = [_SAME.get(name.strip(), name.strip()) for name in names]
    for asked, name in zip(names, canonical, strict=True):
        if name not in _FIELDS and name not in _WHOLE_NODE[:3]:
            return f'Field "{asked.strip()}" is not a valid field to query.\n\n', BAD_QUERY
    lines = []
    if "noheader" not in options:
        headers = []
        for name in canonical:
            unit = _FIELDS[name][0] if name in _FIELDS else ""
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
    unit, value = _FIELDS[name]
    text = value(gpu)
    return f"{text} {unit}" if unit and units and not text.startswith("[") else text


def listing(gpus: list[Row]) -> str:
    """nvidia-smi -L."""
    return "".join(f"GPU {gpu['index']}: {gpu['product']} (UUID: {gpu['uuid']})\n" for gpu in gpus)


_RULE = "+-----------------------------------------------------------------------------------------+"
_COLUMNS = "+-----------------------------------------+------------------------+----------------------+"


def table(state: State, gpus: list[Row]) -> str:
    """nvidia-smi without arguments."""
    lines = [
        time.strftime("%a %b %e %H:%M:%S %Y") + "       ",
        _RULE,
        f"| NVIDIA-SMI {state.driver:<22} Driver Version: {state.driver:<14} CUDA Version: {state.cuda:<9}|",
        "|" + _COLUMNS[1:],
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
        "|                                         |                        |               MIG M. |",
        "|=========================================+========================+======================|",
    ]
    for gpu in gpus:
        power = f"{float(gpu['power']):.0f}W / {float(gpu['power_limit']):>4.0f}W"
        usage, name = gpu["utilization"] + "%", gpu["product"][:28]
        memory = f"{gpu['used']}MiB / {gpu['memory']:>6}MiB"
        lines += [
            f"| {gpu['index']:>3}  {name:<28}   On  |   {gpu['pci']} Off | {gpu['ecc_uncorrected']:>20} |",
            f"| N/A {gpu['temperature']:>4}C    P0 {power:>23} | {memory:>22} | {usage:>7} {'Default':>12} |",
            f"|{'':41}|{'':24}| {gpu['mig']:>20} |",
            _COLUMNS,
        ]
    lines += [
        "",
        _RULE,
        "| Processes:                                                                              |",
        "|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |",
        "|        ID   ID                                                               Usage      |",
        "|=========================================================================================|",
        "|  No running processes found                                                             |",
        _RULE,
    ]
    return "\n".join(lines) + "\n"


def details(state: State, gpus: list[Row]) -> str:
    """nvidia-smi -q, the sections that tests and people read most."""

    def line(depth: int, name: str, value: str) -> str:
        return f"{' ' * depth}{name:<{42 - depth}}: {value}"

    lines = ["", "==============NVSMI LOG==============", ""]
    lines += [
        line(0, "Timestamp", time.strftime("%a %b %e %H:%M:%S %Y")),
        line(0, "Driver Version", state.driver),
        line(0, "CUDA Version", state.cuda),
        "",
        line(0, "Attached GPUs", str(len(gpus))),
    ]
    for gpu in gpus:
        lines += [
            f"GPU {gpu['pci']}",
            line(4, "Product Name", gpu["product"]),
            line(4, "Persistence Mode", "Enabled"),
            "    MIG Mode",
            line(8, "Current", gpu["mig"]),
            line(8, "Pending", gpu["mig"]),
            line(4, "Serial Number", gpu["serial"]),
            line(4, "GPU UUID", gpu["uuid"]),
            line(4, "Minor Number", gpu["index"]),
            "    PCI",
            line(8, "Bus Id", gpu["pci"]),
            line(4, "Performance State", "P0"),
            "    FB Memory Usage",
            line(8, "Total", f"{gpu['memory']} MiB"),
            line(8, "Reserved", "0 MiB"),
            line(8, "Used", f"{gpu['used']} MiB"),
            line(8, "Free", f"{int(gpu['memory']) - int(gpu['used'])} MiB"),
            line(4, "Compute Mode", "Default"),
            "    Utilization",
            line(8, "Gpu", f"{gpu['utilization']} %"),
            line(8, "Memory", "0 %"),
            "    ECC Mode",
            line(8, "Current", "Enabled"),
            line(8, "Pending", "Enabled"),
            "    ECC Errors",
            "        Volatile",
            line(12, "SRAM Correctable", gpu["ecc_corrected"]),
            line(12, "SRAM Uncorrectable Parity", "0"),
            line(12, "DRAM Correctable", "0"),
            line(12, "DRAM Uncorrectable", gpu["ecc_uncorrected"]),
            "    Temperature",
            line(8, "GPU Current Temp", f"{gpu['temperature']} C"),
            "    GPU Power Readings",
            line(8, "Power Draw", f"{float(gpu['power']):.2f} W"),
            line(8, "Current Power Limit", f"{float(gpu['power_limit']):.2f} W"),
            "    Clocks",
            line(8, "SM", f"{gpu['sm_clock']} MHz"),
            line(8, "Memory", f"{gpu['mem_clock']} MHz"),
            line(4, "Processes", "None"),
            "",
        ]
    return "\n".join(lines) + "\n"


def topology(gpus: list[Row]) -> str:
    """nvidia-smi topo -m: every pair by way of the host, since the simulation claims no faster link."""
    names = [f"GPU{gpu['index']}" for gpu in gpus]
    cores = f"0-{(os.cpu_count() or 1) - 1}"
    lines = ["\t" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])]
    for own in names:
        cells = [" X " if other == own else "SYS" for other in names]
        lines.append("\t".join([own, *cells, cores, "0", "N/A"]))
    legend = "Legend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe and the interconnect between NUMA nodes"
    return "\n".join([*lines, "", legend]) + "\n"


def _value(arguments: list[str], *names: str) -> str | None:
    for number, word in enumerate(arguments):
        for name in names:
            if word == name and number + 1 < len(arguments):
                return arguments[number + 1]
            if word.startswith(name + "="):
                return word.partition("=")[2]
    return None


def _chosen(gpus: list[Row], which: str | None) -> list[Row]:
    if which is None:
        return gpus
    wanted = which.split(",")
    return [gpu for gpu in gpus if gpu["index"] in wanted or gpu["uuid"] in wanted or gpu["pci"] in wanted]


def answer(state: State | None, arguments: list[str]) -> tuple[str, int]:
    """Text for standard output and the exit code."""
    if state is None:
        return _NO_DRIVER, DRIVER_MISSING
    gpus = _chosen(state.gpus, _value(arguments, "-i", "--id"))
    if not gpus:
        return "No devices were found\n", NOT_FOUND
    fields = _value(arguments, "--query-gpu")
    if fields is not None:
        options = (_value(arguments, "--format") or "").split(",")
        if "csv" not in options:
            return '"--format=" switch is missing.\n\n', BAD_ARGUMENT
        return query(state, gpus, fields.split(","), options)
    if _value(arguments, "--query-compute-apps") is not None:
        return ("" if "noheader" in (_value(arguments, "--format") or "") else "pid, process_name\n"), 0
    words = [word for word in arguments if word not in ("-i", "--id", _value(arguments, "-i", "--id"))]
    if not words:
        return table(state, gpus), 0
    if words[0] in ("-L", "--list-gpus"):
        return listing(gpus), 0
    if words[0] in ("-q", "--query"):
        return details(state, gpus), 0
    if words[:2] == ["topo", "-m"]:
        return topology(gpus), 0
    return (
        "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n"
        if words[0].startswith("--")
        else f"Option \"{words[0]}\" is not recognized. Please run 'nvidia-smi -h'.\n\n",
        BAD_ARGUMENT,
    )


def main() -> int:
    """Run."""
    text, code = answer(read_state(os.environ.get("SIMCLUSTER_GPU_STATE", "/run/simcluster/gpus")), sys.argv[1:])
    sys.stdout.write(text)
    return code


if __name__ == "__main__":
    sys.exit(main())
