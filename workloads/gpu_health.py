"""What the driver knows of every GPU's health: memory errors, remapped rows, XIDs, PCIe and NVLink.

XIDs that are in the kernel log already are old ones; those that NVML or the log reports while this program works the
GPUs are new. Counters that only grow are reported as what they grew by. Needs no torch.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from workloads.contract import Fact, Measurement, Sample, Scalar, emit, identity, leave_on_sigterm, parameters
from workloads.cuda_buffers import DeviceMemory
from workloads.cuda_driver import CudaError, Driver
from workloads.cuda_errors import explained
from workloads.cuda_kernels import BLOCK, Kernels
from workloads.device_match import by_ordinal
from workloads.gpu_memory_health import ecc_samples, row_samples
from workloads.nvml import Device, Nvml, NvmlError
from workloads.nvml_links import link_errors, nvlinks, speed_gb_s
from workloads.nvml_types import NVLINK_CRC_FLIT, NVLINK_RECOVERY, NVLINK_REPLAY
from workloads.nvml_watch import XidWatch
from workloads.xid import Found, address, in_log, kernel_log, of_the_application, told

PARAMETERS = ("iterations", "copies", "copy_mib", "wait_s")
NONE = "none"
_BLOCKS = 64
_GROWING = {"nvlink_replays": NVLINK_REPLAY, "nvlink_recoveries": NVLINK_RECOVERY, "nvlink_crc_errors": NVLINK_CRC_FLIT}


class Links(NamedTuple):
    """One GPU's counters of link trouble at one moment."""

    pcie_replays: Optional[int]
    nvlink: Dict[str, int]


def measure() -> Measurement:
    """Look, work, look again."""
    options = parameters()
    samples: List[Sample] = []
    facts: Dict[str, Fact] = {}
    environment = {"python": sys.version.split()[0]}
    try:
        nvml = Nvml()
        environment["driver"] = nvml.driver_version()
        devices = nvml.devices()
        log_before = kernel_log()
        watch = XidWatch(nvml, devices)
        before = [links_of(device) for device in devices]
        trained: Dict[int, Tuple[Optional[int], Optional[int]]] = {}
        facts["work_error"] = work(nvml, options, trained)
        events = watch.seen(int(1000 * float(options["wait_s"])))
        log_after = kernel_log()
        for device, earlier in zip(devices, before):
            samples += ecc_samples(device) + row_samples(device) + bus_samples(device, earlier)
            samples += pcie_samples(device.index, trained.get(device.index) or pcie_of(device))
        facts["ecc_enabled"] = [bool(device.ecc_enabled()) for device in devices]
        facts["recovery_action"] = [device.recovery_action() or "not reported" for device in devices]
        facts.update(xid_facts(devices, log_before, log_after, events))
        facts["nvml_error"] = NONE
    except NvmlError as error:
        facts["nvml_error"] = str(error)
    return Measurement("gpu_health", world_size=1, hosts=1, samples=tuple(samples), facts=facts,
                       environment=environment, **identity())  # fmt: skip


def work(nvml: Nvml, options: Dict[str, Any], trained: Dict[int, Tuple[Optional[int], Optional[int]]]) -> str:
    """Kernels and copies on every GPU; its PCIe link is read into `trained` before it falls idle and trains down."""
    size = int(options["copy_mib"]) << 20
    try:
        driver = Driver()
        for gpu, device in enumerate(by_ordinal(driver, nvml)):
            with driver.open(gpu) as context, DeviceMemory(driver, max(size, _BLOCKS * BLOCK * 4)) as memory:
                kernels = Kernels(driver)
                kernels.burn(memory.address, int(options["iterations"]), _BLOCKS)
                for _ in range(int(options["copies"])):
                    memory.write(bytes(size))
                if device is not None:
                    trained[device.index] = pcie_of(device)
                context.synchronize()
    except CudaError as error:
        return explained(str(error), error.code)
    return NONE


def pcie_of(device: Device) -> Tuple[Optional[int], Optional[int]]:
    """(width, generation) of the link at this moment."""
    return device.pcie_width(), device.pcie_generation()


def pcie_samples(gpu: int, link: Tuple[Optional[int], Optional[int]]) -> List[Sample]:
    """What is known of the link."""
    pairs = (("pcie_width", "lanes", link[0]), ("pcie_generation", "1", link[1]))
    return [Sample(name, float(value), unit, {"gpu": gpu}) for name, unit, value in pairs if value is not None]


def links_of(device: Device) -> Links:
    """The counters that only grow."""
    numbers = [link for link, _ in nvlinks(device)]
    grown = {name: [link_errors(device, link, counter) for link in numbers] for name, counter in _GROWING.items()}
    return Links(device.pcie_replays(), {name: sum(each or 0 for each in found) for name, found in grown.items()})


def bus_samples(device: Device, earlier: Links) -> List[Sample]:
    """NVLinks up, the rate of the slowest, and how often either bus had to repeat itself since `earlier`."""
    at = {"gpu": device.index}
    now = links_of(device)
    found: List[Sample] = []
    if now.pcie_replays is not None and earlier.pcie_replays is not None:
        found.append(Sample("pcie_replays", float(max(0, now.pcie_replays - earlier.pcie_replays)), "count", at))
    states = nvlinks(device)
    found.append(Sample("nvlinks_up", float(sum(up for _, up in states)), "count", at))
    speeds = [speed for link, up in states if up for speed in [speed_gb_s(device, link)] if speed is not None]
    if speeds:
        found.append(Sample("nvlink_speed", min(speeds), "GB/s", {**at, "statistic": "slowest_link"}))
    grown = {name: float(max(0, now.nvlink[name] - earlier.nvlink[name])) for name in _GROWING} if states else {}
    return found + [Sample(name, count, "count", at) for name, count in grown.items()]


def xid_facts(
    devices: List[Device], before: Optional[str], after: Optional[str], events: List[Tuple[int, int]]
) -> Dict[str, Fact]:
    """XIDs of these GPUs: those that were there before, those that came, and those that the program may have caused."""
    numbers = {address(device.pci_bus_id() or "0:0:0"): device.index for device in devices}
    old = [(numbers[pci], xid) for pci, xid in in_log(before or "") if pci in numbers]
    new = [(numbers[pci], xid) for pci, xid in added(in_log(before or ""), in_log(after or "")) if pci in numbers]
    new += [each for each in events if each not in new]
    return {
        "xid_before": texts(old),
        "xid_during": texts([each for each in new if not of_the_application(each[1])]),
        "xid_of_applications": texts([each for each in new if of_the_application(each[1])]),
        "kernel_log": "read" if before is not None else "not readable from a pod here",
    }


def added(before: List[Found], after: List[Found]) -> List[Found]:
    """What the later log has more of: the ring buffer may have lost its oldest lines meanwhile."""
    left = list(before)
    found = []
    for each in after:
        if each in left:
            left.remove(each)
        else:
            found.append(each)
    return found


def texts(found: List[Tuple[int, int]]) -> List[Scalar]:
    """Each once, in words."""
    return list(dict.fromkeys("gpu %d: %s" % (gpu, told(xid)) for gpu, xid in found)) or [NONE]


if __name__ == "__main__":
    leave_on_sigterm()
    emit(measure())
