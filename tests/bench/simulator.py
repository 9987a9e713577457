"""What the simulated cluster itself can carry: requests a second, memory of a thousand hollow nodes, a pod's latency.

The client is a raw asyncio HTTP/1.1 client on 16 kept-alive connections over loopback without TLS, in this process, so
that the server is measured and not a client library. Nothing here judges a time; a count that does not add up raises.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import psutil

from tests.simcluster.api.load import Connection
from tests.simcluster.node.cluster_process import SimulatedCluster, running

CLIENT = "raw asyncio HTTP/1.1 client, 16 kept-alive connections, loopback, no TLS"
CONNECTIONS = 16
PODS = "/api/v1/namespaces/default/pods"
T = TypeVar("T")


@dataclass(frozen=True)
class Figure:
    """One measured figure; `bound` is what the project asks for, in words."""

    what: str
    value: float
    unit: str
    bound: str

    def line(self) -> str:
        """For a person."""
        return f"{self.what}: {self.value:,.4g} {self.unit} (bound: {self.bound})"


def all_figures(*, nodes: int = 1024, pods: int = 8192) -> list[Figure]:
    """Every figure, each on a cluster of its own."""
    return [*requests(), *hollow(nodes, pods), one_pod()]


def requests(creates: int = 5000, gets: int = 10_000) -> list[Figure]:
    """Creates, gets and one list, on an API server whose pods no scheduler touches."""

    async def measure(connections: list[Connection]) -> list[Figure]:
        async def create(connection: Connection, number: int) -> None:
            await connection.send("POST", PODS, _pod(f"p-{number}", schedulerName="nobody"))

        async def get(connection: Connection, number: int) -> None:
            await connection.send("GET", f"{PODS}/p-{number % creates}")

        create_rate = await _rate(connections, creates, create)
        get_rate = await _rate(connections, gets, get)
        start = time.perf_counter()
        listed = json.loads(await connections[0].send("GET", PODS))
        list_s = time.perf_counter() - start
        if len(listed["items"]) != creates:
            raise RuntimeError(f"{creates} pods were created, {len(listed['items'])} are listed")
        return [
            Figure("pod creates over HTTP", create_rate, "/s", "1,000"),
            Figure("pod gets over HTTP", get_rate, "/s", "4,000"),
            Figure(f"{creates} pods listed and parsed", list_s, "s", "0.3"),
        ]

    return _on("hollow-1", lambda _, connections: measure(connections))


def hollow(nodes: int, pods: int) -> list[Figure]:
    """Memory of the simulator with hollow nodes and pods that all run, and how long they took to get there."""

    async def measure(cluster: SimulatedCluster, connections: list[Connection]) -> list[Figure]:
        async def create(connection: Connection, number: int) -> None:
            await connection.send("POST", PODS, _pod(f"p-{number}", tolerations=[{"operator": "Exists"}]))

        start = time.perf_counter()
        await _rate(connections, pods, create)
        await _all_running(connections[0])
        took_s = time.perf_counter() - start
        counted = json.loads(await connections[0].send("GET", "/api/v1/nodes?limit=1"))
        if 1 + counted["metadata"].get("remainingItemCount", 0) != nodes + 1:
            raise RuntimeError(f"expected {nodes} nodes and the control plane, got {counted['metadata']}")
        memory = sum(each.memory_info().rss for each in _processes(cluster)) / 1e6
        what = f"{nodes} hollow nodes and {pods} running pods"
        return [
            Figure(f"{what}: resident memory of all the simulator's processes", memory, "MB", "500"),
            Figure(f"{what}: from the first create to the last running", took_s, "s", "none"),
        ]

    return _on(f"hollow-{nodes}", measure)


def one_pod(count: int = 9) -> Figure:
    """Median seconds from create to phase Succeeded of a pod with a real process in its own namespaces."""

    async def measure(connections: list[Connection]) -> list[Figure]:
        took = [await _until_succeeded(connections[0], f"p-{number}") for number in range(count)]
        return [Figure("pod with a real process, create to Succeeded", statistics.median(took), "s", "0.3")]

    return _on("small", lambda _, connections: measure(connections))[0]


async def _until_succeeded(connection: Connection, name: str) -> float:
    start = time.perf_counter()
    body = _pod(name, restartPolicy="Never", tolerations=[{"operator": "Exists"}])
    await connection.send("POST", PODS, body)
    while True:
        phase = json.loads(await connection.send("GET", f"{PODS}/{name}"))["status"]["phase"]
        if phase == "Succeeded":
            return time.perf_counter() - start
        if phase == "Failed":
            raise RuntimeError(f"{name} failed")
        await asyncio.sleep(0.005)


async def _all_running(connection: Connection) -> None:
    query = "limit=1&fieldSelector=status.phase!%3DRunning"
    while True:
        if not json.loads(await connection.send("GET", f"{PODS}?{query}"))["items"]:
            return
        await asyncio.sleep(0.5)


async def _rate(
    connections: list[Connection], total: int, one: Callable[[Connection, int], Coroutine[Any, Any, None]]
) -> float:
    """Requests a second over all connections."""
    numbers = iter(range(total))

    async def work(connection: Connection) -> None:
        for number in numbers:
            await one(connection, number)

    start = time.perf_counter()
    await asyncio.gather(*(work(connection) for connection in connections))
    return total / (time.perf_counter() - start)


def _on(
    topology: str, measure: Callable[[SimulatedCluster, list[Connection]], Coroutine[Any, Any, list[Figure]]]
) -> list[Figure]:
    async def with_connections(cluster: SimulatedCluster) -> list[Figure]:
        where = urlsplit(cluster.ready["http"])
        opened = [await asyncio.open_connection(where.hostname, where.port) for _ in range(CONNECTIONS)]
        connections = [Connection(reader, writer, cluster.ready["token"]) for reader, writer in opened]
        try:
            return await measure(cluster, connections)
        finally:
            for connection in connections:
                connection.writer.close()

    with (
        tempfile.TemporaryDirectory(prefix="simcluster-bench-") as directory,
        running(Path(directory), "--topology", topology, "--http") as cluster,
    ):
        return asyncio.run(with_connections(cluster))


def _processes(cluster: SimulatedCluster) -> list[psutil.Process]:
    own = psutil.Process(cluster.process.pid)
    return [own, *own.children(recursive=True)]


def _pod(name: str, **spec: Any) -> bytes:
    container = {"name": "measure", "image": "simcluster.local/python:3", "command": ["true"]}
    notes = {"simcluster.local/duration-s": "1e9"}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": notes},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }
    return json.dumps(body).encode()
