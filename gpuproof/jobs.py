"""Runs sweeps on a cluster: what a plugin or script needs of jobs, in one place.

It must not know a limit, a verdict or pytest.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from gpuproof.cluster.port import Cluster
from gpuproof.inventory import Inventory
from gpuproof.manifests import Renderer
from gpuproof.run_namespace import Cleanup, RunNamespace
from gpuproof.sweep_run import OnResult, Session, StartedJob, SweepRun, SweepSummary
from gpuproof.visits import NotVisited, Result, SweepRequest, Timings, Visited

__all__ = [
    "Cleanup",
    "NotVisited",
    "OnResult",
    "Result",
    "RunNamespace",
    "StartedJob",
    "SweepRequest",
    "SweepSummary",
    "Sweeper",
    "Timings",
    "Visited",
]


class Sweeper:
    """Runs one sweep after another in a run's namespace. Not for several threads at once."""

    def __init__(
        self,
        cluster: Cluster,
        renderer: Renderer,
        inventory: Inventory,
        *,
        not_ready_grace_s: float = 10.0,
        on_job: Callable[[StartedJob], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = Session(cluster, renderer, inventory, not_ready_grace_s, on_job, clock)

    @property
    def inventory(self) -> Inventory:
        """The nodes as the last sweep's watch left them."""
        return self._session.inventory

    def run(self, request: SweepRequest, on_result: OnResult, stop: threading.Event) -> SweepSummary:
        """Blocks until each candidate has a result. `stop` ends it early: what is open becomes `interrupted`.

        Raises nothing of the cluster's: a cluster that fails becomes the open candidates' failure.
        """
        return SweepRun(self._session, request, on_result, stop).run()
