"""The trainings of a run: one that nobody kills, one that suffers every kill asked for, and its end on other nodes.

Owns which Job runs when, and that the uninterrupted one runs once. It must not know a limit, a verdict or pytest.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from gpuproof.cluster.port import Cluster, ClusterError
from gpuproof.continuation import (
    Killed,
    Line,
    Where,
    complete_saves,
    crashes_in_a_row,
    in_one_piece,
    judge,
    judge_damages,
    judge_final,
    last_step,
    lives,
    other_writers,
)
from gpuproof.failure import JobFailure, Reason
from gpuproof.manifests import Renderer, TrainingJob
from gpuproof.node_loss import NodeLoss
from gpuproof.pod_shape import PodShape
from gpuproof.suite import Answer
from gpuproof.training_choice import PLAIN, Choice
from gpuproof.training_kills import (
    HOPELESS,
    ON_ONE_TRAINING,
    WORKLOAD,
    Kill,
    KilledTraining,
    Planned,
    Shape,
    plan_kills,
    plan_rest,
    steps_needed,
)
from gpuproof.training_watch import TrainingWatch
from workloads.contract import Fact, Measurement, Sample

ELSEWHERE = "elsewhere"
DAMAGES = "damages"
_DAMAGES = ["truncated_by_a_byte", "shard_missing", "marker_missing", "flipped_bit"]
_AT_THE_END = (ELSEWHERE, DAMAGES)
_LOOK_S = 0.2
_RESTARTS = 20
_GB = 1e9


@dataclass(frozen=True)
class Setup:
    """What every training of a run is made with; `hostnames` are the pool's nodes by name."""

    params: Mapping[str, Any]
    shape: Shape
    grace_s: int
    gpus: int
    pod: PodShape
    hostnames: Mapping[str, str]
    check: str
    loss: NodeLoss | None = None
    """How a node is taken away, where the profile says so."""
    choice: Choice = PLAIN
    """Whose the pods are, and where they wait to be let in."""


class UnfitReference(Exception):  # noqa: N818 - a finding about the cluster, and no error of the harness
    """The training that nobody killed was interrupted all the same: there is nothing to compare with."""

    def __init__(self, measurement: Measurement) -> None:
        super().__init__("the uninterrupted training was interrupted")
        self.measurement = measurement


@dataclass
class Trainings:
    """Asked by kill, answers each once. Not for several threads at once."""

    cluster: Cluster
    renderer: Renderer
    setup: Setup
    stop: threading.Event
    on_job: Callable[[TrainingJob], None]
    pending: Callable[[], Sequence[str]]
    """Everything that this run will still ask for, so that one training can suffer all of it."""
    evidence: dict[str, str] = field(default_factory=dict)
    nodes_taken: list[str] = field(default_factory=list)
    """The nodes that were taken away on purpose."""
    _answers: dict[str, Answer] = field(default_factory=dict)
    _reference: Future[Sequence[Line] | JobFailure] | None = None
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "training-reference"))
    _made: int = 0
    _lines: list[Line] = field(default_factory=list)
    """Of the killed training that got farthest."""
    _folder: str = ""

    def answer(self, question: str) -> Answer:
        """What became of a kill (a `Kill`), of going on elsewhere, or the damages; waits for it."""
        try:
            if question not in self._answers:
                self._work(question)
        except ClusterError as error:
            self._answers[question] = JobFailure(error.reason, error.message)
        except UnfitReference as error:
            self._answers = {key: one for key, one in self._answers.items() if isinstance(one, Measurement)}
            self._answers[question] = error.measurement
        return self._answers[question]

    def close(self) -> None:
        """Wait for the reference's end; `stop` has been set, or everything was asked."""
        self._pool.shutdown(wait=True)

    def _work(self, question: str) -> None:
        if self._reference is not None and self._reference.done():
            self._wanted()  # without one, no more needs to be killed
        if question in _AT_THE_END:
            if not self._folder:
                self._kill([Kill.ONE_POD])
            self._go_on_elsewhere()
            return
        if question == Kill.NODE_LOST:
            self._lose_a_node()
            return
        wanted = {*self.pending(), question}
        self._kill([kill for kill in ON_ONE_TRAINING if kill in wanted and str(kill) not in self._answers])
        if question not in self._answers:
            self._kill([Kill(question)])  # an earlier kill was not survived: this one gets a training of its own
        failed = JobFailure(Reason.HARNESS_ERROR, f"{question}: the training ended before this kill was its turn")
        self._answers.setdefault(question, failed)

    # -- the uninterrupted one -----------------------------------------------------------------------------------------

    def _wanted(self) -> Sequence[Line] | JobFailure:
        """The lines of the training that nobody killed; raises `UnfitReference` where it broke by itself."""
        if self._reference is None:
            self._reference = self._pool.submit(self._run_reference)
        found = self._reference.result()
        if not isinstance(found, JobFailure) and not in_one_piece(found):
            why = next((str(line.value["why"]) for line in found if line.kind == "failed"), "a rank was lost")
            facts: dict[str, Fact] = {
                "uninterrupted_in_one_piece": False,
                "uninterrupted_error": why,
                "other_writers": other_writers(found),
            }
            raise UnfitReference(Measurement(WORKLOAD, self.renderer.run_id, "", "reference", 0, 0, (), facts))
        return found

    def _broke(self) -> bool:
        """Whether the uninterrupted training is known to have been interrupted."""
        if self._reference is None or not self._reference.done() or self._reference.exception() is not None:
            return False
        found = self._reference.result()
        return not isinstance(found, JobFailure) and not in_one_piece(found)

    def _run_reference(self) -> Sequence[Line] | JobFailure:
        watch = TrainingWatch(self.cluster, self.renderer, self._job("reference", {"raw": False}))
        try:
            watch.start()
            failed = self._until(watch, lambda: watch.ended or not in_one_piece(watch.lines))
            failed = watch.admission.failure() or failed
        except ClusterError as error:
            failed = JobFailure(error.reason, error.message)
        finally:
            watch.close()
        return failed or watch.lines

    # -- the killed one ------------------------------------------------------------------------------------------------

    def _kill(self, kills: Sequence[Kill]) -> None:
        shape, loss = self.setup.shape, self.setup.loss
        lost = Kill.NODE_LOST in kills
        lose_node: Callable[[str], JobFailure | None] | None = None
        if lost and loss is not None:
            shape = replace(shape, recover_within_s=loss.recover_within_s)
            lose_node = partial(self._take_node, loss)
        if self._reference is None:
            self._reference = self._pool.submit(self._run_reference)
        if self.setup.choice.queue is not None:
            # A queue may have room for one of them only, and would keep one waiting for as long as it holds the other.
            reference = self._wanted()
            if isinstance(reference, JobFailure):
                self._answers |= dict.fromkeys(kills, reference)
                return
        elif len(self.setup.hostnames) < 2 * shape.pods:
            self._wanted()  # no room for both at once
        planned = plan_kills(kills, shape)
        self._made += 1
        name = f"killed-{self._made}"
        rest = plan_rest(len(planned), shape)
        holds = [one.hold for one in (*planned, rest)]
        watch = TrainingWatch(self.cluster, self.renderer, self._job(name, {"holds": holds}))
        training = KilledTraining(watch, shape, planned, self.stop, self.renderer.run_id, self._broke, lose_node)
        try:
            watch.start()
            survived = training.run(self._wanted, lambda one: self._took(training, one))
            training.rest(rest if survived else None)
        finally:
            watch.close()
        if any(isinstance(self._answers.get(one.kill), JobFailure) for one in planned):
            self._wanted()  # where the uninterrupted one broke too, that is what there is to say
        if not lost and last_step(watch.lines) >= last_step(self._lines):
            self._lines, self._folder = list(watch.lines), name

    def _lose_a_node(self) -> None:
        """A training of its own, alone on the cluster: what comes back needs a node that nobody holds."""
        failed = None
        if self.setup.loss is None:
            said = "no command takes a node away: name it in [workload.checkpoint_node_lost] command"
            failed = JobFailure(Reason.HARNESS_ERROR, said)
        elif len(self.setup.hostnames) <= self.setup.shape.pods:
            said = (
                f"{Kill.NODE_LOST}: expected a spare node, as each of the {self.setup.shape.pods} pods of the training "
                f"holds one; the scope has {len(self.setup.hostnames)}; nothing was taken away"
            )
            failed = JobFailure(Reason.HARNESS_ERROR, said)
        else:
            reference = self._wanted()
            failed = reference if isinstance(reference, JobFailure) else None
        if failed is not None:
            self._answers[Kill.NODE_LOST] = failed
            return
        self._kill([Kill.NODE_LOST])

    def _take_node(self, loss: NodeLoss, node: str) -> JobFailure | None:
        self.nodes_taken.append(node)
        return loss.take(node)

    def _took(self, training: KilledTraining, planned: Planned) -> None:
        self._answers[planned.kill] = training.answers[planned.kill]
        if planned.kill in training.evidence:
            self.evidence[planned.kill] = training.evidence[planned.kill]

    # -- on other nodes ------------------------------------------------------------------------------------------------

    def _go_on_elsewhere(self) -> None:
        """The killed training's Job is gone; another one, kept off the nodes that wrote, finishes it."""
        reference = self._wanted()
        if isinstance(reference, JobFailure):
            self._answers |= dict.fromkeys(_AT_THE_END, reference)
            return
        wrote = _nodes(_life_of_last_save(self._lines))
        rest = set(self.setup.hostnames) - wrote
        excluded = tuple(sorted(self.setup.hostnames[name] for name in wrote if name in self.setup.hostnames))
        room = len(rest) >= self.setup.shape.pods
        job = self._job(
            ELSEWHERE, {"folder": _folder(self._folder), "raw": True, "damages": _DAMAGES}, excluded if room else ()
        )
        watch = TrainingWatch(self.cluster, self.renderer, job)
        at_s = watch.clock()
        try:
            watch.start()
            failed = self._until(watch, lambda: watch.ended or crashes_in_a_row(watch.lines) >= HOPELESS)
            failed = watch.admission.failure() or failed
        finally:
            watch.close()
        if failed is not None:
            self._answers |= dict.fromkeys(_AT_THE_END, failed)
            return
        killed = Killed(ELSEWHERE, Where.STEP, last_step(self._lines), at_s, copies=watch.copies)
        samples, facts = judge(reference, self._lines, watch.lines, killed)
        finals, final_facts = judge_final(reference, watch.lines)
        facts |= {**final_facts, "read_by_other_nodes": not wrote & _nodes(watch.lines)}
        rates = _bandwidths(reference, watch.lines)
        self._answers[ELSEWHERE] = self._measurement(watch, (*samples, *finals, *rates), facts)
        self._answers[DAMAGES] = self._measurement(watch, (), judge_damages(watch.lines))

    def _measurement(self, watch: TrainingWatch, samples: Sequence[Sample], facts: Mapping[str, Any]) -> Measurement:
        joined: Mapping[str, Any] = next((line.value for line in watch.lines if line.kind == "joined"), {})
        hosts = len(_nodes(watch.lines))
        run = self.renderer.run_id
        world = int(joined.get("world", 0))
        return Measurement(WORKLOAD, run, "", watch.job.name, world, hosts, tuple(samples), dict(facts))

    def _until(self, watch: TrainingWatch, happened: Callable[[], bool]) -> JobFailure | None:
        within_s = self.setup.shape.start_within_s
        until = watch.clock_at_work() + within_s
        while not happened():
            failed = watch.broken or watch.trouble()
            if self.stop.is_set():
                failed = JobFailure(Reason.INTERRUPTED, "the run was interrupted before this was known")
            if failed is None and watch.clock_at_work() >= until:
                said = f"{watch.job.name}: not done within {within_s:g} s: {watch.waiting_for()}"
                names = [pod.name for pod in watch.pods.values()]
                logs = tuple(f"{pod}: {watch.log_of(pod)[-1400:]}" for pod in names[:4])
                failed = JobFailure(Reason.DEADLINE_EXCEEDED, said, logs)
            if failed is not None:
                return failed
            watch.take(_LOOK_S)
        return None

    def _job(self, name: str, params: Mapping[str, Any], excluded: tuple[str, ...] = ()) -> TrainingJob:
        job = _job(self.setup, name, params, excluded)
        self.on_job(job)
        return job


def sample_job(setup: Setup) -> TrainingJob:
    """The Job of the training that nobody kills; those of the others differ in name, folder and where they hold."""
    return _job(setup, "reference", {"raw": False}, ())


def _job(setup: Setup, name: str, params: Mapping[str, Any], excluded: tuple[str, ...]) -> TrainingJob:
    kills = len(ON_ONE_TRAINING)
    steps = steps_needed(kills, setup.shape.save_every)
    wait_s = setup.shape.start_within_s + kills * setup.shape.recover_within_s
    wait_s += setup.loss.recover_within_s if setup.loss is not None else 0.0
    return TrainingJob(
        name=name,
        check=setup.check,
        workload=WORKLOAD,
        pods=setup.shape.pods,
        gpus=setup.gpus,
        restarts=_RESTARTS,
        grace_s=setup.grace_s,
        active_deadline_s=math.ceil(2 * wait_s),
        params={"folder": _folder(name), **setup.params, "steps": steps, **params},
        excluded=excluded,
        shape=setup.pod,
        owner=setup.choice.owner,
        queue=setup.choice.queue,
    )


def _folder(name: str) -> str:
    return f"/gpuproof/claims/checkpoints/{name}"


def _life_of_last_save(lines: Sequence[Line]) -> Sequence[Line]:
    """The life whose ranks wrote the newest complete checkpoint."""
    found = [life for life in lives(lines) if complete_saves(life)]
    return found[-1] if found else lines


def _nodes(lines: Sequence[Line]) -> set[str]:
    return {str(place.get("node")) for line in lines if line.kind == "joined" for place in line.value["where"]}


def _bandwidths(reference: Sequence[Line], elsewhere: Sequence[Line]) -> tuple[Sample, ...]:
    """GB/s (1e9 bytes) over all ranks: checkpoints beside plain files on the same path in the same run."""
    samples: list[Sample] = []
    saves = [line.value for line in reference if line.kind == "save" and line.value.get("at") == "end"]
    for mode in sorted({str(save["mode"]) for save in saves}):
        rates = sorted(_rate(save["bytes"], save["s"]) for save in saves if save["mode"] == mode)
        samples.append(
            Sample("checkpoint_write", rates[len(rates) // 2], "GB/s", {"mode": mode, "statistic": "median"})
        )
    for line in elsewhere:
        if line.kind == "resumed":
            samples.append(Sample("checkpoint_read", _rate(line.value["bytes"], line.value["s"]), "GB/s"))
            samples.append(Sample("checkpoint_bytes", float(line.value["bytes"]), "B"))
        if line.kind == "raw":
            samples.append(Sample("raw_write", _rate(line.value["bytes"], line.value["write_s"]), "GB/s"))
            samples.append(Sample("raw_read", _rate(line.value["bytes"], line.value["read_s"]), "GB/s"))
        if line.kind == "final":
            samples.append(Sample("space_left_behind", float(line.value["left_bytes"]), "B"))
    return tuple(samples)


def _rate(count: float, seconds: float) -> float:
    return float(count) / _GB / seconds if seconds > 0 else math.nan
