"""One sweep as it runs: its Jobs, its watches in threads, its loop; the state decides, this module carries out.

It must not know a limit, a verdict or what another sweep did.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from gpuproof.claims import make_claims
from gpuproof.cluster import raw
from gpuproof.cluster.port import CONFIG_MAPS, EVENTS, JOBS, NODES, PODS, SECRETS, Cluster, ClusterError
from gpuproof.dataset import DatasetError, handout
from gpuproof.failure import JobFailure, Reason
from gpuproof.feeds import Feeds, News, SeeingClock
from gpuproof.inventory import Inventory
from gpuproof.job_creation import create_running
from gpuproof.manifests import MEASURE, ORDER_ANNOTATION, SWEEP_LABEL, Renderer, SweepJob, shorter_selection
from gpuproof.node_board import NodeBoard
from gpuproof.sweep import MAX_ROUNDS, SweepState
from gpuproof.visits import NotVisited, Result, SweepRequest, Visited

MAX_LOGS = 3
_TICK_S = 0.2
_MARGIN_S = 300
_LOG_LINES, _LOG_BYTES = 200, 64 << 10
_LOOK_EVERY_S = 2.0
_MAX_LOOK_REQUESTS = 5
"""For lists of the pods before a deadline counts, and for watches opened anew because a list knew more than they."""

_WITH_LOG = frozenset(
    {
        Reason.NONZERO_EXIT,
        Reason.OOM_KILLED,
        Reason.NO_MEASUREMENT,
        Reason.MALFORMED_MEASUREMENT,
        Reason.TRUNCATED_MEASUREMENT,
        Reason.FOREIGN_MEASUREMENT,
        Reason.WRONG_WORLD_SIZE,
        Reason.WRONG_NODE_COUNT,
        Reason.DEADLINE_EXCEEDED,
    }
)

OnResult = Callable[[Result], bool | None]
"""Called for each result the moment it is known; True asks for the end of that pod's log (`MAX_LOGS` a sweep)."""


@dataclass(frozen=True)
class StartedJob:
    """A Job that was created; `nodes` are the candidates it is meant for."""

    name: str
    nodes: tuple[str, ...]
    follow_up: bool


@dataclass(frozen=True)
class SweepSummary:
    """How a sweep went. `logs`: node to the end of its container's log; `left`: Jobs that could not be deleted."""

    jobs: tuple[str, ...]
    seconds: float
    visited: int
    not_visited: int
    requests: int
    bytes_received: int
    logs: Mapping[str, str]
    left: tuple[str, ...] = ()


@dataclass
class Session:
    """What lasts from one sweep of a run to the next."""

    cluster: Cluster
    renderer: Renderer
    inventory: Inventory
    not_ready_grace_s: float
    on_job: Callable[[StartedJob], None]
    clock: Callable[[], float]
    sources: set[str] = field(default_factory=set)
    claims: set[str] = field(default_factory=set)
    dataset_made: bool = False
    jobs_made: int = 0
    kept: list[str] = field(default_factory=list)
    """Jobs of a sweep whose pods stay until the next one has ended."""
    kept_selector: str = ""


@dataclass
class SweepRun:
    """One call of `Sweeper.run`: its threads, its Jobs, its state."""

    session: Session
    request: SweepRequest
    on_result: OnResult
    stop: threading.Event
    jobs: list[str] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    log_wanted: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        session = self.session
        self.cluster, self.renderer, self.clock = session.cluster, session.renderer, session.clock
        self.label = f"{self.request.check}-{session.jobs_made + 1}"
        self.feeds = Feeds()
        self.seen = SeeingClock(self.clock, lambda: self.feeds.blind)
        self.look_requests, self.looked_at = 0, -math.inf
        self.board = NodeBoard(
            session.inventory,
            gpu_resource=self.renderer.gpu_resource,
            not_ready_grace_s=session.not_ready_grace_s,
            now=self.seen.now,
        )
        sample = self.renderer.sweep(self._job("sample", self.request.candidates))
        tolerations = raw.objects(sample, "spec", "template", "spec", "tolerations")
        self.state = SweepState(self.request, self.board, run_id=self.renderer.run_id, tolerations=tolerations)

    def run(self) -> SweepSummary:
        """See `Sweeper.run`."""
        started, before = self.clock(), self.cluster.counters
        left: tuple[str, ...] = ()
        logs: dict[str, str] = {}
        try:
            if not self.request.shape.beside:
                left = self._release()
            self.state.tick(self.seen.now)
            self._hand_out()
            if self.state.open_nodes and not self.stop.is_set():
                self._prepare()
                self._watch()
                self._loop()
            if self.stop.is_set():
                self._take(self.feeds.waiting())  # what has arrived before the interrupt still counts
                self.state.give_up(JobFailure(Reason.INTERRUPTED, "the run was interrupted before this was known"))
            self._hand_out()
            self._hand_out_held_back()
            logs = self._logs()
        finally:
            self.feeds.close()
            if self.request.shape.kept and not self.stop.is_set():
                self.session.kept, self.session.kept_selector = list(self.jobs), self._selector()
            else:
                left += self._delete(self.jobs) + self._release()
            self.feeds.join()
            self.session.inventory = self.board.inventory()
        after = self.cluster.counters
        visited = sum(isinstance(result, Visited) for result in self.results)
        return SweepSummary(
            jobs=tuple(self.jobs),
            seconds=self.clock() - started,
            visited=visited,
            not_visited=len(self.results) - visited,
            requests=after.requests - before.requests,
            bytes_received=after.bytes_received - before.bytes_received,
            logs=logs,
            left=left,
        )

    def _loop(self) -> None:
        next_tick = self.clock()
        while self.state.open_nodes and not self.stop.is_set():
            if self.clock() >= next_tick:
                self._tick(self.seen.read())
                next_tick = self.clock() + _TICK_S
            self._hand_out()
            # All that has arrived, before time passes: it must not condemn a pod whose news lies here unread.
            self._take(self.feeds.wait(next_tick - self.clock()))

    def _tick(self, now: float) -> None:
        late = self.state.tick(now)
        if late and not self.feeds.blind and now - self.looked_at >= _LOOK_EVERY_S:
            self._look(now)
        self._start_what_is_needed(now)
        if self.request.call is not None and self.request.call.is_set():
            self._call(now)

    def _call(self, now: float) -> None:
        """Tell the pods that stay to measure; one that cannot be told now is told at the next tick."""
        for name in self.state.uncalled:
            try:
                self.cluster.annotate(PODS, name, {ORDER_ANNOTATION: "measure"}, namespace=self.renderer.namespace)
            except ClusterError as error:
                if error.status != 404:
                    self.state.give_up(JobFailure(error.reason, f"{name} cannot be told to measure: {error.message}"))
                    return
            self.state.called(name, now)

    def _look(self, now: float) -> None:
        """A deadline has passed: what the watches have told may be old, so a list has the last word."""
        if self.look_requests < _MAX_LOOK_REQUESTS:
            self.looked_at = now
            self.look_requests += 1
            try:
                listing = self.cluster.list_objects(
                    PODS, namespace=self.renderer.namespace, label_selector=self._selector()
                )
            except ClusterError as error:
                said = f"a deadline has passed and the pods cannot be looked at: {error.message}"
                self.state.give_up(JobFailure(Reason.CLUSTER_UNREACHABLE, said))
                return
            if self.state.on_list(listing.items, now):
                self.look_requests += 1
                self._watch_pods(listing.resource_version, self.state.known_pods)
        self.state.tick(now, sure=True)

    def _take(self, news: Iterable[News]) -> None:
        for kind, event in news:
            now = self.seen.read()
            if isinstance(event, ClusterError):
                self.state.give_up(JobFailure(event.reason, f"the watch on {kind} failed: {event.message}"))
            elif kind == PODS.plural:
                self.state.on_pod(event, now)
            elif kind == EVENTS.plural:
                self.state.on_event(event, now)
            else:
                self.state.on_node(event, now)

    def _hand_out(self) -> None:
        for result in self.state.drain():
            self.results.append(result)
            if not self.request.shape.beside:
                self._give(result)

    def _give(self, result: Result) -> None:
        wanted = self.on_result(result)
        failed = isinstance(result, NotVisited) and result.failure.reason in _WITH_LOG
        if (wanted or failed) and result.pod and len(self.log_wanted) < MAX_LOGS:
            self.log_wanted[result.node] = result.pod

    def _hand_out_held_back(self) -> None:
        """A pod that was to run beside another counts only where that one is still there, now that it has measured."""
        if not self.request.shape.beside:
            return
        neighbours = self._neighbours()
        self.results = [self._checked(result, neighbours) for result in self.results]
        for result in self.results:
            self._give(result)

    def _checked(self, result: Result, neighbours: Collection[str]) -> Result:
        if isinstance(result, NotVisited) or result.node in neighbours:
            return result
        said = "the pod beside which this one was to measure was no longer there; run again"
        return NotVisited(result.node, result.pod, JobFailure(Reason.POD_DELETED, said))

    def _neighbours(self) -> Collection[str]:
        """Nodes on which a kept pod runs and is not being deleted; none where nobody can say."""
        if not self.session.kept:
            return ()
        try:
            listing = self.cluster.list_objects(
                PODS, namespace=self.renderer.namespace, label_selector=self.session.kept_selector
            )
        except ClusterError:
            return ()
        running = (pod for pod in listing.items if raw.text(pod, "status", "phase") == "Running")
        return {raw.text(p, "spec", "nodeName") for p in running if not raw.text(p, "metadata", "deletionTimestamp")}

    def _prepare(self) -> None:
        workload, namespace = self.request.workload, self.renderer.namespace
        try:
            make_claims(self.cluster, self.renderer, self.request.shape.claims, self.session.claims)
            if self.request.dataset is not None and not self.session.dataset_made:
                objects = handout(self.request.dataset, self.renderer.run_id)
                self.cluster.create(SECRETS, self.renderer.dataset(objects), namespace=namespace)
                self.session.dataset_made = True
        except DatasetError as error:
            self.state.give_up(JobFailure(Reason.HARNESS_ERROR, str(error)))
            return
        except ClusterError as error:
            self.state.give_up(JobFailure(error.reason, error.message))
            return
        if workload in self.session.sources:
            return
        try:
            self.cluster.create(CONFIG_MAPS, self.renderer.sources(workload), namespace=namespace)
        except ClusterError as error:
            if error.status == 409:
                return
            self.state.give_up(JobFailure(error.reason, f"the workload's sources were refused: {error.message}"))
        else:
            self.session.sources.add(workload)

    def _start_what_is_needed(self, now: float) -> None:
        nodes = self.state.unreached(now) if self.jobs else self.state.open_nodes
        if not nodes or len(self.jobs) >= MAX_ROUNDS:
            return
        self.session.jobs_made += 1
        name = f"{self.request.check.replace('_', '-')[:40]}-{self.session.jobs_made}"
        manifest = self.renderer.sweep(self._job(name, nodes))
        follow_up = bool(self.jobs)
        # Known before it is asked for: a Job whose answer is lost must be deleted too.
        self.jobs.append(name)
        try:
            create_running(self.cluster, JOBS, manifest, self.renderer.namespace)
        except ClusterError as error:
            self.state.give_up(JobFailure(error.reason, f"job {name} was refused: {error.message}"))
            return
        self.state.job_started(name, len(nodes), now)
        self.session.on_job(StartedJob(name, tuple(nodes), follow_up))

    def _job(self, name: str, nodes: tuple[str, ...]) -> SweepJob:
        request, deadlines = self.request, self.request.deadlines
        pod_s = deadlines.scheduling_s + deadlines.starting_s + deadlines.pulling_s + deadlines.running_s
        if request.shape.stays:
            pod_s += deadlines.run_s
        pool = [node.hostname for node in self.board.inventory().in_pool(self.renderer.pool)]
        only, exclude = shorter_selection(pool, [self.board.hostname(node) for node in nodes])
        return SweepJob(
            name=name,
            sweep=self.label,
            check=request.check,
            workload=request.workload,
            pods=len(nodes),
            gpus=request.gpus_per_pod,
            world_size=request.world_size,
            shape=request.shape,
            active_deadline_s=math.ceil(pod_s) + _MARGIN_S,
            params=request.params,
            only=only,
            exclude=exclude and tuple(sorted({*exclude, *map(self.board.hostname, request.excluded)})),
        )

    def _watch(self) -> None:
        namespace = self.renderer.namespace
        inventory = self.board.inventory()
        # Of the pool only: a cluster may have thousands of other nodes, whose heartbeats are nobody's business here.
        nodes = self.cluster.watch(
            NODES,
            label_selector=",".join(f"{key}={value}" for key, value in sorted(self.renderer.pool.items())),
            resource_version=inventory.resource_version,
            known=[("", node.name) for node in inventory.in_pool(self.renderer.pool)],
        )
        self._watch_pods("", ())
        # Only what goes wrong: a healthy pod makes half a dozen Normal events that nobody reads.
        self.feeds.open(EVENTS.plural, self.cluster.watch(EVENTS, namespace=namespace, field_selector="type=Warning"))
        self.feeds.open(NODES.plural, nodes)

    def _watch_pods(self, version: str, known: Iterable[str]) -> None:
        namespace = self.renderer.namespace
        watch = self.cluster.watch(
            PODS,
            namespace=namespace,
            label_selector=self._selector(),
            resource_version=version,
            known=[(namespace, name) for name in known],
        )
        self.feeds.open(PODS.plural, watch)

    def _selector(self) -> str:
        return f"{SWEEP_LABEL}={self.label}"

    def _logs(self) -> dict[str, str]:
        logs: dict[str, str] = {}
        for node, pod in self.log_wanted.items():
            try:
                logs[node] = self.cluster.read_log(
                    self.renderer.namespace, pod, MEASURE, tail_lines=_LOG_LINES, limit_bytes=_LOG_BYTES
                )
            except ClusterError as error:
                logs[node] = f"(no log: {error.message})"
        return logs

    def _release(self) -> tuple[str, ...]:
        """Let go of the pods that an earlier sweep has left for this one."""
        kept, self.session.kept = self.session.kept, []
        return self._delete(kept)

    def _delete(self, jobs: Iterable[str]) -> tuple[str, ...]:
        left = []
        for name in jobs:
            try:
                self.cluster.delete(JOBS, name, namespace=self.renderer.namespace)
            except ClusterError as error:
                left.append(f"job {name}: {error.message}")
        return tuple(left)
