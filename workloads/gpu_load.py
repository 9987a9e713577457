"""Does the load that is put on one GPU show on that GPU, and on no other? Asks NVML for SM activity, GPU by GPU.

First nothing runs, then a kernel that fills every SM runs on one GPU after the other. "Utilisation" is 100 % as soon as
one thread runs anywhere on the device, so it is reported beside and proves little. Needs no torch.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Dict, List, Optional

from workloads.contract import Fact, Measurement, Sample, emit, identity, leave_on_sigterm, parameters
from workloads.cuda_buffers import DeviceMemory, Timer
from workloads.cuda_driver import CudaError, Driver
from workloads.cuda_errors import explained
from workloads.cuda_kernels import BLOCK, Kernels
from workloads.device_match import by_ordinal
from workloads.nvml import Device, Nvml, NvmlError
from workloads.nvml_watch import SmActivity

PARAMETERS = ("idle_s", "load_s", "iterations")
NONE = "none"
_MULTIPROCESSORS = 16
_BLOCKS_EACH = 8
"""Of 256 threads: what one multiprocessor holds at once."""


def measure() -> Measurement:
    """Idle, then each GPU alone under load."""
    options = parameters()
    errors: List[str] = []
    samples: List[Sample] = []
    facts: Dict[str, Fact] = {}
    try:
        driver, nvml = Driver(), Nvml()
        devices = by_ordinal(driver, nvml)
        counters = [None if device is None else SmActivity.of(nvml, device) for device in devices]
        samples += activity_samples("sm_activity_idle", idle(counters, float(options["idle_s"])))
        loaded: List[Optional[float]] = []
        attributed = []
        for gpu, device in enumerate(devices):
            seen, more = under_load(driver, gpu, device, counters, options)
            samples += more
            loaded.append(seen[gpu])
            attributed.append(shows_there(seen, gpu))
        samples += activity_samples("sm_activity", loaded)
        facts["load_attributed"] = list(attributed)
    except CudaError as error:
        errors.append(explained(str(error), error.code))
    except NvmlError as error:
        errors.append("NVML: %s" % error)
    facts["load_error"] = list(errors) or [NONE]
    environment = {"python": sys.version.split()[0]}
    return Measurement("gpu_load", world_size=1, hosts=1, samples=tuple(samples), facts=facts,
                       environment=environment, **identity())  # fmt: skip


def idle(counters: List[Optional[SmActivity]], seconds: float) -> List[Optional[float]]:
    """The SM activity of every GPU while this pod runs nothing."""
    for each in counters:
        if each is not None:
            each.begin()
    time.sleep(seconds)
    return [None if each is None else each.end() for each in counters]


def under_load(
    driver: Driver, gpu: int, device: Optional[Device], counters: List[Optional[SmActivity]], options: Dict[str, Any]
) -> "tuple[List[Optional[float]], List[Sample]]":
    """The SM activity of every GPU while one of them computes for about `load_s`, and what NVML says of that one."""
    blocks = _BLOCKS_EACH * driver.attribute(gpu, _MULTIPROCESSORS)
    iterations = int(options["iterations"])
    with driver.open(gpu) as context, DeviceMemory(driver, blocks * BLOCK * 4) as out, Timer(driver) as timer:
        kernels = Kernels(driver)
        timer.start()
        kernels.burn(out.address, iterations, blocks)
        launches = max(1, round(float(options["load_s"]) / timer.stop()))
        energy = None if device is None else device.energy_mj()
        for each in counters:
            if each is not None:
                each.begin()
        began = time.monotonic()
        # All at once: the device goes from one to the next whatever becomes of this process meanwhile.
        for _ in range(launches):
            kernels.burn(out.address, iterations, blocks)
        time.sleep(float(options["load_s"]) / 2)
        utilization = None if device is None else device.utilization_percent()
        context.synchronize()
        seen = [None if each is None else each.end() for each in counters]
        seconds = time.monotonic() - began
    found = [Sample("load_seconds", round(seconds, 3), "s", {"gpu": gpu})]
    if utilization is not None:
        found.append(Sample("utilization", utilization / 100.0, "1", {"gpu": gpu}))
    after = None if device is None else device.energy_mj()
    if energy is not None and after is not None:
        found.append(Sample("energy", max(0, after - energy) / 1000.0, "J", {"gpu": gpu}))
    return seen, found


def shows_there(seen: List[Optional[float]], gpu: int) -> bool:
    """Whether the loaded GPU is the busiest of the pod, and not idle."""
    own = seen[gpu]
    return (
        own is not None and own > 0 and all(other is None or other < own for at, other in enumerate(seen) if at != gpu)
    )


def activity_samples(metric: str, values: List[Optional[float]]) -> List[Sample]:
    """A sample of every GPU that has such counters."""
    return [Sample(metric, round(value, 4), "1", {"gpu": gpu}) for gpu, value in enumerate(values) if value is not None]


if __name__ == "__main__":
    leave_on_sigterm()
    emit(measure())
