"""What a node's exporter tells, as a measurement: found, readable, complete, unambiguous, of plausible size.

Pure: a node's history in, a measurement out. It must not know a limit; the profile says what must be there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from gpuproof.expectation import Telemetry
from gpuproof.telemetry.history import NodeHistory, Scrape
from gpuproof.telemetry.readings import (
    CLOCK,
    ENGINE,
    FREE,
    POWER,
    RESERVED,
    TEMPERATURE,
    USED,
    UTILISATION,
    GpuReading,
    Identity,
    PageReading,
)
from workloads.contract import Fact, Measurement, Sample, Scalar

WORKLOAD = "dcgm-exporter"
NONE = "none"
MAX_NAMED = 8
"""A fact names this many things and counts the rest."""

_SHOWN = (
    ("power", POWER, "W"),
    ("temperature", TEMPERATURE, "C"),
    ("utilisation", UTILISATION, "%"),
    ("sm_clock", CLOCK, "MHz"),
    ("engine_active", ENGINE, "1"),
)


def export_of(
    history: NodeHistory,
    settings: Telemetry,
    seen: Sequence[str],
    *,
    run_id: str,
    since: float,
    node_name: str,
) -> Measurement:
    """The exporter of a node as it is now; `seen` are the UUIDs that a pod with all GPUs of the node saw, in order."""
    samples = [
        Sample("exporters", float(len(history.exporters)), "count"),
        Sample("exporter_restarts", float(history.restarts), "count"),
        Sample("scrapes", float(history.asked), "count"),
    ]
    facts: dict[str, Fact] = {
        "exporter": [str(each) for each in history.exporters] or [NONE],
        "exporter_problem": exporter_problem(history, settings),
        "other_exporters": named(str(each) for each in history.exporters[1:]),
        "scrape_error": scrape_error(history, since),
    }
    if history.asked:
        samples.append(Sample("scrapes_answered", history.answered / history.asked, "1"))
        samples.append(Sample("scrape_time", history.slowest_s, "s", {"statistic": "max"}))
    if history.interval_s is not None:
        samples.append(Sample("collection_interval", history.interval_s, "s"))
    if (latest := page_since(history, since)) is not None and latest.page is not None:
        samples.append(Sample("page_size", float(latest.size), "B"))
        facts["page_format"] = latest.form
        facts |= _completeness(latest.page, settings, seen)
        samples.append(Sample("gpus_exported", float(len(latest.page.uuids)), "count"))
        samples += _values(history, latest.page, seen)
        hostnames = sorted({gpu.hostname for gpu in latest.page.gpus.values()})
        facts["hostname_label"] = list(hostnames) or [NONE]
    return Measurement(WORKLOAD, run_id, node_name, "", 1, 1, tuple(samples), facts)


def page_since(history: NodeHistory, since: float) -> Scrape | None:
    """The last good scrape with all its fields, if it began at `since` or later."""
    latest = history.latest
    return latest if latest is not None and latest.began >= since else None


def exporter_problem(history: NodeHistory, settings: Telemetry) -> str:
    """Why there is no exporter to ask, in words; "none" where there is one."""
    if not history.exporters:
        return f"no pod with {' or '.join(settings.selectors)} is on the node, in any namespace"
    if history.exporter is None:
        each = history.exporters[0]
        return f"{each}: {each.problem}"
    return NONE


def scrape_error(history: NodeHistory, since: float) -> str:
    """Why there is no page from `since` on, in words; "none" where there is one."""
    if page_since(history, since) is not None:
        return NONE
    if errors := [each.error for each in history.since(since) if each.error]:
        return f"{len(errors)} scrapes in a row failed, the last one: {errors[-1]}"
    if history.scrapes and history.scrapes[-1].error:
        return f"no answer any more, the last one was: {history.scrapes[-1].error}"
    return "nobody could be asked" if history.exporter is None else "it was asked and has not answered yet"


def named(things: Iterable[str]) -> list[Scalar]:
    """A fact that names things, or says that there is none."""
    found = list(dict.fromkeys(things))
    if len(found) > MAX_NAMED:
        return [*found[:MAX_NAMED], f"and {len(found) - MAX_NAMED} more"]
    return list(found) or [NONE]


def _completeness(page: PageReading, settings: Telemetry, seen: Sequence[str]) -> dict[str, Fact]:
    known = list(dict.fromkeys(seen))
    blank = {(name, key) for name, key in page.blank}
    return {
        "uuid_missing": named(f"GPU {known.index(uuid)} ({uuid})" for uuid in known if uuid not in page.uuids),
        "uuid_unknown": named(sorted(page.uuids - set(known))),
        "field_missing": named(_missing(page, settings, known, blank)),
        "field_blank": named(_by_gpu(page.blank, known)),
        "field_unreadable": named(_by_gpu(page.unreadable, known)),
        "series_duplicate": named(_by_gpu(page.duplicate, known)),
        "series_without_gpu": named(page.nameless),
    }


def _missing(
    page: PageReading, settings: Telemetry, known: Sequence[str], blank: Collection[tuple[str, Identity]]
) -> Iterable[str]:
    """Required fields without a value, field by field, each with the GPUs that lack it."""
    parents = {uuid for uuid, instance in page.gpus if instance}
    lacking: dict[str, list[str]] = {}
    for key, gpu in page.gpus.items():
        # A partitioned GPU has no values of its own for what its instances share out.
        wanted = settings.mig_fields if gpu.instance else settings.fields
        if key[0] in parents and not gpu.instance:
            continue
        for name in wanted:
            if name in gpu.values:
                continue
            why = ": it is blank, DCGM's word for a value that is not supported" if (name, key) in blank else ""
            lacking.setdefault(f"{name}{why}", []).append(_where(key, known))
    for name, places in lacking.items():
        field, _, why = name.partition(": ")
        yield f"{field} of {', '.join(places)}{': ' + why if why else ''}"


def _by_gpu(found: Iterable[tuple[str, Identity]], known: Sequence[str]) -> Iterable[str]:
    """What is wrong with fields of GPUs, a GPU at a time: the first field, and how many more."""
    fields: dict[Identity, list[str]] = {}
    for name, key in found:
        fields.setdefault(key, []).append(name)
    for key, names in fields.items():
        distinct = list(dict.fromkeys(names))
        more = f" and {len(distinct) - 1} more" if len(distinct) > 1 else ""
        yield f"{distinct[0]}{more} of {_where(key, known)}"


def _where(key: Identity, known: Sequence[str]) -> str:
    uuid, instance = key
    gpu = f"GPU {known.index(uuid)}" if uuid in known else uuid
    return f"{gpu} instance {instance}" if instance else gpu


def _values(history: NodeHistory, latest: PageReading, seen: Sequence[str]) -> list[Sample]:
    """Lowest and highest value of each GPU over the run so far, numbered as the pod saw the GPUs."""
    samples: list[Sample] = []
    pages = [each.page for each in history.good() if each.page is not None] or [latest]
    for number, uuid in enumerate(dict.fromkeys(seen)):
        readings = [page.gpus[uuid, ""] for page in pages if (uuid, "") in page.gpus]
        for metric, name, unit in _SHOWN:
            values = [reading.values[name] for reading in readings if name in reading.values]
            if values:
                samples.append(Sample(metric, min(values), unit, {"gpu": number, "statistic": "min"}))
                samples.append(Sample(metric, max(values), unit, {"gpu": number, "statistic": "max"}))
        if readings and (total := _memory(readings[-1])) is not None:
            samples.append(Sample("memory_total", total, "MiB", {"gpu": number}))
    return samples


def _memory(gpu: GpuReading) -> float | None:
    if USED not in gpu.values or FREE not in gpu.values:
        return None
    return gpu.values[USED] + gpu.values[FREE] + gpu.values.get(RESERVED, 0.0)
