"""Which GPUs does this pod see? Counts and names them as nvidia-smi lists them; knows nothing of what was expected.

Listing is not using: whether the devices compute is the question of `cuda_runtime`.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from typing import Dict, List, Tuple

from workloads.contract import (
    Fact,
    Measurement,
    Sample,
    emit,
    identity,
    leave_on_sigterm,
    parameters,
)

PARAMETERS = ("nvidia_smi_timeout_s",)
COLUMNS = ("index", "uuid", "name", "driver_version", "memory.total")


def ask_nvidia_smi(timeout_s: float) -> Tuple[List[Dict[str, str]], str]:
    """The rows of nvidia-smi's CSV by column name, and a word for what went wrong ("none" where nothing did).

    The header is read, never a column position; a lone error line without a table is an error and no row.
    """
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return [], "nvidia-smi is not in the container"
    command = [tool, "--query-gpu=" + ",".join(COLUMNS), "--format=csv"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return [], "nvidia-smi did not answer within %g s" % timeout_s
    except OSError as error:
        return [], "nvidia-smi could not be started: %s" % error
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    rows = rows_of(done.stdout)
    if done.returncode != 0 or not rows:
        said = " ".join((done.stderr + " " + done.stdout).split())[:200]
        return rows, "nvidia-smi exit %d: %s" % (done.returncode, said or "no output")
    return rows, "none"


def rows_of(text: str) -> List[Dict[str, str]]:
    """CSV rows keyed by the header's names without their units ("memory.total [MiB]" is "memory.total")."""
    lines = [[cell.strip() for cell in line] for line in csv.reader(text.splitlines())]
    for number, header in enumerate(lines):
        names = [cell.partition(" [")[0] for cell in header]
        if "uuid" in names and "index" in names:
            return [dict(zip(names, cells)) for cells in lines[number + 1 :] if len(cells) == len(names)]
    return []


def measure() -> Measurement:
    """One listing of the GPUs that this pod was given."""
    options = parameters()
    rows, error = ask_nvidia_smi(float(options.get("nvidia_smi_timeout_s", 30)))
    uuids = [row["uuid"] for row in rows]
    facts: Dict[str, Fact] = {
        "pod_gpu_product": [row.get("name", "") for row in rows],
        "pod_gpu_driver": [row.get("driver_version", "") for row in rows],
        "pod_gpu_uuid": list(uuids),
        "gpu_uuids_unique": len(set(uuids)) == len(uuids),
        "nvidia_smi_error": error,
    }
    memory = [memory_mib(row.get("memory.total", "")) for row in rows]
    samples = [Sample("gpus_visible", float(len(rows)), "count")]
    samples += [Sample("gpu_memory", mib, "MiB", {"gpu": gpu}) for gpu, mib in enumerate(memory) if mib is not None]
    environment = {"python": sys.version.split()[0], "visible_devices": os.environ.get("NVIDIA_VISIBLE_DEVICES", "")}
    return Measurement("gpu_inventory", world_size=1, hosts=1, samples=tuple(samples), facts=facts,
                       environment=environment, **identity())  # fmt: skip


def memory_mib(cell: str) -> "float | None":
    """A cell such as "81559 MiB" in MiB; None for "[N/A]", "ERR!" and other words."""
    number, _, unit = cell.partition(" ")
    return float(number) if unit == "MiB" and number.isdigit() else None


if __name__ == "__main__":
    leave_on_sigterm()
    emit(measure())
