"""The state of a sweep under any order of events, and under garbage: one result a candidate, never a wrong visit."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuproof.cluster.port import WatchEvent
from gpuproof.expectation import Deadlines
from gpuproof.failure import JobFailure, Reason
from gpuproof.inventory import read_inventory
from gpuproof.measured import Expected
from gpuproof.node_board import NodeBoard
from gpuproof.pod_shape import WHOLE_NODE, PodShape
from gpuproof.sweep import SweepState
from gpuproof.visits import NotVisited, Result, SweepRequest, Visited
from tests.gpuproof import pods, toy_cluster
from tests.gpuproof.pods import event, pod, running, terminated, waiting

CANDIDATES = ("n0", "n1", "n2")
DEADLINES = Deadlines(scheduling_s=10, pulling_s=10, starting_s=10, running_s=10, run_s=100)


def state(shape: PodShape = WHOLE_NODE) -> SweepState:
    nodes = [toy_cluster.node(f"n{number}") for number in range(4)]
    inventory = read_inventory(nodes, gpu_resource=toy_cluster.GPU, resource_version="1")
    board = NodeBoard(inventory, gpu_resource=toy_cluster.GPU, not_ready_grace_s=1, now=0)
    tolerations = [{"key": toy_cluster.GPU, "operator": "Exists"}]
    request = SweepRequest("probe_check", "probe", {}, CANDIDATES, shape.gpus_of(2), DEADLINES, shape=shape)
    return SweepState(request, board, run_id="r1", tolerations=tolerations)


def seen(name: str, node: str | None, **changed: Any) -> WatchEvent:
    return WatchEvent("MODIFIED", pod(name, node=node, **changed))


def done(name: str, node: str) -> WatchEvent:
    return seen(name, node, phase="Running", containers={"measure": terminated(0, pods.message(node, name))})


def test_a_second_visit_never_counts() -> None:
    sweep = state()
    sweep.job_started("j", 3, 0)
    sweep.on_pod(seen("a", "n0", phase="Failed", reason="UnexpectedAdmissionError", message="no"), 1)
    sweep.on_pod(done("b", "n0"), 2)
    (result,) = sweep.drain()
    assert isinstance(result, NotVisited)
    assert result.failure.reason is Reason.ADMISSION_REFUSED
    assert sweep.unreached(3) == ()  # one index has no pod yet
    sweep.on_pod(done("c", "n1"), 3)
    assert sweep.unreached(3) == ("n2",)


def test_a_pod_on_a_node_that_is_no_candidate_counts_for_nothing() -> None:
    sweep = state()
    sweep.job_started("j", 3, 0)
    sweep.on_pod(done("a", "n3"), 1)
    assert sweep.drain() == []


def test_timings_are_seconds_since_the_job() -> None:
    sweep = state()
    sweep.job_started("j", 3, 100)
    sweep.on_pod(seen("a", None), 101)
    sweep.on_pod(seen("a", "n0"), 102)
    sweep.on_pod(seen("a", "n0", phase="Running", containers={"measure": running()}), 104)
    sweep.on_pod(done("a", "n0"), 109)
    (result,) = sweep.drain()
    assert isinstance(result, Visited)
    timings = result.timings
    assert (timings.scheduled_s, timings.started_s, timings.measured_s) == (2, 4, 9)
    assert result.index == 0


def test_a_slow_pull_does_not_use_up_the_time_to_measure() -> None:
    sweep = state()
    sweep.job_started("j", 3, 0)
    up = [pods.condition("PodReadyToStartContainers", "True")]
    sweep.on_pod(seen("a", "n0", conditions=up, containers={"measure": waiting("ContainerCreating")}), 0)
    sweep.tick(9)
    sweep.on_pod(seen("a", "n0", phase="Running", containers={"measure": running()}), 9)
    sweep.tick(18)
    assert "n0" not in {result.node for result in sweep.drain()}
    assert sweep.tick(19)
    assert "n0" not in {result.node for result in sweep.drain()}
    assert not sweep.tick(19, sure=True)
    (result,) = (result for result in sweep.drain() if result.pod == "a")
    assert isinstance(result, NotVisited)
    assert result.failure.reason is Reason.DEADLINE_EXCEEDED


def test_a_pod_that_stays_has_its_time_from_when_it_is_called() -> None:
    sweep = state(PodShape("none", stays=True))
    sweep.job_started("j", 3, 0)
    sweep.on_pod(seen("a", "n0", phase="Running", containers={"measure": running()}), 1)
    sweep.tick(1000, sure=True)
    assert sweep.uncalled == ["a"]
    sweep.called("a", 1000)
    assert sweep.uncalled == []
    sweep.tick(1009, sure=True)
    assert "n0" not in {result.node for result in sweep.drain()}
    sweep.tick(1010, sure=True)
    (result,) = (result for result in sweep.drain() if result.pod == "a")
    assert isinstance(result, NotVisited)
    assert result.failure.reason is Reason.DEADLINE_EXCEEDED


def test_a_quota_that_admits_some_pods_names_the_rest() -> None:
    sweep = state()
    sweep.job_started("j", 3, 0)
    sweep.on_pod(seen("a", "n0", phase="Running", containers={"measure": running()}), 0.1)
    text = 'Error creating: pods "j-1-x" is forbidden: exceeded quota: q'
    sweep.on_event(WatchEvent("ADDED", event("j", "FailedCreate", text, kind="Job")), 0.2)
    sweep.tick(0.3)
    assert sweep.drain() == []
    assert sweep.tick(1.4)
    assert sweep.drain() == []
    sweep.tick(1.4, sure=True)
    assert {result.node for result in sweep.drain()} == {"n1", "n2"}
    sweep.on_pod(done("a", "n0"), 2)
    assert [type(result) for result in sweep.drain()] == [Visited]


STEPS = st.one_of(
    st.builds(done, st.sampled_from("abcd"), st.sampled_from(["n0", "n1", "n2", "n3"])),
    st.builds(seen, st.sampled_from("abcd"), st.sampled_from([None, "n0", "n1", "n2"])),
    st.builds(
        seen,
        st.sampled_from("abcd"),
        st.sampled_from(["n0", "n1", "n2"]),
        phase=st.sampled_from(["Running", "Failed", "Succeeded"]),
        reason=st.sampled_from([None, "Evicted", "OutOfcpu"]),
        containers=st.sampled_from([{}, {"measure": running()}, {"measure": terminated(1)}]),
    ),
    st.builds(lambda name: WatchEvent("DELETED", {"metadata": {"name": name}}), st.sampled_from("abcd")),
    st.builds(
        lambda about, reason: WatchEvent("ADDED", event(about, reason, "forbidden")),
        st.sampled_from(["a", "b", "j"]),
        st.sampled_from(["FailedCreate", "FailedScheduling", "FailedCreatePodSandBox", "Failed"]),
    ),
    st.builds(lambda name: WatchEvent("DELETED", toy_cluster.node(name)), st.sampled_from(["n0", "n3"])),
    st.sampled_from([0.0, 0.5, 20.0]),
)


def run(steps: list[Any]) -> list[Result]:
    sweep, now = state(), 0.0
    sweep.job_started("j", 3, now)
    results: list[Result] = []
    for step in steps:
        if isinstance(step, float):
            now += step
            sweep.tick(now, sure=True)
        elif step.object.get("kind") == "Event":
            sweep.on_event(step, now)
        elif "allocatable" in str(step.object.get("status")):
            sweep.on_node(step, now)
        else:
            sweep.on_pod(step, now)
        results += sweep.drain()
    sweep.give_up(JobFailure(Reason.INTERRUPTED, "over"))
    return results + sweep.drain()


@settings(max_examples=200, deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_one_result_a_candidate_whatever_happens(steps: list[Any]) -> None:
    results = run(steps)
    assert Counter(result.node for result in results) == Counter(CANDIDATES)
    for result in results:
        if isinstance(result, Visited):
            assert (result.measurement.node, result.measurement.pod) == (result.node, result.pod)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["metadata", "name", "status", "conditions", "type", "state"]), inner)
    ),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status", "involvedObject", "count"]), JSON))
def test_garbage_never_crashes(obj: dict[str, Any]) -> None:
    sweep = state()
    sweep.job_started("j", 3, 0)
    for kind in ("ADDED", "DELETED"):
        sweep.on_pod(WatchEvent(kind, {**obj, "metadata": {"name": "a"}}), 1)
        sweep.on_pod(WatchEvent(kind, obj), 1)
        sweep.on_event(WatchEvent(kind, obj), 1)
        sweep.on_node(WatchEvent(kind, obj), 1)
        sweep.on_list([obj], 2)
    sweep.tick(50, sure=True)


def test_what_a_list_shows_counts_and_what_it_lacks_is_gone() -> None:
    sweep = state()
    sweep.job_started("j", 3, 0)
    sweep.on_pod(seen("a", "n0"), 0)
    sweep.on_pod(seen("b", "n1"), 0)
    assert sweep.tick(20)
    assert sweep.on_list([done("a", "n0").object, seen("c", "n2").object], 20)
    assert not sweep.on_list([done("a", "n0").object, seen("c", "n2").object], 20)
    sweep.tick(20, sure=True)
    results = {result.node: result for result in sweep.drain()}
    assert isinstance(results["n0"], Visited)
    assert isinstance(results["n1"], NotVisited)
    assert results["n1"].failure.reason is Reason.POD_DELETED
    assert "n2" not in results  # seen for the first time now: its time begins now


def test_a_pod_that_cannot_be_read_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(text: str, expected: Expected) -> JobFailure:
        if expected.node == "n0":
            raise ZeroDivisionError("whatever it is")
        return JobFailure(Reason.NO_MEASUREMENT, "read")

    monkeypatch.setattr("gpuproof.sweep.read_message", explode)
    sweep = state()
    sweep.job_started("j", 3, 0)
    sweep.on_pod(done("a", "n0"), 1)
    sweep.on_pod(done("b", "n1"), 1)
    reasons = {result.node: result.failure.reason for result in sweep.drain() if isinstance(result, NotVisited)}
    assert reasons == {"n0": Reason.HARNESS_ERROR, "n1": Reason.NO_MEASUREMENT}
