"""A simulated cluster for a test: started by its own command line, reached as any cluster is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gpuproof import simulation
from gpuproof.cluster.kube import KubeCluster, connect
from gpuproof.cluster.port import NODES, PODS, Listing
from gpuproof.expectation import Deadlines
from gpuproof.inventory import Inventory, read_inventory
from gpuproof.jobs import NotVisited, Result, RunNamespace, Sweeper, SweepRequest, SweepSummary, Visited
from gpuproof.manifests import PodSettings, Renderer

POOL = {"node-pool": "sim-train"}
GPU = "nvidia.com/gpu"
PATIENT = Deadlines(scheduling_s=30, pulling_s=30, starting_s=30, running_s=30, run_s=300)


@dataclass
class Simulated:
    """One simulated cluster and one run's namespace on it."""

    cluster: KubeCluster
    renderer: Renderer
    namespace: RunNamespace
    sweeper: Sweeper

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the pool's nodes."""
        return tuple(node.name for node in self.sweeper.inventory.in_pool(POOL))

    def pods(self) -> Listing:
        """The pods that are in the run's namespace now."""
        return self.cluster.list_objects(PODS, namespace=self.renderer.namespace)

    def sweep(
        self,
        workload: str,
        params: Mapping[str, Any] | None = None,
        *,
        gpus: int = 2,
        deadlines: Deadlines = PATIENT,
        stop: threading.Event | None = None,
        on_result: Callable[[Result], bool | None] = lambda _: None,
    ) -> tuple[list[Result], SweepSummary]:
        """One sweep over the pool; its results in the order they came."""
        results: list[Result] = []

        def take(result: Result) -> bool | None:
            results.append(result)
            return on_result(result)

        request = SweepRequest(f"{workload}_check", workload, params or {}, self.nodes, gpus, deadlines)
        return results, self.sweeper.run(request, take, stop or threading.Event())


@contextmanager
def simulated(topology: str, *faults: str, image: str = "simcluster.local/python:3") -> Iterator[Simulated]:
    """A running simulated cluster with a namespace for a run."""
    with simulation.start(topology, faults) as running:
        cluster = connect(kubeconfig=running.kubeconfig)
        try:
            renderer = Renderer("r1", "gpuproof-r1", POOL, GPU, PodSettings(image))
            namespace = RunNamespace(cluster, renderer.namespace_object())
            namespace.create()
            yield Simulated(cluster, renderer, namespace, Sweeper(cluster, renderer, _inventory(cluster)))
        finally:
            cluster.close()


def failures(results: list[Result]) -> dict[str, str]:
    """Node to reason of those not visited."""
    return {result.node: result.failure.reason.value for result in results if isinstance(result, NotVisited)}


def visited(results: list[Result]) -> list[str]:
    """The visited nodes, sorted, each as often as it was visited."""
    return sorted(result.node for result in results if isinstance(result, Visited))


def _inventory(cluster: KubeCluster) -> Inventory:
    listing = cluster.list_objects(NODES)
    return read_inventory(listing.items, gpu_resource=GPU, resource_version=listing.resource_version)
