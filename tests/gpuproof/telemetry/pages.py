# ruff: noqa: ARG002  (it implements a port; not every argument matters to it)
"""Pages as dcgm-exporter writes them, and a cluster whose pods answer with them.

Format: the order of labels is that of dcgm-exporter's internal/pkg/rendermetrics/render_metrics.go, the values have the
shapes of public scrapes of H100 and L40S nodes (NVIDIA/aicr, docs/conformance/cncf/evidence); names are ours.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuproof.catalogue import load_checks, subjects_asked
from gpuproof.cluster.port import Page, Resource
from gpuproof.expectation import Telemetry
from gpuproof.profile import find_profile, load_profile
from gpuproof.telemetry.exporters import Exporter
from gpuproof.telemetry.history import NodeHistory, Scrape
from gpuproof.telemetry.scraping import scrape
from tests.gpuproof.toy_cluster import ToyCluster

PROFILE = load_profile(
    find_profile("simulated"), known_checks=subjects_asked(load_checks()), today=dt.date(2026, 11, 30)
)
assert PROFILE.telemetry is not None
SETTINGS: Telemetry = PROFILE.telemetry
UUIDS = ("GPU-00000000-aaaa-4000-8000-000000000000", "GPU-00000000-aaaa-4000-8000-000000000001")
TEXT = "text/plain; version=0.0.4; charset=utf-8"
EXPORTER = Exporter("gpu-operator", "exporter-x", "n1", "uid-1", "", 0, 0.5)

VALUES: dict[str, tuple[str, float]] = {
    "DCGM_FI_DEV_SM_CLOCK": ("gauge", 210),
    "DCGM_FI_DEV_GPU_TEMP": ("gauge", 30),
    "DCGM_FI_DEV_POWER_USAGE": ("gauge", 113.611),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("counter", 5551899580),
    "DCGM_FI_DEV_GPU_UTIL": ("gauge", 0),
    "DCGM_FI_DEV_XID_ERRORS": ("gauge", 0),
    "DCGM_FI_DEV_FB_FREE": ("gauge", 4000),
    "DCGM_FI_DEV_FB_USED": ("gauge", 96),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": ("counter", 0),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": ("gauge", 0),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("gauge", 0.0),
}


def labels(gpu: int, pod: Mapping[str, str] | None = None, hostname: str = "Hostname") -> str:
    """One GPU's labels in the exporter's order."""
    named = {
        "gpu": str(gpu),
        "UUID": UUIDS[gpu],
        "pci_bus_id": f"00000000:{0x53 + 0x11 * gpu:02X}:00.0",
        "device": f"nvidia{gpu}",
        "modelName": "NVIDIA H100 80GB HBM3",
        hostname: "n1",
        "DCGM_FI_DRIVER_VERSION": "580.105.08",
        **(pod or {}),
    }
    return ",".join(f'{key}="{value}"' for key, value in named.items())


def page(
    changes: Sequence[Mapping[str, float]] = ({}, {}),
    pods: Sequence[Mapping[str, str] | None] = (None, None),
    hostname: str = "Hostname",
) -> str:
    """A page of two GPUs; `changes` are values that differ, by GPU."""
    lines = []
    for name, (kind, value) in VALUES.items():
        lines += [f"# HELP {name} As the exporter words it.", f"# TYPE {name} {kind}"]
        for gpu, (changed, pod) in enumerate(zip(changes, pods, strict=True)):
            lines.append(f"{name}{{{labels(gpu, pod, hostname)}}} {changed.get(name, value)}")
    return "\n".join(lines) + "\n"


@dataclass
class Answering(ToyCluster):
    """A cluster in which every exporter answers the same."""

    nodes: dict[str, dict[str, object]] = field(default_factory=dict)
    said: Page = field(default_factory=lambda: Page(200, TEXT, page().encode()))

    def proxy_get(
        self,
        resource: Resource,
        name: str,
        port: int,
        path: str,
        *,
        namespace: str,
        accept: str,
        deadline_s: float,
        max_bytes: int,
        query: Sequence[tuple[str, str]] = (),
    ) -> Page:
        """What was set."""
        return self.said


def scraped(body: str | bytes, content_type: str = TEXT, status: int = 200) -> Scrape:
    """What a scrape of this page comes to."""
    data = body.encode() if isinstance(body, str) else body
    return scrape(Answering(said=Page(status, content_type, data)), SETTINGS, EXPORTER)


def history_of(*scrapes: Scrape, exporters: Sequence[Exporter] = (EXPORTER,)) -> NodeHistory:
    """A node's history of these scrapes."""
    history = NodeHistory("n1")
    history.listed(exporters)
    for one in scrapes:
        history.add(one)
    return history
