"""Sweeps: every expected node is visited exactly once, or named with its reason as soon as that is known."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from gpuproof import manifests
from gpuproof.cluster.port import ClusterError
from gpuproof.expectation import Deadlines
from gpuproof.failure import Reason
from gpuproof.jobs import NotVisited, Result, StartedJob, Sweeper, SweepRequest, SweepSummary, Visited
from gpuproof.pod_shape import PodShape
from tests.gpuproof import toy_cluster as toy
from tests.gpuproof.pods import event, message, terminated
from tests.gpuproof.toy_cluster import GPU, ToyCluster

LONG = Deadlines(scheduling_s=30, pulling_s=30, starting_s=30, running_s=30, run_s=300)
SHORT = Deadlines(scheduling_s=0.4, pulling_s=0.4, starting_s=0.4, running_s=0.4, run_s=60)
NAMES = ("n0", "n1", "n2", "n3")


@pytest.fixture(autouse=True)
def _no_program_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    # The toy's pods run nothing; the workload's name is all that is needed.
    monkeypatch.setattr(manifests, "source_files", lambda workload, _folders: {f"{workload}.py": ""})


def renderer(**pod: Any) -> manifests.Renderer:
    settings = manifests.PodSettings.from_mapping({"image": "registry.example/team:1"} | pod)
    return manifests.Renderer("r1", "ns", {"pool": "a"}, GPU, settings)


def sweep(
    cluster: ToyCluster,
    candidates: tuple[str, ...] | None = None,
    *,
    deadlines: Deadlines = LONG,
    gpus: int = 2,
    on_result: Callable[[Result], bool | None] | None = None,
    stop: threading.Event | None = None,
    jobs: list[StartedJob] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[dict[str, Result], SweepSummary]:
    """Run one sweep; each result by node, after a check that none came twice."""
    results: list[Result] = []

    def take(result: Result) -> bool | None:
        results.append(result)
        return on_result(result) if on_result else None

    wanted = tuple(cluster.nodes) if candidates is None else candidates
    sweeper = Sweeper(
        cluster,
        renderer(),
        cluster.inventory(),
        not_ready_grace_s=0.3,
        on_job=jobs.append if jobs is not None else lambda _: None,
        clock=clock,
    )
    request = SweepRequest("probe_check", "probe", {}, wanted, gpus, deadlines)
    summary = sweeper.run(request, take, stop or threading.Event())
    assert max(Counter(result.node for result in results).values(), default=1) == 1
    assert {result.node for result in results} == set(wanted)
    return {result.node: result for result in results}, summary


def reasons(results: Mapping[str, Result]) -> dict[str, Reason]:
    return {name: result.failure.reason for name, result in results.items() if isinstance(result, NotVisited)}


@pytest.mark.parametrize("count", [1, 4, 64, 512])
def test_every_node_is_visited_once_for_the_same_number_of_requests(count: int) -> None:
    cluster = ToyCluster.of(count)
    results, summary = sweep(cluster)
    assert all(isinstance(result, Visited) for result in results.values())
    assert set(cluster.visits.values()) == {1}
    assert summary.requests == 6  # sources, Job, three watches, deletion
    assert cluster.deleted == list(summary.jobs)


@pytest.mark.parametrize("count", [4, 64, 512])
@pytest.mark.parametrize("holes", [1, 2])
def test_black_holes_cost_follow_ups_and_no_node(count: int, holes: int) -> None:
    hollow = [f"n{number * 2}" for number in range(holes)]
    cluster = ToyCluster.of(count, **dict.fromkeys(hollow, toy.refuses))
    jobs: list[StartedJob] = []
    results, summary = sweep(cluster, jobs=jobs)
    assert reasons(results) == dict.fromkeys(hollow, Reason.ADMISSION_REFUSED)
    assert all(cluster.visits[name] == 1 for name in cluster.nodes if name not in hollow)
    assert len(summary.jobs) <= 3
    assert summary.requests <= 15
    assert [job.follow_up for job in jobs] == [False] + [True] * (len(jobs) - 1)
    assert cluster.deleted == list(summary.jobs)


def test_every_node_a_black_hole() -> None:
    cluster = ToyCluster.of(4, **dict.fromkeys(NAMES, toy.refuses))
    results, _ = sweep(cluster)
    assert set(reasons(results).values()) <= {Reason.ADMISSION_REFUSED, Reason.UNVISITED}
    assert Reason.ADMISSION_REFUSED in reasons(results).values()


def test_nodes_outside_the_candidates_are_not_touched() -> None:
    cluster = ToyCluster.of(6)
    sweep(cluster, ("n1", "n4"))
    assert set(cluster.visits) == {"n1", "n4"}


def test_a_missing_node_is_named_and_the_others_measured() -> None:
    cluster = ToyCluster.of(2)
    results, _ = sweep(cluster, ("n0", "n1", "n9"))
    assert reasons(results) == {"n9": Reason.NODE_MISSING}


def test_no_candidates_no_request() -> None:
    cluster = ToyCluster.of(2)
    _, summary = sweep(cluster, ())
    assert summary.requests == 0


def test_obstacles_of_nodes_are_named_before_any_deadline() -> None:
    cluster = ToyCluster.of(4)
    cluster.nodes["n1"] = toy.node("n1", gpus=1)
    cluster.nodes["n2"] = toy.node("n2", spec={"unschedulable": True})
    cluster.nodes["n3"] = toy.node("n3", spec={"taints": [{"key": "broken", "value": "yes", "effect": "NoSchedule"}]})
    started = time.monotonic()
    results, _ = sweep(cluster)
    assert reasons(results) == {
        "n1": Reason.UNSCHEDULABLE,
        "n2": Reason.NODE_CORDONED,
        "n3": Reason.UNSCHEDULABLE,
    }
    assert time.monotonic() - started < 5
    assert set(cluster.visits) == {"n0"}


def test_a_node_that_is_not_ready_beyond_the_grace() -> None:
    cluster = ToyCluster.of(2)
    conditions = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "stopped posting"}]
    cluster.nodes["n1"] = toy.node("n1", status={"allocatable": {GPU: "2"}, "conditions": conditions})
    cluster.behaviours["n1"] = toy.silent
    results, _ = sweep(cluster)
    assert set(reasons(results).values()) <= {Reason.NODE_NOT_READY, Reason.NODE_LOST}
    assert set(reasons(results)) == {"n1"}


def test_a_node_that_stops_answering_while_it_measures() -> None:
    cluster = ToyCluster.of(2, n1=toy.hangs)
    unknown = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "stopped posting"}]

    def freeze(result: Result) -> None:
        if result.node == "n0":
            cluster.change_node("n1", {"status": {"allocatable": {GPU: "2"}, "conditions": unknown}})

    results, _ = sweep(cluster, on_result=freeze)
    assert reasons(results) == {"n1": Reason.NODE_LOST}


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (toy.ends_with(terminated(2, "could not measure")), Reason.NONZERO_EXIT),
        (toy.ends_with(terminated(137, reason="OOMKilled")), Reason.OOM_KILLED),
        (toy.ends_with(terminated(0)), Reason.NO_MEASUREMENT),
        (toy.ends_with(terminated(0, message("n1", "x")[-30:])), Reason.TRUNCATED_MEASUREMENT),
        (toy.ends_with(terminated(0, message("n1", "another pod"))), Reason.FOREIGN_MEASUREMENT),
        (toy.vanishes, Reason.NODE_LOST),
        (toy.refuses, Reason.ADMISSION_REFUSED),
    ],
)
def test_one_bad_node_costs_the_others_nothing(behaviour: toy.Behaviour, reason: Reason) -> None:
    cluster = ToyCluster.of(4, n1=behaviour)
    results, _ = sweep(cluster, NAMES)
    assert reasons(results) == {"n1": reason}


def test_each_phase_has_its_deadline() -> None:
    cluster = ToyCluster.of(3, n0=toy.hangs, n1=toy.silent)
    results, _ = sweep(cluster, deadlines=SHORT)
    assert reasons(results) == {"n0": Reason.DEADLINE_EXCEEDED, "n1": Reason.NEVER_STARTED}


def test_quota_is_named_without_any_pod() -> None:
    cluster = ToyCluster.of(4)
    cluster.refused = "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0"
    started = time.monotonic()
    results, _ = sweep(cluster)
    assert set(reasons(results).values()) == {Reason.QUOTA_EXCEEDED}
    assert time.monotonic() - started < 5
    result = results["n0"]
    assert isinstance(result, NotVisited)
    assert "limited: pods=0" in result.failure.message


def test_pods_refused_by_the_api_server() -> None:
    cluster = ToyCluster.of(2)
    cluster.refused = 'violates PodSecurity "restricted:latest"'
    results, _ = sweep(cluster)
    assert set(reasons(results).values()) == {Reason.FORBIDDEN}


def test_a_service_account_that_comes_late_is_no_refusal() -> None:
    cluster = ToyCluster.of(1)
    cluster.refused = 'error looking up service account ns/default: serviceaccount "default" not found'
    results, _ = sweep(cluster, deadlines=SHORT)
    assert set(reasons(results).values()) == {Reason.FORBIDDEN}  # named at the deadline, not before


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "0/5 nodes are available: 1 node(s) had untolerated taint(s), 4 Insufficient nvidia.com/gpu.",
            Reason.NODE_BUSY,
        ),
        (
            "0/4 nodes are available: 1 Insufficient cpu, 3 node(s) didn't match pod anti-affinity rules.",
            Reason.NODE_BUSY,
        ),
        (
            "0/4 nodes are available: 1 node(s) had a conflict, 3 Insufficient cpu. preemption: 4 Insufficient x.",
            Reason.UNSCHEDULABLE,
        ),
        ("0/4 nodes are available: 4 node(s) didn't match Pod's node affinity/selector.", Reason.UNSCHEDULABLE),
    ],
)
def test_a_node_that_cannot_be_had(said: str, reason: Reason) -> None:
    cluster = ToyCluster.of(4)
    cluster.scheduler_says = said
    cluster._held.add("n2")
    results, _ = sweep(cluster, deadlines=SHORT)
    assert reasons(results) == {"n2": reason}
    result = results["n2"]
    assert isinstance(result, NotVisited)
    assert said in result.failure.message


def test_the_job_itself_is_refused() -> None:
    cluster = ToyCluster.of(2)
    cluster.refuse_jobs = ClusterError(Reason.FORBIDDEN, "jobs is forbidden", 403)
    results, summary = sweep(cluster)
    assert set(reasons(results).values()) == {Reason.FORBIDDEN}
    assert cluster.deleted == list(summary.jobs)


def test_a_watch_that_fails_for_good_ends_the_sweep() -> None:
    cluster = ToyCluster.of(2, n0=toy.hangs, n1=toy.hangs)
    error = ClusterError(Reason.CLUSTER_UNREACHABLE, "no answer")
    timer = threading.Timer(0.2, cluster.break_watch, ("pods", error))
    timer.start()
    results, _ = sweep(cluster)
    timer.join()
    assert set(reasons(results).values()) == {Reason.CLUSTER_UNREACHABLE}


def test_an_interrupt_keeps_what_is_known() -> None:
    cluster = ToyCluster.of(3, n1=toy.hangs)
    stop = threading.Event()
    seen: list[str] = []

    def take(result: Result) -> None:
        seen.append(result.node)
        if len(seen) == 2:
            stop.set()

    results, _ = sweep(cluster, on_result=take, stop=stop)
    assert reasons(results) == {"n1": Reason.INTERRUPTED}
    assert cluster.deleted


def test_an_error_of_the_caller_leaves_no_job_and_no_thread() -> None:
    cluster = ToyCluster.of(2)

    def explode(result: Result) -> None:
        raise RuntimeError("caller")

    with pytest.raises(RuntimeError, match="caller"):
        sweep(cluster, on_result=explode)
    assert cluster.deleted
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("watch-")]


def test_events_name_a_sandbox_that_cannot_be_made() -> None:
    cluster = ToyCluster.of(2, n1=toy.silent)

    def tell(result: Result) -> None:
        stuck = next(body["metadata"]["name"] for body in cluster.created if body["kind"] == "Job")
        for index in range(2):
            text = 'Failed to create pod sandbox: no runtime for "nvidia" is configured'
            cluster.tell_event(event(f"{stuck}-{index}-abcde", "FailedCreatePodSandBox", text))

    results, _ = sweep(cluster, on_result=tell)
    assert reasons(results) == {"n1": Reason.SANDBOX_FAILED}


def test_logs_are_read_for_a_few_that_failed_or_were_asked_for() -> None:
    cluster = ToyCluster.of(8, **{f"n{i}": toy.ends_with(terminated(1)) for i in range(6)})
    _, summary = sweep(cluster)
    assert len(summary.logs) == 3
    cluster = ToyCluster.of(2)
    _, summary = sweep(cluster, on_result=lambda result: result.node == "n0")
    assert list(summary.logs) == ["n0"]
    assert summary.logs["n0"].startswith("log of ")


def test_a_second_sweep_knows_what_the_first_saw() -> None:
    cluster = ToyCluster.of(3, n1=toy.vanishes)
    sweeper = Sweeper(cluster, renderer(), cluster.inventory())
    request = SweepRequest("probe_check", "probe", {}, ("n0", "n1", "n2"), 2, LONG)
    sweeper.run(request, lambda _: None, threading.Event())
    cluster._held.clear()
    seen: list[Result] = []
    second = sweeper.run(request, seen.append, threading.Event())
    assert "n1" not in sweeper.inventory.nodes
    assert reasons({result.node: result for result in seen}) == {"n1": Reason.NODE_MISSING}
    assert second.requests == 5  # the sources are there already


def test_pods_that_are_kept_stay_until_the_sweep_beside_them_has_ended() -> None:
    cluster = ToyCluster.of(2)
    sweeper = Sweeper(cluster, renderer(), cluster.inventory())
    request = SweepRequest("probe_check", "probe", {}, ("n0", "n1"), 1, LONG)
    first = sweeper.run(replace(request, shape=PodShape(gpus=1, kept=True)), lambda _: None, threading.Event())
    assert cluster.deleted == []
    cluster._held.clear()
    seen: list[Result] = []
    second = sweeper.run(replace(request, shape=PodShape(gpus=1, beside=True)), seen.append, threading.Event())
    assert reasons({result.node: result for result in seen}) == {}
    assert sorted(result.node for result in seen) == ["n0", "n1"]
    assert cluster.deleted == [*second.jobs, *first.jobs]
    assert second.requests == 7  # one Job, three watches, a look at the neighbours, two deletes


def test_pods_that_are_kept_go_before_a_sweep_that_is_not_beside_them() -> None:
    cluster = ToyCluster.of(2)
    sweeper = Sweeper(cluster, renderer(), cluster.inventory())
    request = SweepRequest("probe_check", "probe", {}, ("n0", "n1"), 1, LONG)
    first = sweeper.run(replace(request, shape=PodShape(kept=True)), lambda _: None, threading.Event())
    cluster._held.clear()
    second = sweeper.run(request, lambda _: cluster.deleted.append("measured"), threading.Event())
    assert cluster.deleted == [*first.jobs, "measured", "measured", *second.jobs]


def test_an_interrupted_sweep_keeps_nothing() -> None:
    cluster = ToyCluster.of(1, n0=toy.hangs)
    sweeper, stop = Sweeper(cluster, renderer(), cluster.inventory()), threading.Event()
    request = SweepRequest("probe_check", "probe", {}, ("n0",), 1, LONG, shape=PodShape(kept=True))
    timer = later(0.3, stop.set)
    summary = sweeper.run(request, lambda _: None, stop)
    timer.join()
    assert cluster.deleted == list(summary.jobs)


def test_what_was_measured_beside_nobody_does_not_count() -> None:
    cluster = ToyCluster.of(2)
    sweeper = Sweeper(cluster, renderer(), cluster.inventory())
    request = SweepRequest("probe_check", "probe", {}, ("n0", "n1"), 1, LONG)
    sweeper.run(replace(request, shape=PodShape(gpus=1, kept=True)), lambda _: None, threading.Event())
    cluster._held.clear()
    (lost,) = [name for name, pod in cluster._pods.items() if pod["spec"]["nodeName"] == "n1"]
    del cluster._pods[lost]
    seen: list[Result] = []
    sweeper.run(replace(request, shape=PodShape(gpus=1, beside=True)), seen.append, threading.Event())
    assert reasons({result.node: result for result in seen}) == {"n1": Reason.POD_DELETED}
    alone: list[Result] = []
    cluster._held.clear()
    sweeper.run(replace(request, shape=PodShape(gpus=1, beside=True)), alone.append, threading.Event())
    assert set(reasons({result.node: result for result in alone})) == {"n0", "n1"}


class Jumping:
    """A clock that can be set forward, as it seems to a process that was stopped for a while."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


def later(seconds: float, call: Callable[..., None], *arguments: Any) -> threading.Timer:
    timer = threading.Timer(seconds, call, arguments)
    timer.start()
    return timer


def test_time_in_which_the_harness_was_stopped_is_nobodys_delay() -> None:
    cluster, clock = ToyCluster.of(2, n1=toy.hangs), Jumping()
    timers: list[threading.Timer] = []

    def stopped(result: Result) -> None:
        if result.node == "n0":
            clock.ahead += 25.0  # of the 30 s that n1 may run
            timers.append(later(0.5, cluster.finish, "n1"))
            clock.ahead += 25.0

    results, summary = sweep(cluster, on_result=stopped, clock=clock)
    for timer in timers:
        timer.join()
    assert reasons(results) == {}
    assert cluster.lists == 0
    assert summary.requests == 6


def test_what_has_arrived_is_read_before_time_condemns() -> None:
    cluster = ToyCluster.of(2, n1=toy.hangs)

    def slow(result: Result) -> None:
        if result.node == "n0":
            cluster.finish("n1")
            late = time.monotonic() + 0.9
            threading.Event().wait(late - time.monotonic())  # longer than n1 may run, and no stall yet

    results, _ = sweep(cluster, deadlines=SHORT, on_result=slow)
    assert reasons(results) == {}
    assert cluster.lists == 0


def test_time_in_which_a_watch_is_broken_is_nobodys_delay() -> None:
    cluster = ToyCluster.of(2, n1=toy.hangs)
    timers: list[threading.Timer] = []

    def broken(result: Result) -> None:
        if result.node == "n0":
            cluster.be_live(False)
            timers.append(later(1.4, cluster.be_live, True))
            timers.append(later(1.8, cluster.finish, "n1"))

    results, _ = sweep(cluster, deadlines=replace(SHORT, running_s=0.9), on_result=broken)
    for timer in timers:
        timer.join()
    assert reasons(results) == {}


@pytest.mark.parametrize("count", [2, 64])
def test_a_watch_that_says_nothing_blames_no_node(count: int) -> None:
    cluster = ToyCluster.of(count)
    cluster.mute = True
    results, summary = sweep(cluster, deadlines=SHORT)
    assert reasons(results) == {}
    assert summary.requests == 8  # one list, one watch more


def test_a_watch_that_falls_silent_is_opened_anew() -> None:
    cluster = ToyCluster.of(3, n1=toy.hangs, n2=toy.hangs)
    cluster.mute = True

    def heard(result: Result) -> None:
        if result.node == "n0":
            cluster.mute = False
            cluster.finish("n1")

    results, summary = sweep(cluster, deadlines=SHORT, on_result=heard)
    assert reasons(results) == {"n2": Reason.DEADLINE_EXCEEDED}
    assert summary.requests <= 10


@pytest.mark.parametrize("behaviour", [toy.hangs, toy.silent])
def test_a_deadline_says_nothing_while_the_pods_cannot_be_looked_at(behaviour: toy.Behaviour) -> None:
    cluster = ToyCluster.of(2, n0=behaviour, n1=behaviour)
    cluster.refuse_lists = ClusterError(Reason.HARNESS_ERROR, "odd", 418)
    results, _ = sweep(cluster, deadlines=SHORT)
    assert set(reasons(results).values()) == {Reason.CLUSTER_UNREACHABLE}
