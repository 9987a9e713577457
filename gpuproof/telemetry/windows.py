"""When a load really held a GPU, by the harness's clock, although the pod told it by its node's.

Pure. It must not know what was read in that time.
"""

from __future__ import annotations

from dataclasses import dataclass

from workloads.contract import Measurement


@dataclass(frozen=True)
class Sight:
    """What the harness saw of a load, in Unix time by its own clock: the Job was created, the measurement arrived."""

    asked: float
    arrived: float


@dataclass(frozen=True)
class Load:
    """What a load says of one GPU: Unix time of its beginning and end by the node's clock, and what it held there."""

    gpu: int
    uuid: str
    began: float
    ended: float
    memory_mib: float | None
    busy: float | None


def loads_of(measurement: Measurement) -> tuple[Load, ...]:
    """Every GPU that the load says it held, in the pod's order; those without a beginning and an end are left out."""
    uuids = measurement.facts.get("gpu_uuid", [])
    listed = [str(uuid) for uuid in uuids] if isinstance(uuids, list) else []
    told: dict[str, dict[object, float]] = {}
    for sample in measurement.samples:
        if "gpu" in sample.at:
            told.setdefault(sample.metric, {})[sample.at["gpu"]] = sample.value
    found = []
    for gpu, uuid in enumerate(listed):
        began, ended = told.get("load_began", {}).get(gpu), told.get("load_ended", {}).get(gpu)
        if began is not None and ended is not None and ended > began:
            memory, busy = told.get("load_memory", {}).get(gpu), told.get("load_busy", {}).get(gpu)
            found.append(Load(gpu, uuid, began, ended, memory, busy))
    return tuple(found)


def clock_offset_s(sight: Sight, began: float, emitted: float) -> float:
    """Seconds to add to the node's clock to get the harness's: 0 where that fits what was seen, else the nearest fit.

    The pod cannot have begun before its Job was created, nor can its message have arrived before it was written; in
    between any offset is possible, and clocks that are kept by a time service differ by next to nothing.
    """
    least, most = sight.asked - began, sight.arrived - emitted
    return max(least, min(most, 0.0))
