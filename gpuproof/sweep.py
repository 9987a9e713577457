"""The state of one sweep: each expected node is visited once, or it is said why not, as soon as that is known.

Pure: it is fed watch events and the time, and hands out results. It must not know threads, requests, or limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from gpuproof import refusals
from gpuproof.cluster import raw
from gpuproof.cluster.port import WatchEvent
from gpuproof.cluster.raw import Raw
from gpuproof.evidence import capped, event_text, shortened, status_texts
from gpuproof.expectation import Deadlines
from gpuproof.failure import JobFailure, Reason
from gpuproof.manifests import JOB_LABEL
from gpuproof.measured import Expected, read_message
from gpuproof.node_board import NodeBoard
from gpuproof.pod_outcome import HasMessage, OnTheWay, Phase, classify, deleted
from gpuproof.refusals import Warnings
from gpuproof.visits import NotVisited, Result, SweepRequest, Timings, Visited

MAX_ROUNDS = 4
"""The first Job and its follow-ups: a node that swallows every pod costs one more, not one more a pod."""

SETTLE_S = 1.0
"""Pods and events come by separate watches: a refusal counts for the rest when no pod came up for this long."""

_INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass
class _Pod:
    """A pod as last seen. `final` pods have had their say; what comes later does not count."""

    name: str
    job: str
    seen_at: float
    raw: Raw = field(default_factory=dict)
    node: str = ""
    phase: Phase = Phase.SCHEDULING
    phase_since: float = 0.0
    trouble: str = ""
    final: bool = False
    gone: bool = False
    called: bool = False
    bound_at: float = 0.0
    running_at: float = 0.0


class SweepState:
    """Feed it with `job_started`, `on_pod`, `on_event`, `on_node` and `tick`; take results out with `drain`."""

    def __init__(self, request: SweepRequest, board: NodeBoard, *, run_id: str, tolerations: Sequence[Raw]) -> None:
        self._request = request
        self._board = board
        self._run_id = run_id
        self._tolerations = tolerations
        self._results: dict[str, Result] = {}
        self._fresh: list[Result] = []
        self._pods: dict[str, _Pod] = {}
        self._warnings = Warnings()
        self._rounds = 0
        self._job, self._size = "", 0
        self._job_started_at: dict[str, float] = {}
        self._progress_at = 0.0
        self._refused_at: float | None = None

    @property
    def open_nodes(self) -> tuple[str, ...]:
        """Candidates without a result, in the order given."""
        return tuple(name for name in dict.fromkeys(self._request.candidates) if name not in self._results)

    @property
    def rounds(self) -> int:
        """Jobs started so far."""
        return self._rounds

    @property
    def known_pods(self) -> tuple[str, ...]:
        """Names of the pods seen so far and not known to be gone."""
        return tuple(name for name, pod in self._pods.items() if not pod.gone)

    @property
    def running(self) -> dict[str, tuple[str, int]]:
        """Pod and completion index by node, of pods whose container runs and that have not had their say."""
        return {
            pod.node: (pod.name, _index(pod.raw))
            for pod in self._pods.values()
            if pod.phase is Phase.RUNNING and not pod.final and pod.node
        }

    @property
    def uncalled(self) -> list[str]:
        """Running pods that stay and have not been called."""
        pods = self._pods.values()
        return [pod.name for pod in pods if pod.phase is Phase.RUNNING and not (pod.final or pod.called)]

    def called(self, name: str, now: float) -> None:
        """A pod that stays was told to measure: its time runs from now on."""
        self._pods[name].called, self._pods[name].phase_since = True, now

    def drain(self) -> list[Result]:
        """Results since the last call; each candidate appears exactly once over the life of the sweep."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def job_started(self, job: str, pods: int, now: float) -> None:
        """A Job of `pods` pods was created."""
        self._rounds += 1
        self._job, self._size = job, pods
        self._job_started_at[job] = self._progress_at = now
        self._refused_at = None

    def unreached(self, now: float) -> tuple[str, ...]:
        """Open candidates that need a new Job: no pod is on them and the present Job has no index left for them."""
        if not self._spent():
            return ()
        taken = {pod.node for pod in self._pods.values() if not pod.final}
        return tuple(name for name in self._placeable(now) if name not in taken)

    def on_pod(self, event: WatchEvent, now: float) -> None:
        """A change of a pod of this sweep."""
        name = raw.text(event.object, "metadata", "name")
        pod = self._pods.get(name)
        if pod is None:
            if event.type == "DELETED" or not name:
                return
            job = raw.text(event.object, "metadata", "labels", JOB_LABEL)
            pod = self._pods[name] = _Pod(name, job, now, phase_since=now)
            self._progress_at = now
        if event.type == "DELETED":
            pod.gone = True
            if not pod.final:
                pod.raw = event.object if raw.mapping(event.object, "status") else pod.raw
                self._fail(pod, self._board.lost(pod.node, now) or deleted(pod.raw, self._warnings.of(name)))
            return
        pod.raw = event.object
        self._assess(pod, now)

    def on_event(self, event: WatchEvent, now: float) -> None:
        """A Warning event in the run's namespace."""
        about = self._warnings.add(event.object)
        pod = self._pods.get(about)
        if pod is not None and event.type != "DELETED":
            self._assess(pod, now)

    def on_node(self, event: WatchEvent, now: float) -> None:
        """A change of any node."""
        self._board.update(event, now)

    def on_list(self, pods: Sequence[Raw], now: float) -> bool:
        """All pods of this sweep, as a list has them now; whether it is news, so that the watch has kept it back."""
        present = {raw.text(obj, "metadata", "name"): obj for obj in pods}
        news = False
        for name, obj in present.items():
            pod = self._pods.get(name)
            news |= pod is None or (not pod.final and _version(pod.raw) != _version(obj))
            self.on_pod(WatchEvent("MODIFIED", obj), now)
        for name in [name for name, pod in self._pods.items() if not pod.final and name not in present]:
            news = True
            self.on_pod(WatchEvent("DELETED", {"metadata": {"name": name}}), now)
        return news

    def tick(self, now: float, *, sure: bool = False) -> bool:
        """Let time pass: lost nodes, deadlines, obstacles, refusals; whether one of these waits for a look at the pods.

        What only time and silence say counts only with `sure`: list the pods, hand them to `on_list`, tick again.
        """
        late = False
        for pod in [pod for pod in self._pods.values() if not pod.final and pod.node]:
            lost = self._board.lost(pod.node, now)
            found = replace(lost, evidence=capped([*lost.evidence, *status_texts(pod.raw)])) if lost else None
            found = found or self._overdue(pod, now)
            late |= found is not None
            if found is not None and sure:
                self._fail(pod, found)
        unplaced = self._unplaced(now)
        if sure:
            for name, failure in unplaced.items():
                self._conclude(NotVisited(name, None, failure))
        return not sure and (late or bool(unplaced))

    def give_up(self, failure: JobFailure) -> None:
        """End the sweep: every open candidate gets this failure."""
        for name in self.open_nodes:
            pod = next((pod.name for pod in self._pods.values() if pod.node == name and not pod.final), None)
            self._conclude(NotVisited(name, pod, failure))

    def _assess(self, pod: _Pod, now: float) -> None:
        node = raw.text(pod.raw, "spec", "nodeName")
        if node and not pod.node:
            pod.node, pod.bound_at = node, now
            self._progress_at = now
        if pod.final:
            return
        try:
            self._read(pod, now)
        except Exception as error:  # noqa: BLE001 - what one pod says, whatever it is, must not cost the others
            said = f"the harness could not read what the pod says: {type(error).__name__}: {shortened(ascii(error))}"
            self._fail(pod, JobFailure(Reason.HARNESS_ERROR, said))

    def _read(self, pod: _Pod, now: float) -> None:
        outcome = classify(pod.raw, self._warnings.of(pod.name))
        if isinstance(outcome, OnTheWay):
            pod.trouble = outcome.trouble
            if outcome.phase is not pod.phase:
                pod.phase, pod.phase_since = outcome.phase, now
                pod.running_at = now if outcome.phase is Phase.RUNNING else pod.running_at
        elif isinstance(outcome, HasMessage):
            self._measured(pod, outcome.text, now)
        else:
            self._fail(pod, outcome)

    def _measured(self, pod: _Pod, text: str, now: float) -> None:
        request = self._request
        expected = Expected(request.workload, self._run_id, pod.node, pod.name, request.world_size, hosts=1)
        found = read_message(text, expected)
        if isinstance(found, JobFailure):
            self._fail(pod, found)
            return
        pod.final = True
        start = self._job_started_at.get(pod.job, now)
        # A short measurement may be seen for the first time when it has ended already.
        timings = Timings(pod.bound_at - start, (pod.running_at or now) - start, now - start)
        self._conclude(Visited(pod.node, pod.name, _index(pod.raw), found, timings))

    def _fail(self, pod: _Pod, failure: JobFailure) -> None:
        pod.final = True
        if pod.node:
            self._conclude(NotVisited(pod.node, pod.name, failure))

    def _conclude(self, result: Result) -> None:
        # A pod on a node that is no candidate, or a second visit, counts for nothing.
        if result.node in self._results or result.node not in self._request.candidates:
            return
        self._results[result.node] = result
        self._fresh.append(result)

    def _placeable(self, now: float) -> list[str]:
        """Open candidates without a pod whose own state is no obstacle; an obstacle found is their result."""
        taken = {pod.node for pod in self._pods.values() if not pod.final}
        found = []
        for name in self.open_nodes:
            if name in taken:
                continue
            obstacle = self._board.obstacle(
                name, gpus=self._request.gpus_per_pod, tolerations=self._tolerations, now=now
            )
            if obstacle is None:
                found.append(name)
            else:
                self._conclude(NotVisited(name, None, obstacle))
        return found

    def _overdue(self, pod: _Pod, now: float) -> JobFailure | None:
        if self._request.shape.stays and pod.phase is Phase.RUNNING and not pod.called:
            return None
        limit_s = _limit_s(self._request.deadlines, pod.phase)
        if now - pod.phase_since < limit_s:
            return None
        return refusals.overdue(pod.raw, self._warnings.of(pod.name), pod.phase, limit_s, pod.trouble)

    def _spent(self) -> bool:
        """Whether every index of the present Job has a pod and none of these waits for a node."""
        pods = [pod for pod in self._pods.values() if pod.job == self._job]
        return len(pods) >= self._size and not self._unbound(pods)

    def _unbound(self, pods: Iterable[_Pod]) -> list[_Pod]:
        return [pod for pod in pods if not pod.final and not pod.node]

    def _unplaced(self, now: float) -> dict[str, JobFailure]:
        """What becomes of open candidates that no pod has reached, as far as it is time to say so."""
        waiting = self._placeable(now)
        if not self._job or not waiting:
            return {}
        unbound = self._unbound(self._pods.values())
        refusal = self._warnings.refusal(self._job)
        if refusal is not None and self._refused_at is None:
            self._refused_at = now
        settled = now - max(self._progress_at, self._refused_at or now) >= SETTLE_S
        if refusal is not None and settled and not unbound and not self._spent():
            return dict.fromkeys(waiting, refusal)
        if self._spent():
            said = f"{self._rounds} Jobs in a row did not reach the node; look which nodes swallow pods"
            unvisited = JobFailure(Reason.UNVISITED, said)
            return dict.fromkeys(waiting, unvisited) if self._rounds >= MAX_ROUNDS else {}
        if now - self._progress_at >= self._request.deadlines.scheduling_s:
            return {name: self._not_placed(name, unbound) for name in waiting}
        return {}

    def _not_placed(self, node: str, unbound: Sequence[_Pod]) -> JobFailure:
        limit_s = self._request.deadlines.scheduling_s
        if not unbound:
            return self._warnings.no_pods(self._job, limit_s)
        texts = [event_text(event) for pod in unbound[:3] for event in self._warnings.of(pod.name)]
        said = next((pod.trouble for pod in unbound if pod.trouble), "")
        return refusals.not_placed(node, said, limit_s, capped([said, *texts]), self._held())

    def _held(self) -> int:
        pods = (pod for pod in self._pods.values() if pod.job == self._job and pod.node)
        return sum(raw.text(pod.raw, "status", "phase") not in ("Failed", "Succeeded") for pod in pods)


def _index(obj: Raw) -> int:
    text = raw.text(obj, "metadata", "annotations", _INDEX)
    return int(text) if text.isascii() and text.isdigit() else -1


def _version(obj: Raw) -> str:
    return raw.text(obj, "metadata", "resourceVersion")


def _limit_s(deadlines: Deadlines, phase: Phase) -> float:
    return {
        Phase.SCHEDULING: deadlines.scheduling_s,
        Phase.STARTING: deadlines.starting_s,
        Phase.PULLING: deadlines.pulling_s,
        Phase.RUNNING: deadlines.running_s,
    }[phase]
