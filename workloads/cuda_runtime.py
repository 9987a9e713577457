"""Is every GPU of this pod usable, not just listed? Opens each through the driver, computes on it, checks the answers.

Per GPU: context, kernels, streams with pinned memory, a pattern over the asked share of its memory, copies from every
peer, and products of fresh random matrices in each number format against a float64 reference. With `device = "cpu"`
(the simulated cluster) torch multiplies on the CPU, but the operands and the product still travel through the device's
memory, so that a device which corrupts data is seen.
"""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Tuple

from workloads.contract import (
    Fact,
    Measurement,
    Sample,
    could_not,
    emit,
    identity,
    leave_on_sigterm,
    parameters,
)
from workloads.cuda_driver import Context, CudaError, Driver
from workloads.cuda_errors import code_in, explained
from workloads.cuda_memory import pattern, peer_copy, two_streams
from workloads.gemm import max_relative_error, on_cpu, on_device, operands
from workloads.nvml import Nvml, NvmlError
from workloads.nvml_links import fabric_state

PARAMETERS = ("matrix_size", "dtypes", "memory_fraction")
NONE = "none"


def measure() -> Measurement:
    """Every device the driver shows, one after the other; one that fails is counted as such and the next one tried."""
    options = parameters()
    torch = import_torch(str(options.get("device", "")))
    samples: List[Sample] = []
    errors: List[str] = []
    facts: Dict[str, Fact] = {"fabric_state": fabric_states()}
    environment = {
        "python": sys.version.split()[0],
        "torch": str(torch.__version__),
        "cuda_of_torch": str(torch.version.cuda),
    }
    try:
        driver = Driver()
        environment["cuda_of_driver"] = driver.version()
        count = driver.device_count()
        facts["gpu_names"] = [driver.device_name(gpu) for gpu in range(count)]
    except CudaError as error:
        errors.append(explained(str(error), error.code))
        count = 0
    usable = []
    for gpu in range(count):
        found, error_text = try_gpu(driver, torch, gpu, options)
        samples += found
        errors += [] if error_text == NONE else ["gpu %d: %s" % (gpu, error_text)]
        usable += [gpu] if error_text == NONE else []
        print("gpu %d: %s" % (gpu, "usable" if error_text == NONE else error_text), flush=True)
    for gpu in usable:
        found, texts = try_peers(driver, gpu, usable)
        samples += found
        errors += texts
    samples.append(Sample("gpus_cuda", float(count), "count"))
    samples.append(Sample("gpus_usable", float(len(usable)), "count"))
    facts["cuda_error"] = list(dict.fromkeys(errors)) or [NONE]
    return Measurement("cuda_runtime", world_size=1, hosts=1, samples=tuple(samples), facts=facts,
                       environment=environment, **identity())  # fmt: skip


def try_gpu(driver: Driver, torch: Any, gpu: int, options: Dict[str, Any]) -> Tuple[List[Sample], str]:
    """The samples of one GPU and a word for the error that ended it ("none" where it went through)."""
    samples: List[Sample] = []
    try:
        with driver.open(gpu) as context:
            samples.append(two_streams(driver, gpu))
            samples += pattern(driver, context, gpu, float(options["memory_fraction"]))
            for dtype in options["dtypes"]:
                samples.append(product(context, torch, gpu, str(dtype), options))
    except CudaError as error:
        return samples, explained(str(error), error.code)
    except RuntimeError as error:  # torch raises it for every CUDA failure
        text = " ".join(str(error).split())[:200]
        return samples, explained("torch: " + text, code_in(text))
    return samples, NONE


def try_peers(driver: Driver, gpu: int, usable: List[int]) -> Tuple[List[Sample], List[str]]:
    """Copies to one GPU from every other usable one: the samples, and the errors by pair."""
    errors: List[str] = []
    reachable = wrong = 0
    for peer in usable:
        if peer == gpu:
            continue
        try:
            direct, bad = peer_copy(driver, gpu, peer)
        except CudaError as error:
            errors.append("gpu %d from gpu %d: %s" % (gpu, peer, explained(str(error), error.code)))
            continue
        reachable += direct
        wrong += bad
    at = {"gpu": gpu}
    count, size = float(reachable), float(wrong)
    return [Sample("peers_reachable", count, "count", at), Sample("peer_wrong_bytes", size, "B", at)], errors


def product(context: Context, torch: Any, gpu: int, dtype: str, options: Dict[str, Any]) -> Sample:
    """The largest error of an n x n product in `dtype`, relative to |A||B|, against the same product in float64."""
    n, device = int(options["matrix_size"]), str(options["device"])
    a, b = operands(torch, dtype, n)
    if device == "cuda":
        c = on_device(torch, dtype, gpu, a, b)()
    elif device == "cpu":
        c = through(
            context, torch, on_cpu(torch, dtype, through(context, torch, a), through(context, torch, b)).float()
        )
    else:
        could_not('parameter device is %r, expected "cuda" or "cpu"' % device)
    error = max_relative_error(a, b, c)
    return Sample("gemm_max_relative_error", error, "1", {"gpu": gpu, "dtype": dtype, "n": n})


def through(context: Context, torch: Any, matrix: Any) -> Any:
    """The matrix as the device's memory gives it back."""
    back = bytearray(context.round_trip(matrix.contiguous().numpy().tobytes()))
    return torch.frombuffer(back, dtype=matrix.dtype).reshape(matrix.shape)


def fabric_states() -> List[Any]:
    """Each GPU's state in the NVSwitch fabric, in NVML's order; "not reported" where the driver has no such reading."""
    try:
        states = [fabric_state(device) for device in Nvml().devices()]
    except NvmlError as error:
        return [str(error)]
    return ["not reported" if state is None else fabric_word(*state) for state in states]


def fabric_word(state: str, status: int) -> str:
    """The state, with NVML's code behind it where the registration ended with an error."""
    return state if status == 0 else "%s, status %d" % (state, status)


def import_torch(device: str) -> Any:
    """The image's torch; without it nothing can be measured, which is the image's fault and not the cluster's."""
    try:
        import torch  # noqa: PLC0415 - its absence is an answer of this program
    except ImportError as error:
        could_not("the image has no usable torch: %s" % error)
    if device == "cpu":
        torch.set_num_threads(1)  # small products on a host that many simulated nodes share: more threads only wait
    return torch


if __name__ == "__main__":
    leave_on_sigterm()
    emit(measure())
