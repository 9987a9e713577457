"""A load that the harness itself put on a node's GPUs, held against what the exporter told meanwhile.

Pure: the load's measurement and the node's history in, a measurement out. It must not know a limit.

Each GPU has its own time under load; while it is not its turn it must stay idle, which shows an exporter that puts one
GPU's values under another's name. Values count from one interval and `settle_s` after a change on, as they may be old.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpuproof.expectation import Telemetry
from gpuproof.telemetry.export import WORKLOAD, named
from gpuproof.telemetry.history import NodeHistory, Scrape
from gpuproof.telemetry.readings import ENERGY, POWER, USED, XID, GpuReading, Holder, utilisation
from gpuproof.telemetry.windows import Load, Sight, clock_offset_s, loads_of
from workloads.contract import Fact, Measurement, Sample, Scalar

RIGHT = "the load's pod"
_MJ_PER_J = 1000.0
_MOVING = (POWER, ENERGY, USED)


@dataclass(frozen=True)
class Question:
    """One load on one node: its pod's names, what was seen of it when, and when it was surely gone (Unix time)."""

    load: Measurement
    sight: Sight
    holder: Holder
    ended_by: float
    interval_s: float | None


def lag_of(interval_s: float, settings: Telemetry, load: Measurement) -> float:
    """How long a change may take to show. An interval beyond half the load's time is none that anybody waits for."""
    longest_s = max((each.ended - each.began for each in loads_of(load)), default=0.0)
    return min(interval_s, longest_s / 2) + settings.settle_s


@dataclass(frozen=True)
class _Span:
    since: float
    until: float


def attribution_of(history: NodeHistory, settings: Telemetry, question: Question) -> Measurement:
    """What the exporter made of the load, GPU by GPU, and of the time since the run began."""
    load = question.load
    loads = loads_of(load)
    emitted = max((each.ended for each in loads), default=question.sight.arrived)
    offset = clock_offset_s(question.sight, min((each.began for each in loads), default=emitted), emitted)
    measured = measured_interval_s(history)
    interval_s = question.interval_s or measured or 0.0
    lag_s = lag_of(interval_s, settings, load)
    samples: list[Sample] = [Sample("clock_offset", offset, "s")]
    facts: dict[str, Fact] = {}
    if question.interval_s is not None:
        samples.append(Sample("collection_interval", question.interval_s, "s"))
    if measured is not None:
        samples.append(Sample("update_interval", measured, "s"))
    attribution: list[Scalar | None] = []
    frozen: list[str] = []
    for each in loads:
        under = _Span(each.began + offset + lag_s, each.ended + offset)
        others = [
            _Span(other.began + offset + lag_s, other.ended + offset)
            for other in loads
            if other.began >= each.ended or other.ended <= each.began
        ]
        gone = _Span(question.ended_by + lag_s, float("inf"))
        look = _Look(history, each.uuid)
        samples += _held(each, interval_s)
        samples += _moved(look, each, under, others, gone)
        attribution.append(_attributed(look, under, question.holder))
        if look.frozen(each.began + offset, each.ended + offset):
            frozen.append(f"GPU {each.gpu} ({each.uuid})")
    told = [each for each in attribution if each is not None]
    if attribution and len(told) == len(attribution):
        facts["attribution"] = told
    facts |= {
        "frozen": named(frozen),
        "stale_pod": named(_stale(history, question.ended_by + lag_s, question.holder.namespace)),
        **_xids(history, [each.uuid for each in loads]),
    }
    samples += _gpu_time(history)
    return Measurement(WORKLOAD, load.run_id, load.node, "", 1, 1, tuple(samples), facts)


class _Look:
    """One GPU in a node's history."""

    def __init__(self, history: NodeHistory, uuid: str) -> None:
        self._history, self._uuid = history, uuid

    def readings(self, span: _Span) -> list[tuple[float, GpuReading]]:
        found = self._history.good(span.since, span.until)
        return [(each.at, gpu) for each in found if (gpu := _on(each, self._uuid)) is not None]

    def why_nothing(self, span: _Span) -> str | None:
        """Why there is no reading of the GPU in that time; None where nobody asked."""
        if self._history.good(span.since, span.until):
            return "it was on no page while the load held it"
        errors = [each.error for each in self._history.failed(span.since, span.until)]
        return f"no page was read while the load held it: {errors[-1]}" if errors else None

    def values(self, span: _Span, field: Callable[[GpuReading], float | None]) -> list[float]:
        return [value for _, reading in self.readings(span) if (value := field(reading)) is not None]

    def frozen(self, began: float, ended: float) -> bool:
        """Whether nothing that every load moves has changed from before it to its end, over three looks or more."""
        before = self.readings(_Span(0.0, began))[-1:]
        looks = [reading for _, reading in (*before, *self.readings(_Span(began, ended)))]
        if len(looks) < 3:
            return False
        return all(len({reading.values.get(field) for reading in looks}) == 1 for field in _MOVING)


def _on(scrape: Scrape, uuid: str) -> GpuReading | None:
    return scrape.page.gpus.get((uuid, "")) if scrape.page is not None else None


def _held(load: Load, interval_s: float) -> list[Sample]:
    at: dict[str, Scalar] = {"gpu": load.gpu}
    if interval_s <= 0:
        return []
    return [Sample("intervals_held", (load.ended - load.began) / interval_s, "1", at)]


def _moved(look: _Look, load: Load, under: _Span, others: Sequence[_Span], gone: _Span) -> list[Sample]:
    """What changed on one GPU when it was its turn, and what did not when it was not."""
    at: dict[str, Scalar] = {"gpu": load.gpu}
    samples = [Sample("scrapes_under_load", float(len(look.readings(under))), "count", at)]

    def tell(metric: str, value: float | None, unit: str) -> None:
        if value is not None:
            samples.append(Sample(metric, value, unit, at))

    busy = look.values(under, utilisation)
    idle = [value for span in others for value in look.values(span, utilisation)]
    after = look.values(gone, utilisation)
    tell("utilisation_under_load", max(busy, default=None), "%")
    # A node of one GPU has no other turn: then the time after the load is when it must be idle.
    tell("utilisation_idle", max(idle or after, default=None), "%")
    tell("utilisation_after", min(after, default=None), "%")
    tell("power_rise", _ratio(look.values(under, _field(POWER)), look.values(gone, _field(POWER))), "1")
    used, left = look.values(under, _field(USED)), look.values(gone, _field(USED))
    if used and left and load.memory_mib:
        tell("memory_rise", (max(used) - min(left)) / load.memory_mib, "1")
    tell("energy_rise", _energy_j(look, under), "J")
    if busy and load.busy is not None:
        tell("utilisation_told_less", load.busy * 100.0 - max(busy), "%")
    return samples


def _field(name: str) -> Callable[[GpuReading], float | None]:
    return lambda reading: reading.values.get(name)


def _ratio(under: Sequence[float], idle: Sequence[float]) -> float | None:
    if not under or not idle or min(idle) <= 0:
        return None
    return statistics.fmean(under) / min(idle)


def _energy_j(look: _Look, under: _Span) -> float | None:
    values = look.values(under, _field(ENERGY))
    return (values[-1] - values[0]) / _MJ_PER_J if len(values) >= 2 else None


def _attributed(look: _Look, under: _Span, expected: Holder) -> str | None:
    """Whom the series of a GPU named while the load held it: the worst of all pages in that time.

    None where the exporter was not even asked: that is the harness's lack, and nobody's fault over there.
    """
    readings = look.readings(under)
    if not readings:
        return look.why_nothing(under)
    for _, reading in readings:
        for holder in sorted(reading.holders, key=str):
            if holder is None:
                return "no pod labels on its series"
            if not (holder.namespace or holder.pod or holder.container):
                return "pod labels that are empty"
            if holder != expected:
                return f"{holder}, expected {expected}"
    return RIGHT


def _stale(history: NodeHistory, since: float, namespace: str) -> Iterable[str]:
    """Pods of this run that series still name at the last look, although the run has none on the node any more."""
    good = history.good(since)
    page = good[-1].page if good else None
    for gpu in page.gpus.values() if page is not None else ():
        for holder in gpu.holders:
            if holder is not None and holder.namespace == namespace:
                yield f"{holder} on {gpu.uuid}"


def _xids(history: NodeHistory, uuids: Sequence[str]) -> dict[str, Fact]:
    """The last XID of each GPU latches: an old one is told, one that changed in the run is new."""
    good = history.good()
    old, changed = [], []
    for number, uuid in enumerate(uuids):
        values = [reading.values[XID] for each in good if (reading := _on(each, uuid)) and XID in reading.values]
        if history.first is not None and (first := _on(history.first, uuid)) and XID in first.values:
            values.insert(0, first.values[XID])
        if values and values[0] != 0:
            old.append(f"GPU {number}: XID {values[0]:.0f} from before the run")
        steps = [(a, b) for a, b in pairwise(values) if a != b]
        changed += [f"GPU {number}: XID {after:.0f} after {before:.0f}" for before, after in steps]
    return {"xid_old": named(old), "xid_changed": named(changed)}


def _gpu_time(history: NodeHistory) -> list[Sample]:
    told = history.gpu_time
    return [
        Sample("gpu_time_watched", told.watched_s, "s"),
        Sample("gpu_time_allocated", told.allocated_s, "s"),
        Sample("gpu_time_busy", told.busy_s, "s"),
        Sample("gpu_time_gap", told.allocated_s - told.busy_s, "s"),
    ]


def measured_interval_s(history: NodeHistory) -> float | None:
    """The median time between two changes of any GPU's power or energy; None where nothing changed twice.

    Never shorter than the time between two looks: it is an upper estimate.
    """
    changes: list[float] = []
    last: dict[tuple[str, str], tuple[float | None, float | None]] | None = None
    for each in history.good():
        if each.page is None:
            continue
        now = {key: (gpu.values.get(POWER), gpu.values.get(ENERGY)) for key, gpu in each.page.gpus.items()}
        if last is not None and now != last:
            changes.append(each.at)
        last = now
    gaps = [after - before for before, after in pairwise(changes)]
    return statistics.median(gaps) if gaps else None
