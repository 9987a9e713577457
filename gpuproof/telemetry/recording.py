"""What Prometheus keeps of a node's GPUs, as a measurement: every GPU and field, from one target that is up and fresh.

Pure: series and targets in, a measurement out. It must not know a limit or how Prometheus is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuproof.expectation import Telemetry
from gpuproof.telemetry.export import NONE, named
from gpuproof.telemetry.exposition import Series
from gpuproof.telemetry.prometheus import Target
from gpuproof.telemetry.readings import read_gpus
from workloads.contract import Fact, Measurement, Sample

WORKLOAD = "prometheus"
_PLACE = ("job", "instance")


@dataclass(frozen=True)
class Kept:
    """What Prometheus answered, and when by the harness's clock (Unix time)."""

    series: tuple[Series, ...]
    targets: tuple[Target, ...]
    asked_at: float


def recording_of(kept: Kept, settings: Telemetry, seen: Sequence[str], *, run_id: str, node_name: str) -> Measurement:
    """What is kept of the GPUs that a pod on the node saw (`seen`, in its order)."""
    known = list(dict.fromkeys(seen))
    mine = [one for one in kept.series if one.labels.get("UUID") in known]
    places = sorted({_place(one.labels) for one in mine})
    targets = [target for target in kept.targets if _place(target.labels) in places]
    page = read_gpus(mine)
    facts: dict[str, Fact] = {
        "prometheus_error": NONE,
        "uuid_missing": named(f"GPU {known.index(uuid)} ({uuid})" for uuid in known if uuid not in page.uuids),
        "field_missing": named(_missing(settings, known, mine)),
        "series_duplicate": named(f"{name} of {uuid}" for name, (uuid, _) in page.duplicate),
        "target_problem": named(_problems(places, targets)),
        "pod_labels": _mapping(mine),
    }
    samples = [Sample("targets", float(len(places)), "count")]
    intervals = [target.interval_s for target in targets if target.interval_s is not None]
    if intervals:
        samples.append(Sample("scrape_interval", max(intervals), "s"))
    ages = [kept.asked_at - target.scraped_at for target in targets if target.scraped_at is not None]
    if ages:
        samples.append(Sample("scrape_age", max(0.0, *ages), "s"))
    if ages and intervals:
        samples.append(Sample("scrape_age_intervals", max(0.0, *ages) / max(intervals), "1"))
    took = [target.took_s for target in targets if target.took_s is not None]
    if took:
        samples.append(Sample("scrape_duration", max(took), "s"))
    return Measurement(WORKLOAD, run_id, node_name, "", 1, 1, tuple(samples), facts)


def failed(error: str, *, run_id: str, node_name: str) -> Measurement:
    """Prometheus did not answer: nothing is kept, as far as anybody can see."""
    return Measurement(WORKLOAD, run_id, node_name, "", 1, 1, (), {"prometheus_error": error})


def _place(labels: object) -> tuple[str, ...]:
    return tuple(labels.get(key, "") for key in _PLACE) if isinstance(labels, dict) else ("", "")


def _missing(settings: Telemetry, known: Sequence[str], mine: Sequence[Series]) -> Iterable[str]:
    for name in settings.fields:
        told = {one.labels["UUID"] for one in mine if one.name == name}
        lacking = [f"GPU {number}" for number, uuid in enumerate(known) if uuid not in told]
        if lacking:
            yield f"{name} of {', '.join(lacking)}"


def _problems(places: Sequence[tuple[str, ...]], targets: Sequence[Target]) -> Iterable[str]:
    for target in targets:
        if target.health != "up":
            yield f"{target.labels.get('instance', '?')} is {target.health}: {target.error or 'no word why'}"
    listed = {_place(target.labels) for target in targets}
    for place in places:
        if place not in listed:
            yield f"{place[1] or '?'} is not among the active targets"


def _mapping(mine: Sequence[Series]) -> str:
    """Under which label the workload's pod stands: as the exporter named it, or renamed (honor_labels: false)."""
    if any("exported_pod" in one.labels for one in mine):
        return "exported_pod: honor_labels is false, so `pod` is the exporter's own"
    return "pod" if any("pod" in one.labels for one in mine) else NONE
