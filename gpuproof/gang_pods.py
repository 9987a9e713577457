"""The pods of a gang: made together, watched, each running or known why not, and let go.

Owns the Job, what it needs, and the watches. It must not know what the pods are ordered to do, a limit or a verdict.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gpuproof.cluster import raw
from gpuproof.cluster.port import (
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    Cluster,
    ClusterError,
    Resource,
)
from gpuproof.failure import JobFailure, Reason
from gpuproof.feeds import Feeds, SeeingClock
from gpuproof.inventory import Inventory
from gpuproof.job_creation import create_running
from gpuproof.manifests import MEASURE, SWEEP_LABEL, Renderer, SweepJob, shorter_selection
from gpuproof.node_board import NodeBoard
from gpuproof.pod_shape import PodShape
from gpuproof.sweep import SweepState
from gpuproof.visits import SweepRequest

NAME = "gang"
AGENT = "gang_agent"
SHAPE = PodShape(rdma=True)
_TICK_S = 0.1
_MARGIN_S = 300


@dataclass(frozen=True)
class Member:
    """A node's pod in the gang and its completion index, by which its host is named."""

    pod: str
    index: int


def gang_job(request: SweepRequest) -> SweepJob:
    """The Job of a gang of all candidates, wherever in the pool they are."""
    count = len(request.candidates)
    return SweepJob(
        name=NAME,
        sweep=NAME,
        check=request.check,
        workload=AGENT,
        pods=count,
        gpus=request.gpus_per_pod,
        world_size=count * request.gpus_per_pod,
        active_deadline_s=math.ceil(request.deadlines.run_s) + _MARGIN_S,
        params={"hosts": [f"{NAME}-{index}.{NAME}" for index in range(count)]},
        shape=SHAPE,
    )


@dataclass
class GangPods:
    """Call `bring_up` once, `listen` now and then, and always `close`. For one thread; `stop` is anybody's.

    Requests do not grow with the nodes: four objects, three watches, one list.
    """

    cluster: Cluster
    renderer: Renderer
    inventory: Inventory
    request: SweepRequest
    stop: threading.Event
    clock: Callable[[], float] = time.monotonic
    lost: dict[str, JobFailure] = field(default_factory=dict)
    """Nodes whose pod did not come, or is no longer there, and why."""

    def __post_init__(self) -> None:
        self._feeds = Feeds()
        self._seen = SeeingClock(self.clock, lambda: self._feeds.blind)
        self._board = NodeBoard(
            self.inventory, gpu_resource=self.renderer.gpu_resource, not_ready_grace_s=10.0, now=self._seen.now
        )
        # The deadlines of pods bound how long the nodes that came wait for the others; a running pod is no answer.
        patient = replace(self.request, deadlines=replace(self.request.deadlines, running_s=math.inf))
        job = self.renderer.sweep(self._job())
        tolerations = raw.objects(job, "spec", "template", "spec", "tolerations")
        self._state = SweepState(patient, self._board, run_id=self.renderer.run_id, tolerations=tolerations)

    def bring_up(self, key: str) -> dict[str, Member]:
        """Make the pods and wait until each runs or cannot; those that run, by node. `lost` says why of the others.

        `key` is what orders are signed with. Raises nothing of the cluster's.
        """
        secret, service, job = self.renderer.gang(self._job(), key)
        try:
            self._make(SECRETS, secret)
            self._make(SERVICES, service)
            self._make(CONFIG_MAPS, self.renderer.sources(AGENT))
            self._watch()
            create_running(self.cluster, JOBS, job, self.renderer.namespace)
        except ClusterError as error:
            self._state.give_up(JobFailure(error.reason, f"the gang's objects were refused: {error.message}"))
        else:
            self._state.job_started(NAME, len(self.request.candidates), self._seen.now)
            while not (self.stop.is_set() or set(self._state.running) >= set(self._state.open_nodes)):
                self.listen(_TICK_S)
        self._drain()
        came = {node: Member(*pod) for node, pod in self._state.running.items() if node not in self.lost}
        for node in self.request.candidates:
            if node not in came:
                self.lost.setdefault(node, JobFailure(Reason.NEVER_STARTED, "its pod of the gang does not run"))
        return came

    def listen(self, seconds: float) -> None:
        """Take in what the watches bring within so many seconds, and what time alone says, so that `lost` is true."""
        for kind, event in self._feeds.wait(seconds):
            now = self._seen.read()
            if isinstance(event, ClusterError):
                self._state.give_up(JobFailure(event.reason, f"the watch on {kind} failed: {event.message}"))
            elif kind == PODS.plural:
                self._state.on_pod(event, now)
            elif kind == EVENTS.plural:
                self._state.on_event(event, now)
            else:
                self._state.on_node(event, now)
        if self._state.tick(self._seen.read()):
            self._state.tick(self._seen.now, sure=not self._feeds.blind)
        self._drain()

    def granted(self) -> dict[str, Mapping[str, Any]]:
        """The resource limits of each node's pod, by node, as the API server has them now; raises `ClusterError`."""
        listing = self.cluster.list_objects(
            PODS, namespace=self.renderer.namespace, label_selector=f"{SWEEP_LABEL}={NAME}"
        )
        return {raw.text(pod, "spec", "nodeName"): _limits(pod) for pod in listing.items}

    def close(self) -> None:
        """Let the GPUs go: the pods end with their Job. Raises nothing of the cluster's."""
        self._feeds.close()
        try:
            self.cluster.delete(JOBS, NAME, namespace=self.renderer.namespace)
        except ClusterError:
            pass  # the namespace's end takes it along
        finally:
            self._feeds.join()

    def _drain(self) -> None:
        for result in self._state.drain():
            ended = JobFailure(Reason.NONZERO_EXIT, "the agent has ended before its time; read its log")
            self.lost[result.node] = getattr(result, "failure", ended)

    def _make(self, kind: Resource, manifest: Mapping[str, Any]) -> None:
        self.cluster.create(kind, manifest, namespace=self.renderer.namespace)

    def _job(self) -> SweepJob:
        pool = [node.hostname for node in self.inventory.in_pool(self.renderer.pool)]
        only, exclude = shorter_selection(pool, [self._board.hostname(node) for node in self.request.candidates])
        return replace(gang_job(self.request), only=only, exclude=exclude)

    def _watch(self) -> None:
        namespace, pool = self.renderer.namespace, self.renderer.pool
        pods = self.cluster.watch(PODS, namespace=namespace, label_selector=f"{SWEEP_LABEL}={NAME}")
        self._feeds.open(PODS.plural, pods)
        self._feeds.open(EVENTS.plural, self.cluster.watch(EVENTS, namespace=namespace, field_selector="type=Warning"))
        nodes = self.cluster.watch(
            NODES,
            label_selector=",".join(f"{key}={value}" for key, value in sorted(pool.items())),
            resource_version=self.inventory.resource_version,
            known=[("", node.name) for node in self.inventory.in_pool(pool)],
        )
        self._feeds.open(NODES.plural, nodes)


def _limits(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    found = [one for one in raw.objects(pod, "spec", "containers") if raw.text(one, "name") == MEASURE]
    return raw.mapping(found[0], "resources", "limits") if found else {}
