"""Scrapes as rows for the record: one row a GPU, so that a report can lay the platform's telemetry beside each check.

Pure. It must not know the record or a report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpuproof.telemetry.history import Scrape
from gpuproof.telemetry.readings import (
    CLOCK,
    ENERGY,
    OLD_THROTTLE,
    POWER,
    TEMPERATURE,
    THROTTLE,
    USED,
    XID,
    GpuReading,
    utilisation,
)

COLUMNS = (
    "node",
    "gpu",
    "instance",
    "at_unix_s",
    "utilisation_percent",
    "power_w",
    "temperature_c",
    "sm_clock_mhz",
    "memory_used_mib",
    "energy_mj",
    "throttle_reasons",
    "xid",
    "pod",
)
"""`gpu` is the exporter's number, `throttle_reasons` NVML's bit mask, `pod` NAMESPACE/POD; None where there is none."""

Cell = str | int | float | None


def rows(scrapes: Iterable[Scrape]) -> Iterator[Sequence[Cell]]:
    """One row for every GPU and MIG instance of every good scrape, in the order of `COLUMNS`."""
    for scrape in scrapes:
        for gpu in scrape.page.gpus.values() if scrape.page is not None else ():
            yield _row(scrape, gpu)


def errors(scrapes: Iterable[Scrape]) -> dict[str, str]:
    """Why a node's exporter could not be read, by node."""
    return {scrape.node: scrape.error for scrape in scrapes if scrape.page is None}


def _row(scrape: Scrape, gpu: GpuReading) -> Sequence[Cell]:
    values = gpu.values
    pods = sorted(f"{holder.namespace}/{holder.pod}" for holder in gpu.holders if holder is not None and holder.pod)
    throttle = values.get(THROTTLE, values.get(OLD_THROTTLE))
    return (
        scrape.node,
        int(gpu.index) if gpu.index.isascii() and gpu.index.isdigit() else gpu.index,
        gpu.instance or None,
        round(scrape.at, 3),
        utilisation(gpu),
        values.get(POWER),
        values.get(TEMPERATURE),
        values.get(CLOCK),
        values.get(USED),
        values.get(ENERGY),
        throttle,
        values.get(XID),
        ", ".join(pods) or None,
    )
