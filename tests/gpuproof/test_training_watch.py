"""Pods and Job of a training: times in order, two pods of one rank, an end that counts, a Job that gives up."""

from __future__ import annotations

from typing import Any

import pytest

from gpuproof.admission import KUEUE, Queue
from gpuproof.cluster.port import ClusterError, WatchEvent
from gpuproof.continuation import Line
from gpuproof.failure import Reason
from gpuproof.line_stream import LineStreamError
from gpuproof.manifests import PodSettings, Renderer, TrainingJob
from gpuproof.training_owner import INDEXED_JOB, JOB_SET
from gpuproof.training_watch import TrainingWatch
from tests.gpuproof.toy_cluster import ToyCluster

RUNNING = {"running": {"startedAt": "now"}}
INDEX = "batch.kubernetes.io/job-completion-index"


@pytest.fixture
def watch() -> TrainingWatch:
    ticks = iter(range(1000))
    renderer = Renderer("r1", "ns", {}, "nvidia.com/gpu", PodSettings.from_mapping({"image": "i"}))
    job = TrainingJob("killed-1", "checkpoint_x", "training", 2, 2, 20, 30, 900)
    return TrainingWatch(ToyCluster({}), renderer, job, clock=lambda: float(next(ticks)))


def pod(
    name: str,
    index: int,
    state: dict[str, Any] | None = None,
    phase: str = "Running",
    node: str = "n1",
    uid: str = "",
) -> Any:
    statuses = [{"name": "measure", "state": state}] if state else []
    return {
        "metadata": {"name": name, "uid": uid or name, "annotations": {INDEX: str(index)}},
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase, "containerStatuses": statuses},
    }


def tell(watch: TrainingWatch, kind: str, *items: Any) -> None:
    for item in items:
        watch._inbox.put((kind, item))
    watch.take(0)


def pods(watch: TrainingWatch, *objects: Any) -> None:
    tell(watch, "pods", *(WatchEvent("MODIFIED", one) for one in objects))


def ended(code: int) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": "Error"}}


def test_a_pods_times_are_those_of_what_was_seen_first(watch: TrainingWatch) -> None:
    pods(watch, pod("a", 1, node="", phase="Pending"), pod("a", 1), pod("a", 1, RUNNING), pod("a", 1, RUNNING))
    pods(watch, pod("a", 1, ended(137), "Failed"))
    seen = watch.pods["a"]
    times = [seen.created_s, seen.scheduled_s, seen.running_s, seen.gone_s]
    assert None not in times
    assert times == sorted(set(times), key=float)  # type: ignore[arg-type]
    assert (seen.runs, seen.succeeded, watch.copies) == (False, False, 1)
    assert watch.pod_of(1) is seen
    assert watch.pod_of(0) is None


def test_two_running_pods_of_one_index_are_two_copies_of_a_rank(watch: TrainingWatch) -> None:
    pods(watch, pod("a", 1, RUNNING), pod("b", 1, node="n2"))
    assert watch.copies == 1
    pods(watch, pod("b", 1, RUNNING, node="n2"))
    assert watch.copies == 2
    newest = watch.pod_of(1)
    assert newest is not None
    assert newest.name == "b"


def joined(at_s: float, *names: str) -> Line:
    return Line(at_s, {"e": "joined", "world": 2, "where": [{"node": "n", "pod": name} for name in names]})


def step(at_s: float) -> Line:
    return Line(at_s, {"e": "step", "step": 4})


@pytest.mark.parametrize(
    ("met_s", "step_s", "copies"),
    [
        pytest.param(50.0, 51.0, 2, id="it has met the others after it was called gone"),
        pytest.param(0.0, 50.0, 2, id="its training goes on long after another pod has its rank"),
        pytest.param(0.0, 4.0, 1, id="a step that was only read late"),
    ],
)
def test_a_pod_that_the_api_has_lost_is_a_copy_where_its_training_goes_on(
    watch: TrainingWatch, met_s: float, step_s: float, copies: int
) -> None:
    pods(watch, pod("z", 0, RUNNING), pod("a", 1, RUNNING))
    pods(watch, pod("a", 1, RUNNING, "Failed"), pod("b", 1, RUNNING, node="n2"))
    tell(watch, "z", joined(met_s, "z", "a"), step(step_s))
    assert watch.copies == copies


def test_a_training_of_the_new_pod_has_one_copy_of_each_rank(watch: TrainingWatch) -> None:
    pods(watch, pod("z", 0, RUNNING), pod("a", 1, RUNNING))
    pods(watch, pod("a", 1, ended(137), "Failed"), pod("b", 1, RUNNING, node="n2"))
    tell(watch, "z", joined(50.0, "z", "b"), step(51.0))
    assert watch.copies == 1


def test_a_new_pod_of_the_same_name_is_another_pod_and_the_earlier_one_is_gone(watch: TrainingWatch) -> None:
    pods(watch, pod("node-1", 1, RUNNING, uid="first"))
    first = watch.pod_of(1)
    pods(watch, pod("node-1", 1, node="", phase="Pending", uid="second"))
    second = watch.pod_of(1)
    assert first is not None
    assert second is not None
    assert (second.uid, second.running_s, first.gone_s is not None) == ("second", None, True)
    pods(watch, pod("node-1", 1, RUNNING, node="n2", uid="second"))
    assert (second.runs, first.runs, watch.copies) == (True, False, 1)
    # The trainer met with the one on the node that nobody hears, after the API had lost it.
    later = Line(50.0, {"e": "joined", "world": 2, "where": [{"node": "n1", "pod": "node-1"}]})
    tell(watch, "z", later, step(51.0))
    assert watch.copies == 2


def test_a_deleted_pod_is_gone_and_its_namesake_is_not(watch: TrainingWatch) -> None:
    pods(watch, pod("node-1", 1, RUNNING, uid="first"), pod("node-1", 1, RUNNING, uid="second"))
    tell(watch, "pods", WatchEvent("DELETED", {"metadata": {"name": "node-1", "uid": "first"}}))
    assert watch.pods["second"].runs
    tell(watch, "pods", WatchEvent("DELETED", {"metadata": {"name": "node-1"}}))
    assert not watch.pods["second"].runs


def test_a_pod_that_has_to_go_with_the_others_before_it_ran_is_no_trouble() -> None:
    renderer = Renderer("r1", "ns", {}, "nvidia.com/gpu", PodSettings.from_mapping({"image": "i"}))
    refused = {"waiting": {"reason": "ErrImagePull", "message": "manifest unknown"}}
    for owner, deleted, troubled in ((JOB_SET, True, False), (JOB_SET, False, True), (INDEXED_JOB, True, True)):
        job = TrainingJob("killed-1", "checkpoint_x", "training", 2, 2, 20, 30, 900, owner=owner)
        gang = TrainingWatch(ToyCluster({}), renderer, job)
        leaving = pod("a", 1, refused, "Pending")
        leaving["metadata"] |= {"deletionTimestamp": "now"} if deleted else {}
        pods(gang, leaving)
        assert (gang.trouble() is not None) == troubled, (owner.word, deleted)


def test_time_in_the_queue_is_no_part_of_any_other_wait() -> None:
    now = [0.0]
    renderer = Renderer("r1", "ns", {}, "nvidia.com/gpu", PodSettings.from_mapping({"image": "i"}))
    queue = Queue("team-a", 100, KUEUE)
    job = TrainingJob("killed-1", "checkpoint_x", "training", 2, 2, 20, 30, 900, queue=queue)
    queued = TrainingWatch(ToyCluster({}), renderer, job, clock=lambda: now[0])
    queued.admission.begin()
    now[0] = 40
    assert queued.clock_at_work() == 0
    let_in = {"conditions": [{"type": "Admitted", "status": "True", "reason": "R", "message": "m"}]}
    mine = {"metadata": {"ownerReferences": [{"name": "killed-1"}]}, "status": let_in}
    tell(queued, "queue", WatchEvent("MODIFIED", mine))
    now[0] = 50
    assert queued.clock_at_work() == 10
    lost = {"conditions": [{"type": "Evicted", "status": "True", "reason": "Preempted", "message": "for others"}]}
    tell(queued, "queue", WatchEvent("MODIFIED", {**mine, "status": lost}))
    trouble = queued.trouble()
    assert trouble is not None
    assert (trouble.reason, "for others" in trouble.message) == (Reason.NOT_ADMITTED, True)


def test_a_pod_that_exits_0_has_succeeded(watch: TrainingWatch) -> None:
    pods(watch, pod("a", 1, RUNNING), pod("a", 1, ended(0), "Succeeded"))
    assert watch.pods["a"].succeeded


def test_a_pod_whose_object_vanishes_is_gone(watch: TrainingWatch) -> None:
    pods(watch, pod("a", 1, RUNNING))
    tell(watch, "pods", WatchEvent("DELETED", {"metadata": {"name": "a"}}))
    assert watch.pods["a"].gone_s is not None


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({"failedIndexes": "1"}, "does not replace the pod of index 1"),
        (
            {"conditions": [{"type": "FailureTarget", "status": "True", "reason": "FailedIndexes", "message": "m"}]},
            "FailedIndexes: m",
        ),
    ],
)
def test_a_job_that_makes_no_more_pods_says_why(watch: TrainingWatch, status: dict[str, Any], said: str) -> None:
    tell(watch, "owner", WatchEvent("MODIFIED", {"metadata": {"name": "killed-1"}, "status": {}}))
    assert watch.given_up == ""
    tell(watch, "owner", WatchEvent("MODIFIED", {"metadata": {"name": "killed-1"}, "status": status}))
    assert said in watch.given_up
    assert said in watch.waiting_for()


def test_what_holds_a_job_up_is_said_while_it_does(watch: TrainingWatch) -> None:
    held = {"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended"}
    tell(watch, "owner", WatchEvent("MODIFIED", {"status": {"conditions": [held]}}))
    assert "JobSuspended: Job suspended" in watch.waiting_for()
    tell(watch, "owner", WatchEvent("MODIFIED", {"status": {"conditions": [{**held, "status": "False"}]}}))
    assert "JobSuspended" not in watch.waiting_for()


def test_a_stream_that_a_kill_cut_is_expected_and_one_with_a_gap_is_not(watch: TrainingWatch) -> None:
    tell(watch, "a", Line(1.0, {"e": "step", "step": 4}), LineStreamError(Reason.NONZERO_EXIT, "cut"))
    assert (watch.broken, len(watch.lines)) == (None, 1)
    tell(watch, "b", LineStreamError(Reason.TRUNCATED_MEASUREMENT, "line 7 follows line 5"))
    assert watch.broken is not None
    assert watch.broken.reason is Reason.TRUNCATED_MEASUREMENT


def test_a_watch_that_fails_for_good_ends_the_waiting(watch: TrainingWatch) -> None:
    tell(watch, "pods", ClusterError(Reason.CLUSTER_UNREACHABLE, "gone"))
    assert watch.broken is not None
    assert watch.broken.reason is Reason.CLUSTER_UNREACHABLE


def test_what_keeps_a_pod_from_running_is_named(watch: TrainingWatch) -> None:
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "manifest unknown"}}
    pods(watch, pod("a", 1, waiting, "Pending"))
    found = watch.trouble()
    assert found is not None
    assert found.reason is Reason.IMAGE_PULL


def test_an_owner_that_makes_all_pods_anew_is_seen_to_go_before_anything_else_is_asked_of_the_folder() -> None:
    renderer = Renderer("r1", "ns", {}, "nvidia.com/gpu", PodSettings.from_mapping({"image": "i"}))
    for owner, waits in ((JOB_SET, True), (INDEXED_JOB, False)):
        cluster = ToyCluster({})
        ticks = iter(range(1000))
        job = TrainingJob("killed-1", "checkpoint_x", "training", 2, 2, 20, 0, 900, owner=owner)
        gang = TrainingWatch(cluster, renderer, job, clock=lambda ticks=ticks: float(next(ticks)))  # type: ignore[misc]
        gang.start()
        pods(gang, pod("a", 1, RUNNING), pod("a", 1, ended(137), "Failed"))
        assert gang._leaving() == waits, "its pods have ended, and it may be making new ones"
        tell(gang, "owner", WatchEvent("DELETED", {"metadata": {"name": "killed-1"}}))
        assert not gang._leaving()
        gang.close()
        assert cluster.deleted == ["killed-1"] * len(owner.makes)
