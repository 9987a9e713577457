"""How fast does a weights file reach the node's own disk, is it right there, and how fast is it read cold and warm?

Warms a node-local cache as an inference server does before it answers: the largest object of the dataset is brought to
an emptyDir of the pod, verified, and read twice. All nodes do it at once and need nothing of each other. A source that
refuses is no measured quality of the cluster: the program then says that it could not measure.
"""

from __future__ import annotations

import hashlib
import os
import time
from typing import Any, Dict, List, Mapping, Sequence

from workloads.claim_meeting import CLAIMS
from workloads.contract import (
    Fact,
    Measurement,
    Sample,
    could_not,
    emit,
    leave_on_sigterm,
    of_one_pod,
    parameters,
)
from workloads.dataset_objects import BLOCK, Refused, Wrong, fetch
from workloads.dataset_staging import SCRATCH, forget_cached, handed_out

PARAMETERS = ("attempts", "source_timeout_s")
POD = {"gpus": "none", "claims": ["shared"], "dataset": True}
_GB = 1e9


def measure(items: Sequence[Mapping[str, Any]], attempts: int, timeout_s: float) -> Measurement:
    """Warm up, read cold and warm, verify what the disk holds; could_not where the source refuses."""
    item = max(items, key=lambda each: int(each["bytes"]))
    size = int(item["bytes"])
    cached = os.path.join(SCRATCH, "weights", str(item["name"]))
    samples: List[Sample] = []
    facts: Dict[str, Fact] = {"warm_up_error": "none"}
    try:
        came = fetch(item, cached, CLAIMS, attempts, timeout_s)
    except Refused as error:
        could_not("the weights cannot be had: %s; check [dataset], its address and its rights" % error)
    except Wrong as error:
        facts["warm_up_error"] = str(error)
        samples.append(Sample("verified", 0.0, "1"))
    else:
        samples.append(Sample("warm_up", came.seconds, "s"))
        samples.append(Sample("warm_up_rate", size / came.seconds / _GB, "GB/s"))
        for cache in ("cold", "warm"):
            if cache == "cold":
                forget_cached(cached)
            samples.append(Sample("read_rate", size / read_through(cached) / _GB, "GB/s", {"cache": cache}))
        # What the disk holds, and not what this node still remembers of the writing.
        forget_cached(cached)
        samples.append(Sample("verified", float(sha256_of(cached) == item["sha256"]), "1"))
    return of_one_pod("weights_cache", samples, facts, environment={"weights_bytes": str(size)})


def read_through(path: str) -> float:
    """Seconds that reading the whole file takes, into memory that is used again."""
    buffer = bytearray(BLOCK)
    began = time.monotonic()
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.monotonic() - began


def sha256_of(path: str) -> str:
    """Of the file as it is read now."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        for block in iter(lambda: file.read(BLOCK), b""):
            digest.update(block)
    return digest.hexdigest()


def main() -> None:
    """Run as the pod's program."""
    leave_on_sigterm()
    given = parameters()
    emit(measure(handed_out(), int(given["attempts"]), float(given["source_timeout_s"])))


if __name__ == "__main__":
    main()
