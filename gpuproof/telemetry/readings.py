"""What a page of dcgm-exporter says about each GPU of a node: values by field, who holds it, and what is wrong with it.

Pure. Names of fields and labels are dcgm-exporter's (reference: its etc/default-counters.csv and its template of
labels); blank values are those of DCGM's dcgm_structs.h. It must not know a limit or what was expected.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuproof.telemetry.exposition import Series

UTILISATION, ENGINE = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
POWER, ENERGY = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
TEMPERATURE, CLOCK = "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_SM_CLOCK"
USED, FREE, RESERVED = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED"
XID = "DCGM_FI_DEV_XID_ERRORS"
THROTTLE = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"
OLD_THROTTLE = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"

KEPT = (UTILISATION, ENGINE, POWER, ENERGY, TEMPERATURE, CLOCK, USED, FREE, RESERVED, XID, THROTTLE, OLD_THROTTLE)
"""What is kept of every page for the whole run; the rest only of the last one."""

PREFIX = "DCGM_"
_INT64_BLANK, _FP64_BLANK, _INT32_BLANK = float(0x7FFFFFFFFFFFFFF0), 140737488355328.0, 0x7FFFFFF0
_BLANKS = 4
"""Blank, not found, not supported, not permissioned: so many numbers from the first on."""

Identity = tuple[str, str]
"""UUID of the GPU, and the id of the MIG instance ("" for the whole GPU)."""


@dataclass(frozen=True)
class Holder:
    """The pod that a GPU's series name, by its labels; empty words are labels that are there and empty."""

    namespace: str
    pod: str
    container: str

    def __str__(self) -> str:
        return f"{self.namespace or '(empty)'}/{self.pod or '(empty)'}/{self.container or '(empty)'}"


@dataclass(frozen=True)
class GpuReading:
    """One GPU or MIG instance on one page. `holders` are all that its series name; None among them: no pod labels."""

    uuid: str
    instance: str
    index: str
    model: str
    values: Mapping[str, float]
    holders: frozenset[Holder | None]
    hostname: str = ""


@dataclass(frozen=True)
class PageReading:
    """All GPUs of a page by identity. `blank`, `unreadable` and `duplicate` are (field, identity)."""

    gpus: Mapping[Identity, GpuReading]
    blank: tuple[tuple[str, Identity], ...] = ()
    unreadable: tuple[tuple[str, Identity], ...] = ()
    duplicate: tuple[tuple[str, Identity], ...] = ()
    nameless: tuple[str, ...] = ()
    """Fields with a series that names no GPU."""

    @property
    def uuids(self) -> frozenset[str]:
        """The physical GPUs on the page."""
        return frozenset(uuid for uuid, _ in self.gpus)


def is_blank(value: float, kind: str) -> bool:
    """Whether DCGM's word for "no value" stands in the place of one.

    The 32-bit ones only for gauges: a counter may well pass them.
    """
    if value >= _INT64_BLANK:
        return True
    if _FP64_BLANK <= value < _FP64_BLANK + _BLANKS:
        return True
    return kind != "counter" and _INT32_BLANK <= value < _INT32_BLANK + _BLANKS


def holder_of(labels: Mapping[str, str]) -> Holder | None:
    """Whom the labels of a series name as the holder of its GPU.

    Prometheus renames an exporter's own labels to `exported_…` where it keeps `pod` for whom it scraped
    (honor_labels: false), so those come first. None: the labels are not there at all.
    """
    for prefix in ("exported_", ""):
        if f"{prefix}pod" in labels:
            return Holder(*(labels.get(prefix + key, "") for key in ("namespace", "pod", "container")))
    return None


@dataclass
class _Seen:
    values: dict[str, float] = field(default_factory=dict)
    holders: set[Holder | None] = field(default_factory=set)
    labels: Mapping[str, str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)


def read_gpus(series: Iterable[Series]) -> PageReading:
    """Every series of a DCGM field, put to its GPU; a value that is blank or not finite is no value."""
    seen: dict[Identity, _Seen] = {}
    blank: list[tuple[str, Identity]] = []
    unreadable: list[tuple[str, Identity]] = []
    duplicate: list[tuple[str, Identity]] = []
    nameless: list[str] = []
    for one in series:
        if not one.name.startswith(PREFIX):
            continue
        uuid = one.labels.get("UUID", "")
        if not uuid:
            nameless.append(one.name)
            continue
        key = (uuid, one.labels.get("GPU_I_ID", ""))
        gpu = seen.setdefault(key, _Seen())
        gpu.labels = gpu.labels or one.labels
        gpu.holders.add(holder_of(one.labels))
        if one.name in gpu.names:
            duplicate.append((one.name, key))
            continue
        gpu.names.add(one.name)
        if not math.isfinite(one.value):
            unreadable.append((one.name, key))
        elif is_blank(one.value, one.kind):
            blank.append((one.name, key))
        else:
            gpu.values[one.name] = one.value
    gpus = {key: _reading(key, gpu) for key, gpu in seen.items()}
    return PageReading(gpus, tuple(blank), tuple(unreadable), tuple(duplicate), tuple(dict.fromkeys(nameless)))


def _reading(key: Identity, seen: _Seen) -> GpuReading:
    labels = seen.labels
    hostname = labels.get("Hostname") or labels.get("hostname") or ""
    return GpuReading(
        key[0],
        key[1],
        labels.get("gpu", ""),
        labels.get("modelName", ""),
        seen.values,
        frozenset(seen.holders),
        hostname,
    )


def compact(reading: GpuReading) -> GpuReading:
    """The same with only the fields that are kept for the whole run."""
    values = {name: reading.values[name] for name in KEPT if name in reading.values}
    return GpuReading(
        reading.uuid, reading.instance, reading.index, reading.model, values, reading.holders, reading.hostname
    )


def utilisation(reading: GpuReading) -> float | None:
    """Percent of time that the GPU was busy: its utilisation, or (on MIG, which has none) its engines' activity."""
    if UTILISATION in reading.values:
        return reading.values[UTILISATION]
    share = reading.values.get(ENGINE)
    return None if share is None else share * 100.0
