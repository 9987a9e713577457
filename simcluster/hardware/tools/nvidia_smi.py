"""Stand-in for nvidia-smi inside simulated containers: answers from the state file in the real tool's text formats.

Owns arguments and exit codes (NVIDIA's manual page of nvidia-smi); it must not import the simulator.
"""

from __future__ import annotations

import os
import sys

from simcluster.hardware.tools.smi_details import details
from simcluster.hardware.tools.smi_query import query
from simcluster.hardware.tools.smi_state import Row, State, read_state
from simcluster.hardware.tools.smi_text import listing, table, topology

__all__ = ["answer", "read_state"]
NOT_FOUND, DRIVER_MISSING, GPU_LOST, MISMATCH, BAD_ARGUMENT = 6, 9, 15, 18, 1
_NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
    "driver is installed and running.\n\n"
)


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
    if state.nvml_error:
        words = "Driver/library version mismatch" if state.nvml_error == MISMATCH else "Unknown Error"
        return f"Failed to initialize NVML: {words}\n", min(state.nvml_error, 255)
    gpus = _chosen(state.gpus, _value(arguments, "-i", "--id"))
    if not gpus:
        return "No devices were found\n", NOT_FOUND
    lost = next((gpu for gpu in gpus if gpu["lost"] == "1"), None)
    if lost is not None:
        told = f"Unable to determine the device handle for GPU{lost['index']}: {lost['pci']}: GPU is lost.  "
        return told + "Reboot the system to recover this GPU\n", GPU_LOST
    fields = _value(arguments, "--query-gpu")
    if fields is not None:
        options = (_value(arguments, "--format") or "").split(",")
        if "csv" not in options:
            return '"--format=" switch is missing.\n\n', BAD_ARGUMENT
        return query(state, gpus, fields.split(","), options)
    if _value(arguments, "--query-compute-apps") is not None:
        return ("" if "noheader" in (_value(arguments, "--format") or "") else "pid, process_name\n"), 0
    return _report(state, gpus, arguments)


def _report(state: State, gpus: list[Row], arguments: list[str]) -> tuple[str, int]:
    sections = (_value(arguments, "-d", "--display") or "").split(",")
    skipped = {"-i", "--id", "-d", "--display", _value(arguments, "-i", "--id"), _value(arguments, "-d", "--display")}
    words = [word for word in arguments if word not in skipped]
    if not words:
        return table(state, gpus), 0
    if words[0] in ("-L", "--list-gpus"):
        return listing(state, gpus), 0
    if words[0] in ("-q", "--query"):
        return details(state, gpus, [name for name in sections if name]), 0
    if words[:2] == ["topo", "-m"]:
        return topology(gpus), 0
    if words[0].startswith("--"):
        return "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n", BAD_ARGUMENT
    return f"Option \"{words[0]}\" is not recognized. Please run 'nvidia-smi -h'.\n\n", BAD_ARGUMENT


def main() -> int:
    """Run."""
    text, code = answer(read_state(os.environ.get("SIMCLUSTER_GPU_STATE", "/run/simcluster/gpus")), sys.argv[1:])
    sys.stdout.write(text)
    return code
