"""How fast is every GPU of this pod: matrix products, memory, the way to the host and back, the way to its peers.

Products run on all GPUs at once, as training does, while NVML is asked for clocks, heat and power; copies run one GPU
after the other. Every value is the median of several trials on random data. With `device = "cpu"` (the simulated
cluster) the CPU multiplies while the simulated device does as many multiply-adds: the product is done when both are.
"""

from __future__ import annotations

import os
import statistics
import sys
import threading
import time
from contextlib import ExitStack
from typing import Any, Callable, Dict, List, Sequence, Tuple

from workloads.contract import (
    Fact,
    Measurement,
    Sample,
    Scalar,
    could_not,
    emit,
    identity,
    leave_on_sigterm,
    parameters,
)
from workloads.cuda_buffers import DeviceMemory, PinnedMemory, Stream, Timer
from workloads.cuda_driver import CudaError, Driver
from workloads.cuda_errors import code_in, explained
from workloads.cuda_kernels import BLOCK, Kernels
from workloads.cuda_memory import allow
from workloads.cuda_runtime import import_torch
from workloads.device_match import by_ordinal
from workloads.gemm import on_cpu, on_device, operands, operations
from workloads.gpu_telemetry import Readings, Telemetry, reasons_of, samples_of
from workloads.nvml import Nvml, NvmlError

PARAMETERS = ("matrix_size", "dtypes", "batch", "trials", "load_s", "memory_mib", "host_mib", "peer_mib")
NONE = "none"
_BLOCKS = 64
_WARM_UP = 0.25
"""The first part of a load is not counted: clocks rise and libraries choose their kernels."""

Trials = Dict[Tuple[int, str], List[float]]


def measure() -> Measurement:
    """All GPUs together, then each alone."""
    options = parameters()
    torch = import_torch(str(options.get("device", "")))
    errors: List[str] = []
    samples: List[Sample] = []
    facts: Dict[str, Fact] = {}
    try:
        driver, nvml = Driver(), Nvml()
        devices = {gpu: device for gpu, device in enumerate(by_ordinal(driver, nvml)) if device is not None}
        count = driver.device_count()
        telemetry = Telemetry(nvml, devices)
        with telemetry:
            trials = all_products(torch, driver, count, options, errors)
        samples += product_samples(trials, int(options["matrix_size"]))
        for gpu, seen in sorted(telemetry.readings.items()):
            samples += samples_of(gpu, seen)
        facts["throttle_reasons"] = [reasons_of(telemetry.readings.get(gpu, Readings())) for gpu in range(count)]
        errors += telemetry.errors
        for gpu in range(count):
            samples += copies(driver, gpu, options)
        samples += peer_copies(driver, count, options)
    except CudaError as error:
        errors.append(explained(str(error), error.code))
    except NvmlError as error:
        errors.append("NVML: %s" % error)
    facts["throughput_error"] = list(dict.fromkeys(errors)) or [NONE]
    environment = {"python": sys.version.split()[0], "torch": str(torch.__version__), "device": str(options["device"])}
    return Measurement("gpu_throughput", world_size=1, hosts=1, samples=tuple(samples), facts=facts,
                       environment=environment, **identity())  # fmt: skip


def all_products(torch: Any, driver: Driver, count: int, options: Dict[str, Any], errors: List[str]) -> Trials:
    """Every dtype on all GPUs at once; TFLOPS of each trial by (GPU, dtype)."""
    trials: Trials = {}
    for dtype in [str(each) for each in options["dtypes"]]:
        threads = [
            threading.Thread(target=one_load, args=(torch, driver, gpu, dtype, options, trials, errors))
            for gpu in range(count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return trials


def one_load(
    torch: Any, driver: Driver, gpu: int, dtype: str, options: Dict[str, Any], trials: Trials, errors: List[str]
) -> None:
    """Products of one dtype on one GPU for `load_s` seconds, `trials` of them counted at least."""
    n, batch, wanted = int(options["matrix_size"]), int(options["batch"]), int(options["trials"])
    rates: List[float] = []
    try:
        with driver.open(gpu), ExitStack() as held:
            once = timed_batch(torch, driver, gpu, dtype, n, str(options["device"]), held)
            began = time.monotonic()
            load_s = float(options["load_s"])
            once(1)
            while len(rates) < wanted or time.monotonic() - began < load_s:
                seconds = once(batch)
                if time.monotonic() - began >= load_s * _WARM_UP:
                    rates.append(batch * operations(n) / seconds / 1e12)
        trials[gpu, dtype] = rates
    except CudaError as error:
        errors.append("gpu %d: %s" % (gpu, explained(str(error), error.code)))
    except RuntimeError as error:  # torch raises it for every CUDA failure
        text = " ".join(str(error).split())[:200]
        errors.append("gpu %d: %s" % (gpu, explained("torch: " + text, code_in(text))))


def timed_batch(
    torch: Any, driver: Driver, gpu: int, dtype: str, n: int, device: str, held: ExitStack
) -> Callable[[int], float]:
    """A call that does so many products and returns the seconds they took by the device's own clock."""
    a, b = operands(torch, dtype, n)
    if device == "cuda":
        product = on_device(torch, dtype, gpu, a, b)
        stream = torch.cuda.current_stream(gpu)
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))

        def on_gpu(batch: int) -> float:
            first.record(stream)
            for _ in range(batch):
                product()
            last.record(stream)
            last.synchronize()
            return float(first.elapsed_time(last)) / 1000.0

        return on_gpu
    if device != "cpu":
        could_not('parameter device is %r, expected "cuda" or "cpu"' % device)
    kernels = Kernels(driver)
    out = held.enter_context(DeviceMemory(driver, _BLOCKS * BLOCK * 4))
    timer = held.enter_context(Timer(driver))

    def on_simulated(batch: int) -> float:
        timer.start()
        for _ in range(batch):
            kernels.burn(out.address, n**3 // (_BLOCKS * BLOCK), _BLOCKS)
            on_cpu(torch, dtype, a, b)
        return timer.stop()

    return on_simulated


def product_samples(trials: Trials, n: int) -> List[Sample]:
    """Median, spread and number of the trials of each GPU and dtype."""
    found = []
    for (gpu, dtype), rates in sorted(trials.items()):
        found += summary("gemm", rates, "TFLOPS", {"gpu": gpu, "dtype": dtype, "n": n})
    return found


def summary(metric: str, rates: Sequence[float], unit: str, at: Dict[str, Scalar]) -> List[Sample]:
    """The median, the spread (95th less 5th percentile, as a share of the median), and how many trials there were."""
    if not rates:
        return []
    ordered = sorted(rates)
    middle = statistics.median(ordered)
    low, high = ordered[int(0.05 * (len(ordered) - 1))], ordered[-1 - int(0.05 * (len(ordered) - 1))]
    return [
        Sample(metric, shortened(middle), unit, {**at, "statistic": "median"}),
        Sample("spread", shortened((high - low) / middle), "1", {**at, "of": metric}),
        Sample("trials", float(len(ordered)), "count", {**at, "of": metric}),
    ]


def shortened(value: float) -> float:
    """Five digits say all that a median of trials knows, and fit a termination message."""
    return float("%.5g" % value)


def copies(driver: Driver, gpu: int, options: Dict[str, Any]) -> List[Sample]:
    """One GPU's memory (bytes read and written a second), and its way to the host and back, through pinned memory."""
    inside, outside = int(options["memory_mib"]) << 20, int(options["host_mib"]) << 20
    found: List[Sample] = []
    with driver.open(gpu), ExitStack() as held:
        stream, timer = held.enter_context(Stream(driver)), held.enter_context(Timer(driver))
        one, two = (held.enter_context(DeviceMemory(driver, inside)) for _ in range(2))
        fill_randomly(driver, one)
        rates = timed(timer, stream, options, lambda: stream.inside(two, one), 2 * inside)
        found += summary("memory_copy", rates, "GB/s", {"gpu": gpu, "bytes": inside})
        host = held.enter_context(PinnedMemory(driver, outside))
        near = held.enter_context(DeviceMemory(driver, outside))
        host.write(os.urandom(min(outside, 1 << 20)) * max(1, outside >> 20))
        rates = timed(timer, stream, options, lambda: stream.to_device(near, host), outside)
        found += summary("host_to_device", rates, "GB/s", {"gpu": gpu, "bytes": outside})
        rates = timed(timer, stream, options, lambda: stream.to_host(host, near), outside)
        found += summary("device_to_host", rates, "GB/s", {"gpu": gpu, "bytes": outside})
    return found


def fill_randomly(driver: Driver, memory: DeviceMemory) -> None:
    """Zeros would run faster and cooler than data."""
    kernels = Kernels(driver)
    kernels.fill(memory.address, memory.size // 4, int.from_bytes(os.urandom(4), "little"), _BLOCKS * 16)
    driver.call("cuCtxSynchronize")
    kernels.unload()


def timed(timer: Timer, stream: Stream, options: Dict[str, Any], copy: Callable[[], None], size: int) -> List[float]:
    """GB/s (1e9) of each trial; the first copy warms up and is not counted."""
    rates = []
    for trial in range(int(options["trials"]) + 1):
        timer.start(stream.handle)
        copy()
        seconds = timer.stop(stream.handle)
        rates += [size / seconds / 1e9] if trial else []
    return rates


def peer_copies(driver: Driver, count: int, options: Dict[str, Any]) -> List[Sample]:
    """Each GPU reads from every other one; of the medians of its pairs the slowest is the GPU's."""
    size = int(options["peer_mib"]) << 20
    slowest: Dict[int, float] = {}
    for gpu in range(count):
        for peer in range(count):
            if peer != gpu:
                rate = statistics.median(one_pair(driver, gpu, peer, size, options))
                slowest[gpu] = min(rate, slowest.get(gpu, rate))
    at: Dict[str, Scalar] = {"bytes": size, "statistic": "slowest_peer"}
    return [Sample("peer_copy", shortened(rate), "GB/s", {"gpu": gpu, **at}) for gpu, rate in sorted(slowest.items())]


def one_pair(driver: Driver, gpu: int, peer: int, size: int, options: Dict[str, Any]) -> List[float]:
    """GB/s of each trial of `gpu` reading from `peer`."""
    with driver.open(peer) as theirs, DeviceMemory(driver, size) as source:
        fill_randomly(driver, source)
        with driver.open(gpu) as own, DeviceMemory(driver, size) as target, Stream(driver) as stream:
            if driver.can_access_peer(gpu, peer):
                allow(driver, theirs)
            with Timer(driver) as timer:
                rates = timed(timer, stream, options, lambda: stream.from_peer(target, own, source, theirs), size)
        theirs.use()
    return rates


if __name__ == "__main__":
    leave_on_sigterm()
    emit(measure())
