"""One gang on a cluster: brought up whole or given up with who is missing and why, ordered about, and let go.

Owns the Job, the watches, the leader's line stream and the change of the leader. It must not know a limit or what an
experiment is for. Requests do not grow with the nodes: the objects, three watches, one annotation an order.
"""

from __future__ import annotations

import itertools
import math
import queue
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic import ValidationError

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
)
from gpuproof.failure import JobFailure, Reason
from gpuproof.feeds import Feeds, SeeingClock
from gpuproof.gang_wire import GroupLine, GroupPart, Hello
from gpuproof.inventory import Inventory
from gpuproof.line_stream import LineStream, LineStreamError
from gpuproof.manifests import MEASURE, ORDER_ANNOTATION, SWEEP_LABEL, Renderer, SweepJob, shorter_selection
from gpuproof.node_board import NodeBoard
from gpuproof.pod_shape import PodShape
from gpuproof.sweep import SweepState
from gpuproof.visits import SweepRequest
from workloads.gang_wire import sign_order

NAME = "gang"
AGENT = "gang_agent"
SHAPE = PodShape(rdma=True)
_Said = TypeVar("_Said", Hello, GroupLine)
_TICK_S = 0.1
_MARGIN_S = 300
_SILENT_S = 30.0
"""The leader says a word every five seconds: after so long without one it is lost."""
_REASSEMBLE_S = 10.0
_ORDER_GRACE_S = 30.0
"""So much longer than the ranks' time limit may an experiment take until the leader has said all of it."""


@dataclass(frozen=True)
class GangRequest:
    """Who is to be in the gang, on whose behalf, and within which time."""

    sweep: SweepRequest
    assemble_timeout_s: float


@dataclass(frozen=True)
class Assembly:
    """Who came: pod and index by node; and why each of the others did not."""

    members: Mapping[str, tuple[str, int]]
    missing: Mapping[str, JobFailure]

    @property
    def whole(self) -> bool:
        """Whether everybody is there."""
        return not self.missing


@dataclass(frozen=True)
class Order:
    """One experiment: disjoint groups of nodes at the same time, and what their ranks are to do."""

    groups: tuple[tuple[str, ...], ...]
    ranks_per_node: int
    timeout_s: float
    params: Mapping[str, Any]


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


class GangError(Exception):
    """The gang cannot go on, and nobody can say more about any node."""

    def __init__(self, failure: JobFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass
class GangSession:
    """Call `assemble` once, `run` as often as need be, and always `close`. For one thread; `stop` is anybody's."""

    cluster: Cluster
    renderer: Renderer
    inventory: Inventory
    request: GangRequest
    stop: threading.Event
    clock: Callable[[], float] = time.monotonic
    lost: dict[str, JobFailure] = field(default_factory=dict)
    """Nodes that were there and are no longer, and why."""
    refused: list[str] = field(default_factory=list)
    """Orders and calls that the pods did not obey: nobody of ours gave them."""

    def __post_init__(self) -> None:
        self.name = NAME
        self._secret = secrets.token_hex(32)
        self._feeds = Feeds()
        self._seen = SeeingClock(self.clock, lambda: self._feeds.blind)
        self._board = NodeBoard(
            self.inventory, gpu_resource=self.renderer.gpu_resource, not_ready_grace_s=10.0, now=self._seen.now
        )
        self._members: dict[str, tuple[str, int]] = {}
        self._hellos: dict[str, Hello] = {}
        self._state: SweepState | None = None
        self._leader = ""
        self._epoch = 0
        self._numbers = itertools.count(1)
        self._stream: LineStream | None = None
        self._lines: queue.SimpleQueue[dict[str, Any] | LineStreamError | None] = queue.SimpleQueue()
        self._made: list[tuple[Any, str]] = []

    # -- coming together -----------------------------------------------------------------------------------------------

    def assemble(self, *, though_not_whole: bool = True) -> Assembly:
        """Bring the gang up. Never raises for what the cluster does: that is why nodes are missing.

        Nobody is ordered to lead where somebody is missing, unless `though_not_whole`.
        """
        request = self.request.sweep
        job = self._job()
        secret, service, manifest = self.renderer.gang(job, self._secret)
        tolerations = raw.objects(manifest, "spec", "template", "spec", "tolerations")
        # The scheduling deadline bounds how long the nodes that came wait for the others; a running pod is no answer.
        patient = replace(request.deadlines, running_s=math.inf)
        self._state = SweepState(
            replace(request, deadlines=patient), self._board, run_id=self.renderer.run_id, tolerations=tolerations
        )
        try:
            self._make(SECRETS, secret)
            self._make(SERVICES, service)
            self._make(CONFIG_MAPS, self.renderer.sources(AGENT))
            self._watch()
            self._make(JOBS, manifest)
        except ClusterError as error:
            self._state.give_up(JobFailure(error.reason, f"the gang's objects were refused: {error.message}"))
        else:
            self._state.job_started(self.name, len(request.candidates), self._seen.now)
            self._wait_for_pods()
        self._refuse_interrupted()
        missing = self._missing()
        self._members = {node: pod for node, pod in self._state.running.items() if node not in missing}
        for node in request.candidates:
            if node not in self._members:
                missing.setdefault(node, JobFailure(Reason.NEVER_STARTED, "its pod of the gang does not run"))
        if self._members and (though_not_whole or not missing):
            missing |= self._lead(self.request.assemble_timeout_s)
        return Assembly(dict(self._members), missing)

    def _make(self, kind: Any, manifest: Mapping[str, Any]) -> None:
        self._made.append((kind, raw.text(manifest, "metadata", "name")))
        self.cluster.create(kind, manifest, namespace=self.renderer.namespace)

    def _job(self) -> SweepJob:
        request = self.request.sweep
        pool = [node.hostname for node in self.inventory.in_pool(self.renderer.pool)]
        only, exclude = shorter_selection(pool, [self._board.hostname(node) for node in request.candidates])
        return replace(gang_job(request), only=only, exclude=exclude)

    def _watch(self) -> None:
        namespace, pool = self.renderer.namespace, self.renderer.pool
        self._feeds.open(
            PODS.plural,
            self.cluster.watch(PODS, namespace=namespace, label_selector=f"{SWEEP_LABEL}={self.name}"),
        )
        self._feeds.open(EVENTS.plural, self.cluster.watch(EVENTS, namespace=namespace, field_selector="type=Warning"))
        nodes = self.cluster.watch(
            NODES,
            label_selector=",".join(f"{key}={value}" for key, value in sorted(pool.items())),
            resource_version=self.inventory.resource_version,
            known=[("", node.name) for node in self.inventory.in_pool(pool)],
        )
        self._feeds.open(NODES.plural, nodes)

    def _wait_for_pods(self) -> None:
        """Until of each node it is known that its pod runs, or why not; the deadlines of pods bound it."""
        assert self._state is not None
        while not self.stop.is_set():
            self._listen(_TICK_S)
            if self._state.tick(self._seen.read()):
                self._state.tick(self._seen.now, sure=not self._feeds.blind)
            self._missing()
            if set(self._state.running) >= set(self._state.open_nodes):
                return

    def _missing(self) -> dict[str, JobFailure]:
        assert self._state is not None
        for result in self._state.drain():
            failure = getattr(result, "failure", None)
            self.lost[result.node] = failure or JobFailure(
                Reason.NONZERO_EXIT, "the agent has ended before its time; read its log"
            )
        return dict(self.lost)

    def _listen(self, seconds: float) -> None:
        """Take in what the watches bring."""
        assert self._state is not None
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

    # -- leading -------------------------------------------------------------------------------------------------------

    def _lead(self, deadline_s: float) -> dict[str, JobFailure]:
        """Have the first member that can lead call all others; who does not answer it, and why."""
        while True:
            candidates = [node for node in self._in_order() if node not in self.lost]
            if not candidates:
                raise GangError(JobFailure(Reason.NODE_LOST, "no pod of the gang is left to lead it"))
            self._follow(candidates[0])
            try:
                return self._call_together(deadline_s)
            except _LeaderLostError as error:
                self._lose_leader(error)

    def _in_order(self) -> list[str]:
        return sorted(self._members, key=lambda node: self._members[node][1])

    def _follow(self, node: str) -> None:
        self._unfollow()
        self._leader, self._epoch = node, self._epoch + 1
        self._lines = queue.SimpleQueue()
        self._stream = LineStream(self.cluster, self.renderer.namespace, self._members[node][0], MEASURE)
        threading.Thread(target=_pump, args=(self._stream, self._lines), name="gang-lines", daemon=True).start()

    def _unfollow(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _call_together(self, deadline_s: float) -> dict[str, JobFailure]:
        indexes = [self._members[node][1] for node in self._in_order() if node not in self.lost]
        number = self._order("assemble", {"indexes": indexes, "deadline_s": deadline_s})
        by_index = {index: node for node, (_, index) in self._members.items()}
        until = self.clock() + deadline_s + _ORDER_GRACE_S
        while True:
            line = self._next(until)
            if "hello" in line:
                hello = _checked(Hello, line["hello"])
                if by_index.get(hello.index) != hello.node:
                    said = f"the pod with index {hello.index} says it is on {hello.node}, the API server says otherwise"
                    raise GangError(JobFailure(Reason.FOREIGN_MEASUREMENT, said))
                self._hellos[hello.node] = hello
            elif line.get("number") == number and "assembled" in line:
                said = line.get("missing", {})
                return {by_index.get(int(index), "?"): _unreached(*map(str, why)) for index, why in said.items()}

    def _order(self, kind: str, content: Mapping[str, Any]) -> int:
        number = next(self._numbers)
        order = {**content, "run": self.renderer.run_id, "epoch": self._epoch, "number": number, "kind": kind}
        text = sign_order(self._secret.encode("ascii"), order)
        pod = self._members[self._leader][0]
        try:
            self.cluster.annotate(PODS, pod, {ORDER_ANNOTATION: text}, namespace=self.renderer.namespace)
        except ClusterError as error:
            if error.status == 404:
                raise _LeaderLostError(JobFailure(Reason.POD_DELETED, f"{pod} is gone")) from error
            raise GangError(JobFailure(error.reason, f"no order reaches the gang: {error.message}")) from error
        return number

    def _next(self, until: float) -> dict[str, Any]:
        """The leader's next line; what the watches say meanwhile is taken in."""
        assert self._state is not None
        heard = self.clock()
        while True:
            try:
                line = self._lines.get(timeout=_TICK_S)
            except queue.Empty:
                self._look_after_the_leader(heard, until)
                continue
            if isinstance(line, LineStreamError):
                raise _LeaderLostError(JobFailure(line.reason, line.message)) from line
            if line is None:
                raise _LeaderLostError(JobFailure(Reason.NONZERO_EXIT, f"the agent on {self._leader} has ended"))
            heard = self.clock()
            if "refused" in line:
                self.refused.append(str(line["refused"]))
            elif "alive" not in line:
                return line

    def _look_after_the_leader(self, heard: float, until: float) -> None:
        assert self._state is not None
        self._refuse_interrupted()
        self._listen(0.0)
        if self._state.tick(self._seen.read()):
            self._state.tick(self._seen.now, sure=not self._feeds.blind)
        if self._leader in self._missing():
            raise _LeaderLostError(self.lost[self._leader])
        now = self.clock()
        if now - heard > _SILENT_S or now > until:
            what = f"says nothing for {now - heard:.0f} s" if now <= until else "is late with its answer"
            said = f"the pod that leads the gang {what}; look at {self._leader}"
            raise _LeaderLostError(JobFailure(Reason.NODE_LOST, said))

    def _refuse_interrupted(self) -> None:
        if self.stop.is_set():
            raise GangError(JobFailure(Reason.INTERRUPTED, "the run was interrupted before this was known"))

    def _lose_leader(self, error: _LeaderLostError) -> None:
        """The next index leads; what the API says of the lost one is worth more than a broken stream."""
        self._listen(0.0)
        known = self._missing().get(self._leader)
        said = f"{self._leader} led the gang and was lost: {error.failure.message}"
        self.lost[self._leader] = known or JobFailure(error.failure.reason, said, error.failure.evidence)

    # -- experiments ---------------------------------------------------------------------------------------------------

    @property
    def present(self) -> tuple[str, ...]:
        """Members that are there, by index."""
        return tuple(node for node in self._in_order() if node not in self.lost)

    def hello(self, node: str) -> Hello | None:
        """How the node's agent introduced itself."""
        return self._hellos.get(node)

    def run(self, order: Order) -> tuple[GroupPart, ...]:
        """What became of each group, in the order given; a lost leader is replaced and the experiment run again."""
        while True:
            try:
                return self._run(order)
            except _LeaderLostError as error:
                self._lose_leader(error)
                for node, failure in self._lead(_REASSEMBLE_S).items():
                    self.lost.setdefault(node, failure)

    def _run(self, order: Order) -> tuple[GroupPart, ...]:
        groups = [[self._members[node][1] for node in group] for group in order.groups]
        content = {
            **order.params,
            "groups": groups,
            "ranks_per_node": order.ranks_per_node,
            "timeout_s": order.timeout_s,
            "seed": secrets.randbelow(1 << 40),
        }
        number = self._order("experiment", content)
        until = self.clock() + order.timeout_s + _ORDER_GRACE_S
        found: dict[int, GroupPart] = {}
        while True:
            line = self._next(until)
            if line.get("number") == number and "group" in line:
                part = _checked(GroupLine, line)
                if list(part.group) != groups[part.place]:
                    said = f"the leader answers for the group {part.group}, asked was {groups[part.place]}"
                    raise GangError(JobFailure(Reason.FOREIGN_MEASUREMENT, said))
                found[part.place] = part.result
            elif line.get("over") == number:
                if sorted(found) != list(range(len(groups))):
                    said = f"{len(found)} of {len(groups)} groups were answered for"
                    raise GangError(JobFailure(Reason.TRUNCATED_MEASUREMENT, said))
                return tuple(found[place] for place in range(len(groups)))

    def pod(self, node: str) -> str:
        """The node's pod."""
        return self._members[node][0]

    def index(self, node: str) -> int:
        """The node's pod's index."""
        return self._members[node][1]

    def granted(self) -> dict[str, Mapping[str, Any]]:
        """The resource limits of each node's pod, by node, as the API server has them now; raises `ClusterError`."""
        listing = self.cluster.list_objects(
            PODS, namespace=self.renderer.namespace, label_selector=f"{SWEEP_LABEL}={self.name}"
        )
        return {raw.text(pod, "spec", "nodeName"): _limits(pod, MEASURE) for pod in listing.items}

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let the GPUs go: the pods end with their Job. Raises nothing of the cluster's."""
        self._unfollow()
        self._feeds.close()
        for kind, name in reversed(self._made):
            if kind is JOBS:
                try:
                    self.cluster.delete(kind, name, namespace=self.renderer.namespace)
                except ClusterError:
                    continue  # the namespace's end takes it along
        self._feeds.join()


class _LeaderLostError(Exception):
    """The pod that leads is lost; the next one can."""

    def __init__(self, failure: JobFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def _pump(stream: LineStream, lines: queue.SimpleQueue[dict[str, Any] | LineStreamError | None]) -> None:
    try:
        for line in stream:
            lines.put(line)
    except LineStreamError as error:
        lines.put(error)
    else:
        lines.put(None)


def _checked(model: type[_Said], value: Any) -> _Said:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        said = f"a line of the gang's leader is not what it must be: {where}: {first['msg']}"
        raise GangError(JobFailure(Reason.MALFORMED_MEASUREMENT, said)) from error


def _unreached(kind: str, why: str) -> JobFailure:
    if kind == "broken":
        return JobFailure(Reason.NONZERO_EXIT, f"the pod runs, and no rank can be started in it: {why}; mend the image")
    said = f"the pod runs, but the gang's leader does not reach the agent in it: {why}"
    return JobFailure(Reason.NODE_LOST, f"{said}; look at the pod network between the nodes")


def _limits(pod: Mapping[str, Any], container: str) -> Mapping[str, Any]:
    found = [one for one in raw.objects(pod, "spec", "containers") if raw.text(one, "name") == container]
    return raw.mapping(found[0], "resources", "limits") if found else {}
