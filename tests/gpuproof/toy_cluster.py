# ruff: noqa: ARG002  (it implements a port; not every argument matters to a toy)
"""A cluster in memory behind the harness's port: places the pods of Indexed Jobs on nodes and ends them by a model.

It is no Kubernetes and proves nothing about one: it makes hundreds of nodes, black holes and lost watches cheap.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuproof.cluster.port import (
    JOBS,
    NODES,
    PODS,
    ClusterError,
    Counters,
    Listing,
    LogStream,
    Page,
    Resource,
    WatchEvent,
)
from gpuproof.cluster.raw import Raw
from gpuproof.failure import Reason
from gpuproof.inventory import Inventory, read_inventory
from tests.gpuproof import pods
from tests.gpuproof.pods import Json, running, terminated

GPU = "nvidia.com/gpu"
Behaviour = Callable[["ToyCluster", Json], Iterable[Json]]
"""The states of a pod after it was bound, given the bound pod; the last one stays."""


def measures(cluster: ToyCluster, bound: Json) -> Iterable[Json]:
    """Runs and measures, as a healthy node does."""
    node, name = bound["spec"]["nodeName"], bound["metadata"]["name"]
    yield bound | {"status": {"phase": "Running", **_containers(running())}}
    text = pods.message(node, name)
    yield bound | {"status": {"phase": "Running", **_containers(terminated(0, text))}}


def refuses(cluster: ToyCluster, bound: Json) -> Iterable[Json]:
    """A black hole: the kubelet rejects the pod at once, the node is free again and draws the next one."""
    text = "Pod was rejected: Allocate failed due to no healthy devices"
    yield bound | {"status": {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": text}}


def hangs(cluster: ToyCluster, bound: Json) -> Iterable[Json]:
    """Runs for ever."""
    yield bound | {"status": {"phase": "Running", **_containers(running())}}


def silent(cluster: ToyCluster, bound: Json) -> Iterable[Json]:
    """Bound, and then no status and no event."""
    return ()


def ends_with(state: Json) -> Behaviour:
    """Runs and ends in this container state."""

    def behaviour(cluster: ToyCluster, bound: Json) -> Iterable[Json]:
        yield bound | {"status": {"phase": "Running", **_containers(running())}}
        yield bound | {"status": {"phase": "Running", **_containers(state)}}

    return behaviour


def vanishes(cluster: ToyCluster, bound: Json) -> Iterable[Json]:
    """The node leaves the cluster while its pod runs."""
    yield bound | {"status": {"phase": "Running", **_containers(running())}}
    cluster.remove_node(bound["spec"]["nodeName"])


def node(name: str, gpus: int = 2, **changed: Any) -> Json:
    """A ready node of the pool."""
    made: Json = {
        "metadata": {"name": name, "labels": {"pool": "a", "kubernetes.io/hostname": name}, "resourceVersion": "1"},
        "spec": {"taints": [{"key": GPU, "effect": "NoSchedule"}]},
        "status": {
            "capacity": {GPU: str(gpus)},
            "allocatable": {GPU: str(gpus)},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    return made | changed


@dataclass
class ToyCluster:
    """Nodes by name with their behaviour; `refused` makes the Job controller fail to create pods, with this message."""

    nodes: dict[str, Json]
    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    refused: str = ""
    scheduler_says: str = ""
    refuse_jobs: ClusterError | None = None
    name: str = "toy"
    created: list[Json] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    logs_read: list[str] = field(default_factory=list)
    visits: dict[str, int] = field(default_factory=dict)
    mute: bool = False
    """Watches on pods stay open and say nothing."""
    refuse_lists: ClusterError | None = None
    lists: int = 0

    def __post_init__(self) -> None:
        self._watches: dict[str, list[ToyWatch]] = {}
        self._lock = threading.RLock()
        self._requests = 0
        self._held: set[str] = set()
        self._pods: dict[str, Json] = {}
        self._version = 1
        self._pending: list[Json] = []

    @classmethod
    def of(cls, count: int, **behaviours: Behaviour) -> ToyCluster:
        """A cluster of nodes n0, n1, …; give a node's behaviour by its name."""
        names = [f"n{number}" for number in range(count)]
        return cls({name: node(name) for name in names}, dict(behaviours))

    @property
    def counters(self) -> Counters:
        """Requests so far; no bytes."""
        return Counters(self._requests, 0)

    def inventory(self) -> Inventory:
        """What the harness would have listed before."""
        return read_inventory(self.nodes.values(), gpu_resource=GPU, resource_version="1")

    def server_version(self) -> str:
        """A version."""
        return "v0-toy"

    def list_objects(
        self, resource: Resource, *, namespace: str | None = None, label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        """Nodes and pods."""
        with self._lock:
            self._requests += 1
            if resource is NODES:
                return Listing(tuple(self.nodes.values()), "1")
            self.lists += 1
            if self.refuse_lists is not None:
                raise self.refuse_lists
            wanted = dict(pair.split("=", 1) for pair in label_selector.split(",") if "=" in pair).items()
            found = [pod for pod in self._pods.values() if wanted <= pod["metadata"].get("labels", {}).items()]
            return Listing(tuple(found), str(self._version))

    def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> Raw:
        """Nothing is ever found."""
        raise ClusterError(Reason.HARNESS_ERROR, "not found", 404)

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
        """Nobody listens."""
        return Page(503, "text/plain", b"no endpoints")

    def create(self, resource: Resource, body: Mapping[str, Any], *, namespace: str | None = None) -> Raw:
        """A Job makes pods."""
        with self._lock:
            self._requests += 1
            if resource is JOBS and self.refuse_jobs is not None:
                raise self.refuse_jobs
            self.created.append(dict(body))
            if resource is JOBS:
                self._start(body)
        return body

    def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        grace_s: int | None = None,
        foreground: bool = False,
    ) -> Raw:
        """Remembered."""
        self._requests += 1
        self.deleted.append(name)
        return {}

    def annotate(self, resource: Resource, name: str, annotations: Mapping[str, str], *, namespace: str) -> Raw:
        """Nobody reads them."""
        return {}

    def patch(self, resource: Resource, name: str, body: Mapping[str, Any], *, namespace: str | None = None) -> Raw:
        """Nobody reads it."""
        return {}

    def watch(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        known: Iterable[tuple[str, str]] = (),
    ) -> ToyWatch:
        """Every change from now on, and before a watch was there: all of them."""
        with self._lock:
            self._requests += 1
            watch = ToyWatch()
            self._watches.setdefault(resource.plural, []).append(watch)
            return watch

    def read_log(self, namespace: str, pod: str, container: str, *, tail_lines: int, limit_bytes: int) -> str:
        """A line."""
        self._requests += 1
        self.logs_read.append(pod)
        return f"log of {pod}"

    def evict(self, namespace: str, pod: str) -> None:
        """Nobody evicts here."""
        raise ClusterError(Reason.HARNESS_ERROR, "no eviction", 404)

    def execute(self, namespace: str, pod: str, container: str, command: Sequence[str]) -> int | None:
        """No pod of this cluster runs anything."""
        raise ClusterError(Reason.HARNESS_ERROR, "no exec", 404)

    def follow_log(self, namespace: str, pod: str, container: str, *, since: str = "") -> LogStream:
        """No pod of this cluster says anything."""
        raise ClusterError(Reason.HARNESS_ERROR, "no log", 404)

    def may(self, verb: str, resource: Resource, *, namespace: str | None = None) -> bool:
        """Everything."""
        return True

    def close(self) -> None:
        """Nothing to close."""

    def remove_node(self, name: str) -> None:
        """The node's object goes away."""
        with self._lock:
            gone = self.nodes.pop(name)
            self._tell(NODES.plural, "DELETED", gone)

    def change_node(self, name: str, changed: Json) -> None:
        """The node's object changes."""
        with self._lock:
            self.nodes[name] = self.nodes[name] | changed
            self._tell(NODES.plural, "MODIFIED", self.nodes[name])

    def tell_event(self, event: Json) -> None:
        """An event appears."""
        with self._lock:
            self._tell("events", "ADDED", event)

    def break_watch(self, plural: str, error: ClusterError) -> None:
        """The watches on a kind fail for good."""
        for watch in self._watches.get(plural, []):
            watch.inbox.put(error)

    def finish(self, node_name: str) -> None:
        """The pod that runs on a node measures after all."""
        with self._lock:
            bound = next(pod for pod in self._pods.values() if pod["spec"].get("nodeName") == node_name)
            for state in measures(self, bound):
                self._tell(PODS.plural, "MODIFIED", state)

    def be_live(self, live: bool) -> None:
        """Every watch there is stands open, or is known not to."""
        for watch in [watch for watches in self._watches.values() for watch in watches]:
            watch.live = live

    def _start(self, job: Mapping[str, Any]) -> None:
        name, spec = job["metadata"]["name"], job["spec"]
        if self.refused:
            text = f'Error creating: pods "{name}-0-abcde" is forbidden: {self.refused}'
            self.tell_event(pods.event(name, "FailedCreate", text, kind="Job"))
            return
        for index in range(spec["completions"]):
            made = pods.pod(f"{name}-{index}-abcde", node=None, job=name, index=index)
            made["metadata"]["labels"] = dict(spec["template"]["metadata"]["labels"])
            made["selection"] = spec["template"]["spec"]
            self._pending.append(made)
            self._tell(PODS.plural, "ADDED", made)
        self._schedule()

    def _schedule(self) -> None:
        """Place pending pods one by one; black holes are always free again and draw every second pod."""
        stuck: list[Json] = []
        turn = 0
        while self._pending:
            made = self._pending.pop(0)
            fitting = [name for name in self.nodes if name not in self._held and _selects(made["selection"], name)]
            if not fitting:
                stuck.append(made)
                continue
            holes = [name for name in fitting if self.behaviours.get(name) is refuses]
            turn += 1
            chosen = holes[turn % len(holes)] if holes and turn % 2 else fitting[-1]
            self._place(made, chosen)
        self._pending = stuck
        for made in stuck:
            if self.scheduler_says:
                said = pods.condition("PodScheduled", "False", "Unschedulable", self.scheduler_says)
                self._tell(PODS.plural, "MODIFIED", made | {"status": {"phase": "Pending", "conditions": [said]}})

    def _place(self, made: Json, node_name: str) -> None:
        bound = made | {"spec": {"nodeName": node_name}}
        self._held.add(node_name)
        self.visits[node_name] = self.visits.get(node_name, 0) + 1
        self._tell(PODS.plural, "MODIFIED", bound)
        behaviour = self.behaviours.get(node_name, measures)
        for state in behaviour(self, bound):
            self._tell(PODS.plural, "MODIFIED", state)
            if state["status"]["phase"] == "Failed":
                self._held.discard(node_name)

    def _tell(self, plural: str, kind: str, obj: Json) -> None:
        if plural == PODS.plural:
            self._version += 1
            obj = obj | {"metadata": obj["metadata"] | {"resourceVersion": str(self._version)}}
            self._pods[obj["metadata"]["name"]] = obj
            if self.mute:
                return
        for watch in self._watches.get(plural, []):
            watch.inbox.put(WatchEvent(kind, obj))


class ToyWatch:
    """A watch over a queue."""

    def __init__(self) -> None:
        self.live = True
        self.inbox: queue.SimpleQueue[WatchEvent | ClusterError | None] = queue.SimpleQueue()

    def close(self) -> None:
        """End it."""
        self.inbox.put(None)

    def __iter__(self) -> Iterator[WatchEvent]:
        while (item := self.inbox.get()) is not None:
            if isinstance(item, ClusterError):
                raise item
            yield item


def _containers(measure: Json) -> Json:
    return {
        "containerStatuses": pods.pod(containers={"measure": measure, "hold": running()})["status"]["containerStatuses"]
    }


def _selects(spec: Mapping[str, Any], name: str) -> bool:
    terms = spec["affinity"].get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    for term in terms.get("nodeSelectorTerms", [])[:1]:
        (expression,) = term["matchExpressions"]
        return (name in expression["values"]) is (expression["operator"] == "In")
    return True
