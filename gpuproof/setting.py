"""What a run is made with, before the cluster is asked anything.

Must not know how a run goes.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

from gpuproof.baseline import Baseline
from gpuproof.catalogue import Check
from gpuproof.manifests import WORKLOADS, PodSettings, Renderer
from gpuproof.plan import scope_labels
from gpuproof.profile import Profile


@dataclass(frozen=True)
class Setting:
    """What a run is made with, before the cluster is asked anything."""

    run_id: str
    profile: Profile
    checks: tuple[Check, ...]
    argv: tuple[str, ...]
    simulated: bool
    folders: tuple[Path, ...] = (WORKLOADS,)
    """Where the programs of the checks are."""
    narrowed: str | None = None
    """How the command line cut the run down (one check, one node), in words; None for the whole."""
    baseline: Baseline | None = None
    """The earlier run that limits are relative to."""
    kubeconfig: Path | None = None
    """Where the cluster is described for other programs; None: where they look by themselves."""


class WrongClusterError(Exception):
    """The cluster and the profile do not fit each other, so that nothing may run."""


def renderer(setting: Setting) -> Renderer:
    """What turns the run's requests into manifests."""
    profile = setting.profile
    return Renderer(
        run_id=setting.run_id,
        namespace=f"gpuproof-{setting.run_id}",
        pool=scope_labels(profile),
        gpu_resource=profile.cluster.gpu_resource,
        pod=PodSettings.from_mapping(profile.pod),
        folders=setting.folders,
        rdma=profile.cluster.rdma,
        storage=profile.storage,
    )


def today() -> dt.date:
    """The day in UTC on which provenance and waivers are judged."""
    return dt.datetime.now(dt.UTC).date()
