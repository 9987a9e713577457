"""Is every GPU of this pod usable, not just listed? Opens each through the driver, computes on it, checks the answers.

Per GPU: context, a memory pass (random bytes written, held, read back), and a float32 matrix product on fresh random
data against a float64 reference. With `device = "cpu"` (the simulated cluster) torch multiplies on the CPU, but the
operands and the product still travel through the device's memory, so that a device which corrupts data is seen.
"""

from __future__ import annotations

import os
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

PARAMETERS = ("matrix_size", "memory_mib")
NONE = "none"


def measure() -> Measurement:
    """Every device the driver shows, one after the other; one that fails is counted as such and the next one tried."""
    torch = import_torch()
    options = parameters()
    samples: List[Sample] = []
    errors: List[str] = []
    facts: Dict[str, Fact] = {}
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
        errors.append(str(error))
        count = 0
    usable = 0
    for gpu in range(count):
        found, error_text = try_gpu(driver, torch, gpu, options)
        samples += found
        errors += [] if error_text == NONE else ["gpu %d: %s" % (gpu, error_text)]
        usable += error_text == NONE
        print("gpu %d: %s" % (gpu, "usable" if error_text == NONE else error_text), flush=True)
    samples.append(Sample("gpus_cuda", float(count), "count"))
    samples.append(Sample("gpus_usable", float(usable), "count"))
    facts["cuda_error"] = list(dict.fromkeys(errors)) or [NONE]
    return Measurement("cuda_runtime", world_size=1, hosts=1, samples=tuple(samples), facts=facts,
                       environment=environment, **identity())  # fmt: skip


def try_gpu(driver: Driver, torch: Any, gpu: int, options: Dict[str, Any]) -> Tuple[List[Sample], str]:
    """The samples of one GPU and a word for the error that ended it ("none" where it went through)."""
    samples: List[Sample] = []
    try:
        with driver.open(gpu) as context:
            samples += memory_pass(context, gpu, int(options["memory_mib"]), driver.total_memory_bytes(gpu))
            samples += matrix_product(context, torch, gpu, int(options["matrix_size"]), str(options["device"]))
    except CudaError as error:
        return samples, str(error)
    except RuntimeError as error:  # torch raises it for every CUDA failure
        return samples, "torch: " + " ".join(str(error).split())[:200]
    return samples, NONE


def memory_pass(context: Context, gpu: int, mib: int, total_bytes: int) -> List[Sample]:
    """Random bytes written to `mib` MiB of device memory, all held at once, read back and compared."""
    chunk = 16 << 20
    sizes = [min(chunk, (mib << 20) - start) for start in range(0, mib << 20, chunk)]
    wrong, tested = context.hold_pattern([os.urandom(size) for size in sizes])
    at = {"gpu": gpu}
    return [
        Sample("memory_wrong_bytes", float(wrong), "B", at),
        Sample("memory_tested", float(tested), "B", at),
        Sample("memory_tested_fraction", tested / total_bytes if total_bytes else float("nan"), "1", at),
    ]


def matrix_product(context: Context, torch: Any, gpu: int, n: int, device: str) -> List[Sample]:
    """The largest error of an n x n float32 product, relative to |A||B|, against the same product in float64.

    That scale makes the published bound n*u/(1 - n*u), u = 2**-24, hold for every element whatever the order of
    summation (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.5).
    """
    generator = torch.Generator().manual_seed(int.from_bytes(os.urandom(7), "little"))
    a = torch.rand(n, n, generator=generator) - 0.5
    b = torch.rand(n, n, generator=generator) - 0.5
    if device == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = False
        c = (a.to("cuda:%d" % gpu) @ b.to("cuda:%d" % gpu)).cpu()
    elif device == "cpu":
        c = through(context, torch, through(context, torch, a) @ through(context, torch, b))
    else:
        could_not('parameter device is %r, expected "cuda" or "cpu"' % device)
    reference = a.double() @ b.double()
    scale = a.double().abs() @ b.double().abs()
    error = ((c.double() - reference).abs() / scale).max().item()
    return [Sample("gemm_max_relative_error", float(error), "1", {"gpu": gpu, "dtype": "float32", "n": n})]


def through(context: Context, torch: Any, matrix: Any) -> Any:
    """The matrix as the device's memory gives it back."""
    back = bytearray(context.round_trip(matrix.numpy().tobytes()))
    return torch.frombuffer(back, dtype=matrix.dtype).reshape(matrix.shape)


def import_torch() -> Any:
    """The image's torch; without it nothing can be measured, which is the image's fault and not the cluster's."""
    try:
        import torch  # noqa: PLC0415 - its absence is an answer of this program
    except ImportError as error:
        could_not("the image has no usable torch: %s" % error)
    return torch


if __name__ == "__main__":
    leave_on_sigterm()
    emit(measure())
