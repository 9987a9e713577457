"""Leaves this run's marks in GPU memory, in /dev/shm and on node-local scratch, and ends without clearing anything.

As a pod that was killed does. `residue_look` is what comes after it.
"""

from __future__ import annotations

from pathlib import Path
from typing import List

from workloads.contract import Measurement, Sample, could_not, emit, identity, leave_on_sigterm, parameters
from workloads.cuda_driver import CudaError, Driver
from workloads.residue_marks import fill_folder, fill_gpu, mark

PARAMETERS = ("memory_mib", "file_mib", "places")
POD = {"scratch": True}


def measure() -> Measurement:
    """Write everywhere; what was written is counted, for nothing can be found where nothing was left."""
    options = parameters()
    marked, samples, kept = mark(), [], []
    try:
        driver = Driver()
        for gpu in range(driver.device_count()):
            written, memory = fill_gpu(driver, gpu, int(options["memory_mib"]), marked)
            samples.append(Sample("residue_written", float(written), "B", {"gpu": gpu}))
            kept.append(memory)
    except CudaError as error:
        could_not("no mark can be left in GPU memory: %s" % error)
    samples += files(list(options["places"]), int(options["file_mib"]), marked)
    return Measurement("residue_write", world_size=1, hosts=1, samples=tuple(samples), facts={},
                       environment={}, **identity())  # fmt: skip


def files(places: List[str], mib: int, marked: bytes) -> List[Sample]:
    """One file in every place."""
    samples = []
    for place in places:
        try:
            written = fill_folder(Path(place), mib, marked)
        except OSError as error:
            could_not("no mark can be left in %s: %s" % (place, error))
        samples.append(Sample("residue_left", float(written), "B", {"place": place}))
    return samples


if __name__ == "__main__":
    leave_on_sigterm()
    emit(measure())
