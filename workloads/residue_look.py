"""Does what this pod was handed hold anything that an earlier pod of the run wrote? Looks for the run's marks.

In GPU memory as the driver hands it out, in /dev/shm and on node-local scratch, before anything is written there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List

from workloads.contract import Fact, Measurement, Sample, could_not, emit, identity, leave_on_sigterm, parameters
from workloads.cuda_driver import CudaError, Driver
from workloads.residue_marks import mark, search_folder, search_gpu

PARAMETERS = ("search_mib", "places")
POD = {"scratch": True}


def measure() -> Measurement:
    """Search everywhere."""
    options = parameters()
    marked = mark()
    samples: List[Sample] = []
    files: List[str] = []
    for place in list(options["places"]):
        try:
            found = search_folder(Path(place), marked)
        except OSError as error:
            could_not("%s cannot be searched: %s" % (place, error))
        samples.append(Sample("residue_files", float(len(found)), "count", {"place": place}))
        files += ["%s/%s" % (place, name) for name in found[:5]]
    try:
        driver = Driver()
        for gpu in range(driver.device_count()):
            marks, searched = search_gpu(driver, gpu, int(options["search_mib"]), marked)
            samples.append(Sample("residue_marks", float(marks), "count", {"gpu": gpu}))
            samples.append(Sample("residue_searched", float(searched), "B", {"gpu": gpu}))
    except CudaError as error:
        could_not("GPU memory cannot be searched: %s" % error)
    facts: Dict[str, Fact] = {"residue_in": list(files) or ["none"]}
    return Measurement("residue_look", world_size=1, hosts=1, samples=tuple(samples), facts=facts,
                       environment={}, **identity())  # fmt: skip


if __name__ == "__main__":
    leave_on_sigterm()
    emit(measure())
