"""Which GPUs does this pod see, and which versions does it meet? Knows nothing of what was expected.

Three witnesses count the GPUs: the PCI bus (all boards of the node), NVML (what the driver gives this pod) and
nvidia-smi's table. Listing is not using: whether the devices compute is the question of `cuda_runtime`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from workloads.contract import (
    Fact,
    Measurement,
    Sample,
    emit,
    identity,
    leave_on_sigterm,
    parameters,
)
from workloads.nvml import Nvml, NvmlError
from workloads.smi_text import DRIVER, MEMORY, NAME, UUID, Row, Slice, memory_mib, rows_of, slices_of, unreadable
from workloads.versions import NONE, cuda_of_image, nccl_of_image

PARAMETERS = ("nvidia_smi_timeout_s",)
MIG, VBIOS = "mig.mode.current", "vbios_version"
COLUMNS = ("index", UUID, NAME, DRIVER, MEMORY, MIG, VBIOS)

PCI_DEVICES = "/sys/bus/pci/devices"
ADAPTERS = "/sys/class/infiniband"
NVIDIA = "0x10de"
DISPLAY_CLASSES = ("0x0300", "0x0302")
"""VGA and 3D controllers; a board's audio function and NVSwitches are of other classes (PCI code and ID assignment)."""


def ask_nvidia_smi(*arguments: str, timeout_s: float) -> Tuple[str, str]:
    """What nvidia-smi wrote, and a word for what went wrong ("none" where nothing did)."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "", "nvidia-smi is not in the container"
    try:
        done = subprocess.run([tool, *arguments], capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return "", "nvidia-smi did not answer within %g s" % timeout_s
    except OSError as error:
        return "", "nvidia-smi could not be started: %s" % error
    # What a sick driver writes need not be UTF-8.
    written, complaint = done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    sys.stdout.write(written)
    sys.stderr.write(complaint)
    if done.returncode != 0 or not written.strip():
        return written, "nvidia-smi exit %d: %s" % (done.returncode, _shortened(complaint + " " + written))
    return written, NONE


def _shortened(text: str) -> str:
    return " ".join(text.split())[:200] or "no output"


def table_of(written: str, error: str) -> Tuple[List[Row], str]:
    """The rows of nvidia-smi's CSV, and a word for what went wrong; a lone error line is an error and no row."""
    rows = rows_of(written)
    if error == NONE and not rows:
        error = "nvidia-smi wrote no table: %s" % _shortened(written)
    return rows, error


def list_gpus(timeout_s: float) -> Tuple[List[Row], str]:
    """One row a GPU that nvidia-smi lists, and a word for what went wrong ("none" where nothing did)."""
    query = ("--query-gpu=" + ",".join(COLUMNS), "--format=csv")
    return table_of(*ask_nvidia_smi(*query, timeout_s=timeout_s))


def count_pci(folder: str = PCI_DEVICES) -> Optional[int]:
    """NVIDIA display controllers on the node's PCI bus, virtual functions left out; None where the bus is not shown."""
    if not Path(folder).is_dir():
        return None
    found = 0
    for place in Path(folder).iterdir():
        board = read_word(place / "vendor") == NVIDIA and read_word(place / "class").startswith(DISPLAY_CLASSES)
        found += board and not (place / "physfn").exists()
    return found


def read_word(path: Path) -> str:
    """The text of a small kernel file; "" where it cannot be read."""
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def adapter_firmware(folder: str = ADAPTERS) -> List[str]:
    """The distinct firmware versions of the RDMA adapters that this pod sees, sorted."""
    return sorted({word for word in map(read_word, Path(folder).glob("*/fw_ver")) if word})


def count_nvml() -> Tuple[int, str, Dict[str, str]]:
    """How many GPUs NVML shows, a word for what went wrong, and the versions that it knows."""
    try:
        nvml = Nvml()
        return nvml.count(), NONE, {"driver_of_nvml": nvml.driver_version()}
    except NvmlError as error:
        return 0, str(error), {}


def facts_of(rows: Sequence[Row], slices: Sequence[Slice], error: str) -> Dict[str, Fact]:
    """What the tables say of the GPUs that this pod was given: shares of GPUs where there are any, else the GPUs."""
    if slices:
        names = {row.get(NAME, "") for row in rows}
        products: List[str] = ["%s MIG %s" % (" or ".join(sorted(names)), each.profile) for each in slices]
        uuids = [each.uuid for each in slices]
    else:
        products, uuids = [row.get(NAME, "") for row in rows], [row.get(UUID, "") for row in rows]
    drivers = sorted({row.get(DRIVER, "") for row in rows})
    facts: Dict[str, Fact] = {
        "pod_gpu_product": list(products),
        "pod_gpu_driver": [row.get(DRIVER, "") for row in rows],
        "pod_gpu_uuid": list(uuids),
        "pod_mig_profile": [each.profile for each in slices] or [NONE],
        "gpu_uuids_unique": len(set(uuids)) == len(uuids),
        "nvidia_smi_error": error,
        "nvidia_smi_unreadable": list(unreadable(list(rows))) or [NONE],
    }
    if drivers:
        facts["driver_version"] = " and ".join(drivers)
    firmware = [row.get(VBIOS, "") for row in rows]
    if firmware and all(word and "[" not in word for word in firmware):
        facts["gpu_firmware"] = list(firmware)
    return facts


def measure() -> Measurement:
    """One look at the GPUs that this pod was given, and at the versions of what it would use them with."""
    timeout_s = float(parameters().get("nvidia_smi_timeout_s", 30))
    rows, error = list_gpus(timeout_s)
    slices: List[Slice] = []
    if any(row.get(MIG) == "Enabled" for row in rows):
        listing, listing_error = ask_nvidia_smi("-L", timeout_s=timeout_s)
        slices, error = slices_of(listing), error if error != NONE else listing_error
    shown, nvml_error, known = count_nvml()
    cuda = cuda_of_image()
    facts = facts_of(rows, slices, error)
    facts["nvml_error"] = nvml_error
    facts["cuda_of_image"], facts["cuda_major_of_image"] = cuda, cuda.partition(".")[0]
    facts["nccl_of_image"] = nccl_of_image()
    facts["adapter_firmware"] = list(adapter_firmware()) or [NONE]
    samples = [
        Sample("gpus_visible", float(len(slices or rows)), "count"),
        Sample("gpus_nvml", float(shown), "count"),
    ]
    boards = count_pci()
    samples += [] if boards is None else [Sample("gpus_pci", float(boards), "count")]
    memory = [] if slices else [memory_mib(row.get(MEMORY, "")) for row in rows]
    samples += [Sample("gpu_memory", mib, "MiB", {"gpu": gpu}) for gpu, mib in enumerate(memory) if mib is not None]
    environment = {"python": sys.version.split()[0], "visible_devices": os.environ.get("NVIDIA_VISIBLE_DEVICES", "")}
    environment.update(known)
    return Measurement("gpu_inventory", world_size=1, hosts=1, samples=tuple(samples), facts=facts,
                       environment=environment, **identity())  # fmt: skip


if __name__ == "__main__":
    leave_on_sigterm()
    emit(measure())
