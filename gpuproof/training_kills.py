"""Kills a training where it said it would be, waits for what comes back, and has each kill judged against a reference.

Owns which kills there are, in which order one training suffers them, and the waiting. It must not know a limit or a
verdict, or how the trainer works.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gpuproof.cluster import raw
from gpuproof.cluster.port import NODES, PODS, Cluster, ClusterError
from gpuproof.continuation import (
    NONE,
    Killed,
    Line,
    Where,
    complete_saves,
    crashes_in_a_row,
    cut_in_two,
    judge,
    landed,
    last_step,
    open_save,
    other_writers,
)
from gpuproof.failure import JobFailure, Reason
from gpuproof.manifests import MEASURE
from gpuproof.suite import Answer
from gpuproof.training_watch import RankPod, TrainingWatch
from workloads.contract import Measurement, Sample

WORKLOAD = "training"
_LOOK_S = 0.2
_LAST_WORDS_S = 10.0
HOPELESS = 3
"""So many failures in a row of a training that comes back: the first is that of the rank that lost another."""
_KILL_RANKS = "import os\nfor pid in open('/tmp/gpuproof-ranks').read().split():\n    os.kill(int(pid), 9)"
"""Run inside a container: process 1 notices that its ranks were killed and ends the pod."""


class Kill(StrEnum):
    """How a training is killed; the order is that in which one training suffers all of them."""

    ONE_POD = "one_pod"
    IN_SAVE = "in_save"
    EVICTION = "eviction"
    GRACEFUL = "graceful"
    ALL_PODS = "all_pods"
    NODE_LOST = "node_lost"


ON_ONE_TRAINING = tuple(kill for kill in Kill if kill is not Kill.NODE_LOST)
"""A lost node does not come back: that kill has a training of its own, after everything else."""


@dataclass(frozen=True)
class Planned:
    """One kill: where it is to land, and which index loses its pod."""

    kill: Kill
    where: Where
    step: int
    index: int

    @property
    def hold(self) -> str:
        """The trainer's word for where that rank is to stand still."""
        return f"{self.where}:{self.step}:{self.index}"


@dataclass(frozen=True)
class Shape:
    """How the training saves, and how long each wait may take."""

    pods: int
    ranks_per_pod: int
    save_every: int
    start_within_s: float
    recover_within_s: float
    python: str = "python3"


def plan_kills(kills: Sequence[Kill], shape: Shape) -> tuple[Planned, ...]:
    """Each kill has two saves to itself: one before it to come back to, and one after it. Victims take turns, and that
    of a kill is the same whatever else is asked."""
    return tuple(_planned(kill, place, shape) for place, kill in enumerate(kills))


def plan_rest(kills: int, shape: Shape) -> Planned:
    """Where the training stands still after so many kills, for good: nothing is written that nobody has heard of."""
    return _planned(Kill.ALL_PODS, kills, shape)


def _planned(kill: Kill, place: int, shape: Shape) -> Planned:
    base = (2 * place + 1) * shape.save_every
    where = Where.SAVE if kill is Kill.IN_SAVE else Where.STEP
    step = base + (shape.save_every if where is Where.SAVE else max(1, shape.save_every // 2))
    # Who tells all others what it does, rank 0, is not on the node that is lost.
    turn = 0 if kill is Kill.NODE_LOST else list(Kill).index(kill)
    return Planned(kill, where, step, (shape.pods - 1 - turn) % shape.pods)


def steps_needed(kills: int, save_every: int) -> int:
    """How long a training must be for so many kills, with two saves after the last one."""
    return (2 * kills + 2) * save_every


@dataclass
class KilledTraining:
    """One training and its kills; `answers` fills up one by one."""

    watch: TrainingWatch
    shape: Shape
    kills: Sequence[Planned]
    stop: threading.Event
    run_id: str
    in_vain: Callable[[], bool] = lambda: False
    """Whether what comes of this training can be compared with nothing, as is known by now."""
    lose_node: Callable[[str], JobFailure | None] | None = None
    """Takes a node away by its name; why that came to nothing."""
    clock: Callable[[], float] = time.monotonic
    answers: dict[Kill, Answer] = field(default_factory=dict)
    evidence: dict[Kill, str] = field(default_factory=dict)

    def run(self, reference: Callable[[], Sequence[Line] | JobFailure], on_answer: Callable[[Planned], None]) -> bool:
        """Suffer every kill in turn until one is not survived; whether all were. `on_answer` hears of each."""
        for planned in self.kills:
            failed = self._until(lambda p=planned: self._ready(p), self.shape.start_within_s, planned)  # type: ignore[misc]
            if failed is None:
                failed = self._kill_and_judge(planned, reference)
            if failed is not None:
                # What a queue does to the training is the reason of all that breaks after it.
                self.answers[planned.kill] = self._disturbed() or self.watch.admission.failure() or failed
            on_answer(planned)
            answer = self.answers[planned.kill]
            if isinstance(answer, JobFailure) or not self._same(answer):
                return False
        return True

    def _disturbed(self) -> Measurement | None:
        """What is known all the same of a kill that came to nothing, where another writer had the folder."""
        others = other_writers(self.watch.lines)
        if others == NONE:
            return None
        return Measurement(WORKLOAD, self.run_id, "", self.watch.job.name, 0, 0, (), {"other_writers": others})

    def rest(self, at: Planned | None) -> None:
        """Kill all ranks for good, where they come to stand still, and hear all that rank 0 had said."""
        if at is not None:
            self._until(lambda: self._ready(at), self.shape.start_within_s, at)
        pods = [pod for pod in map(self.watch.pod_of, range(self.shape.pods)) if pod is not None and pod.runs]
        for pod in pods:
            with contextlib.suppress(ClusterError):  # it has just ended by itself
                _kill_ranks(self.watch.cluster, self.watch.namespace, pod.name, self.shape.python)
        until = self.clock() + _LAST_WORDS_S
        while self.watch.speaking(pods) and self.clock() < until:
            self.watch.take(_LOOK_S)

    def _kill_and_judge(
        self, planned: Planned, reference: Callable[[], Sequence[Line] | JobFailure]
    ) -> JobFailure | None:
        watch = self.watch
        told, victims = len(watch.lines), self._victims(planned)
        before_pods = {pod.index: pod for pod in victims}
        at_s = self.clock()
        try:
            refused = self._kill(planned, victims)
        except ClusterError as error:
            return JobFailure(error.reason, f"{planned.kill}: the kill was refused: {error.message}")
        if refused is not None:
            return refused
        late = self._until(lambda: self._recovered(planned, told, victims), self.shape.recover_within_s, planned)
        taken = self.watch.admission.failure()
        if taken is not None or (late is not None and late.reason is not Reason.DEADLINE_EXCEEDED):
            return taken or late
        before, after = _parted(watch.lines, told)
        killed = self._killed(planned, at_s, before_pods)
        missed = landed(before, killed)
        missed = missed or (self._node_stayed(killed) if planned.kill is Kill.NODE_LOST else None)
        if missed is not None:
            return JobFailure(Reason.HARNESS_ERROR, f"{planned.kill}: {missed}; nothing was judged, run again")
        wanted = reference()
        if isinstance(wanted, JobFailure):
            said = f"there is no reference to compare with: {wanted.message}"
            return JobFailure(wanted.reason, said, wanted.evidence)
        self.answers[planned.kill] = self._measurement(wanted, before, after, killed)
        self.evidence[planned.kill] = self._story(killed, before, after, late)
        return None

    # -- killing -------------------------------------------------------------------------------------------------------

    def _victims(self, planned: Planned) -> list[RankPod]:
        indexes = range(self.shape.pods) if planned.kill is Kill.ALL_PODS else [planned.index]
        return [pod for pod in map(self.watch.pod_of, indexes) if pod is not None]

    def _kill(self, planned: Planned, victims: Sequence[RankPod]) -> JobFailure | None:
        """Order it; why that was not carried out. Raises `ClusterError`."""
        cluster, namespace = self.watch.cluster, self.watch.namespace
        if planned.kill is Kill.EVICTION:
            cluster.evict(namespace, victims[0].name)
        elif planned.kill is Kill.GRACEFUL:
            cluster.delete(PODS, victims[0].name, namespace=namespace)
        elif planned.kill is Kill.NODE_LOST:
            if self.lose_node is None:
                return JobFailure(Reason.HARNESS_ERROR, "the profile names no command that takes a node away")
            return self.lose_node(victims[0].node)
        else:
            with ThreadPoolExecutor(len(victims)) as pool:
                list(pool.map(lambda pod: _kill_ranks(cluster, namespace, pod.name, self.shape.python), victims))
        return None

    def _node_stayed(self, killed: Killed) -> str | None:
        """Why the node was not lost, by the API; None where it was, or where nobody can say so."""
        if killed.node_after == killed.node_before:
            return f"the pod came back on {killed.node_before}, which was to be lost"
        if killed.gone_s is not None:
            return None
        try:
            node = self.watch.cluster.get(NODES, killed.node_before)
        except ClusterError:
            return None  # gone with its object, or not to be asked about
        if raw.text(raw.condition(node, "Ready"), "status") != "True":
            return None
        return f"the command ended well, and {killed.node_before} is ready and has its pod"

    # -- waiting -------------------------------------------------------------------------------------------------------

    def _ready(self, planned: Planned) -> bool:
        lines = self.watch.lines
        if planned.where is Where.SAVE:
            return cut_in_two(lines, planned.step)
        return last_step(lines) >= planned.step and open_save(lines) is None

    def _recovered(self, planned: Planned, told: int, victims: Sequence[RankPod]) -> bool:
        before, after = _parted(self.watch.lines, told)
        if any(pod.succeeded for pod in victims) or self.watch.given_up:
            return True  # nothing will come in its place
        lines = self.watch.lines[told:]
        if planned.kill is Kill.NODE_LOST:
            # Until somebody declares the node lost, the others wait for its rank and fail, as they should.
            since_s = self._replaced_s(victims[0])
            lines = [line for line in lines if since_s is not None and line.at_s >= since_s]
        if crashes_in_a_row(lines) >= HOPELESS:
            return True  # what comes next is the same again
        new = max(last_step(before), planned.step)
        enough = [step for step in complete_saves(after) if step >= planned.step]
        return bool(enough) and (last_step(after) > new or self.watch.ended)

    def _replaced_s(self, victim: RankPod) -> float | None:
        """When the pod that took this one's place was seen to run."""
        new = self.watch.pod_of(victim.index)
        return new.running_s if new is not None and new is not victim else None

    def _until(self, happened: Callable[[], bool], within_s: float, planned: Planned) -> JobFailure | None:
        """Wait for it; why it cannot happen any more, else that it did not in time."""
        until = self.watch.clock_at_work() + within_s
        while not happened():
            if self.stop.is_set():
                return JobFailure(Reason.INTERRUPTED, "the run was interrupted before this was known")
            if self.watch.broken is not None:
                return self.watch.broken
            trouble = self.watch.trouble()
            if trouble is not None:
                return trouble
            if self.in_vain():
                return JobFailure(Reason.HARNESS_ERROR, f"{planned.kill}: there is no reference to compare with")
            if self.watch.clock_at_work() >= until:
                said = f"{planned.kill}: not within {within_s:g} s: {self.watch.waiting_for()}"
                return JobFailure(Reason.DEADLINE_EXCEEDED, said, self._logs())
            self.watch.take(_LOOK_S)
        return None

    def _logs(self) -> tuple[str, ...]:
        pods = [pod for pod in map(self.watch.pod_of, range(self.shape.pods)) if pod is not None]
        return tuple(f"{pod.name}: {self.watch.log_of(pod.name)[-1400:]}" for pod in pods)

    # -- judging -------------------------------------------------------------------------------------------------------

    def _killed(self, planned: Planned, at_s: float, gone: Mapping[int, RankPod]) -> Killed:
        first = gone[min(gone)]
        came = self.watch.pod_of(first.index)
        new = came if came is not first else None
        return Killed(
            kind=str(planned.kill),
            where=planned.where,
            step=planned.step,
            at_s=at_s,
            gone_s=first.gone_s,
            created_s=new.created_s if new else None,
            scheduled_s=new.scheduled_s if new else None,
            running_s=new.running_s if new else None,
            counted_as_completed=any(pod.succeeded for pod in gone.values()),
            copies=self.watch.copies,
            node_before=first.node,
            node_after=new.node if new else "",
        )

    def _measurement(
        self, reference: Sequence[Line], before: Sequence[Line], after: Sequence[Line], killed: Killed
    ) -> Measurement:
        samples, facts = judge(reference, before, after, killed)
        # What the trainer said of its world, not what was asked of it.
        joined: Mapping[str, Any] = next((line.value for line in [*before, *after][::-1] if line.kind == "joined"), {})
        nodes = {place.get("node") for place in joined.get("where", [])}
        return Measurement(
            workload=WORKLOAD,
            run_id=self.run_id,
            node="",
            pod=self.watch.job.name,
            world_size=int(joined.get("world", 0)),
            hosts=len(nodes),
            samples=(*samples, *_save_times(after)),
            facts=facts,
        )

    def _same(self, answer: Measurement) -> bool:
        """Whether the training may go on to the next kill: one that is another by now would be blamed for it again."""
        return (
            answer.facts.get("came_back") is True
            and answer.facts.get("restored_differently") == "none"
            and answer.facts.get("saved_differently") == "none"
            and answer.facts.get("other_writers") == "none"
            and self.watch.copies == 1
        )

    def _story(self, killed: Killed, before: Sequence[Line], after: Sequence[Line], late: JobFailure | None) -> str:
        def shown(line: Line) -> str:
            value = {key: line.value[key] for key in line.value if key not in ("sums", "loss", "ids", "where")}
            return f"{line.at_s - killed.at_s:+9.3f} s {value}"

        last, first = [shown(line) for line in before[-4:]], [shown(line) for line in after[:6]]
        end = [f"    {late.message}"] if late else []
        return "\n".join([*last, f"   +0.000 s KILL {killed.kind}", *first, *end])


def _kill_ranks(cluster: Cluster, namespace: str, pod: str, python: str) -> None:
    cluster.execute(namespace, pod, MEASURE, [python, "-c", _KILL_RANKS])


def _parted(lines: Sequence[Line], told: int) -> tuple[list[Line], list[Line]]:
    """The lines up to the end of the killed life, and those of what came back: from where the ranks met again."""
    met = next((place for place in range(told, len(lines)) if lines[place].kind == "joined"), len(lines))
    return list(lines[:met]), list(lines[met:])


def _save_times(lines: Sequence[Line]) -> list[Sample]:
    """The last save of each mode after the kill: how long it took and how long the training stood still for it."""
    found: dict[str, Line] = {}
    for line in lines:
        if line.kind == "save" and line.value.get("at") == "end":
            found[str(line.value.get("mode"))] = line
    return [
        Sample(metric, float(line.value[key]), "s", {"mode": mode})
        for mode, line in found.items()
        for metric, key in (("save_time", "s"), ("blocked_time", "blocked_s"))
    ]
