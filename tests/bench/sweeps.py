"""What a sweep costs: requests, bytes, and seconds from the last measurement to its verdict, over 4, 64 and 512 nodes.

The nodes are the simulated cluster's light ones: real processes without namespaces of their own.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass

from gpuproof import simulation
from gpuproof.cluster.kube import connect
from gpuproof.cluster.port import NODES, Cluster
from gpuproof.expectation import Deadlines
from gpuproof.inventory import read_inventory
from gpuproof.jobs import NotVisited, RunNamespace, Sweeper, SweepRequest, Visited
from gpuproof.manifests import PodSettings, Renderer

POOL = {"node-pool": "sim-train"}
GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class Cost:
    """One sweep: what was visited, what it cost the API, and how long results took to arrive."""

    nodes: int
    seconds: float
    visits: Counter[str]
    not_visited: tuple[NotVisited, ...]
    jobs: int
    requests: int
    bytes_received: int
    lag_s: float
    """From the end of the last measurement in its pod to its result in the harness."""
    took_s: float

    @property
    def exactly_once(self) -> bool:
        """Whether every node was visited once and only once."""
        return len(self.visits) == self.nodes and set(self.visits.values()) == {1}


def sweep(nodes: int, pause_s: float, faults: tuple[str, ...] = (), mode: str = "light") -> Cost:
    """One sweep over a fresh simulated cluster, with everything a run does around it counted in."""
    with simulation.start(f"{mode}-{nodes}", faults) as simulated:
        cluster = connect(kubeconfig=simulated.kubeconfig)
        try:
            return _sweep(cluster, nodes, pause_s)
        finally:
            cluster.close()


def _sweep(cluster: Cluster, nodes: int, pause_s: float) -> Cost:
    cluster.server_version()
    listing = cluster.list_objects(NODES)
    inventory = read_inventory(listing.items, gpu_resource=GPU, resource_version=listing.resource_version)
    names = tuple(node.name for node in inventory.in_pool(POOL))
    renderer = Renderer("bench", "gpuproof-bench", POOL, GPU, PodSettings("simcluster.local/python:3"))
    namespace = RunNamespace(cluster, renderer.namespace_object())
    visits: Counter[str] = Counter()
    missed: list[NotVisited] = []
    lags: list[float] = []

    def took(result: Visited | NotVisited) -> None:
        if isinstance(result, NotVisited):
            missed.append(result)
            return
        visits[result.node] += 1
        lags.append(time.time() - float(str(result.measurement.facts["ended_unix_s"])))

    request = SweepRequest("bench", "pause", {"seconds": pause_s}, names, 2, Deadlines(120, 120, 120, 120, 600))
    began = time.monotonic()
    namespace.create()
    summary = Sweeper(cluster, renderer, inventory).run(request, took, threading.Event())
    took_s = time.monotonic() - began
    namespace.delete(120)
    counters = cluster.counters
    return Cost(
        nodes=nodes,
        seconds=pause_s,
        visits=visits,
        not_visited=tuple(missed),
        jobs=len(summary.jobs),
        requests=counters.requests,
        bytes_received=counters.bytes_received,
        lag_s=lags[-1] if lags else float("nan"),
        took_s=took_s,
    )
