"""What became of a group, in numbers and words; and pairs, ladders, parameters and blame as values."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import pytest

from gpuproof.expectation import ClusterExpectation, Rdma
from gpuproof.failure import Reason
from gpuproof.gang_blame import blame_facts, blame_samples, floor_of, group_result, pair_samples
from gpuproof.gang_pairs import ladder, rounds_of_pairs
from gpuproof.gang_params import Params, ParamsError, read_params, refuse_tool
from gpuproof.gang_results import Asked, census_of, measurement, outcome_text, refusal, samples, stuck
from gpuproof.gang_wire import GroupPart
from gpuproof.limits import AtLeast, Bound, Derived, Limit, MinFraction, Reference, Severity
from gpuproof.localisation import (
    Blame,
    Experiment,
    ExperimentResult,
    GroupResult,
    LinkBlame,
    NodeBlame,
    Outcome,
    Stage,
    Symptom,
)
from workloads.collectives import NAMES, bus_factor, busbw_gb_per_s

MIB = 1 << 20
ASKED = Asked({0: "a", 1: "b"}, 2, (("all_reduce", MIB),))


def part(outcome: str = "measured", **changed: Any) -> GroupPart:
    timed = {"collective": "all_reduce", "bytes": MIB, "moved_bytes": MIB, "seconds": [0.001, 0.002, 0.001], "wrong": 0}
    nodes = {"0": {"outcome": outcome}, "1": {"outcome": outcome}}
    given: dict[str, Any] = {"outcome": outcome, "world": 4, "hosts": 2, "results": [timed], "nodes": nodes}
    return GroupPart.model_validate(given | changed)


def rank(stage: str, begun: int = 0, at: tuple[str, int] | None = None) -> dict[str, Any]:
    return {"stage": stage, "begun": begun, "at": at}


@pytest.mark.parametrize(
    ("collective", "ranks", "factor"),
    [
        ("all_reduce", 8, 1.75),
        ("all_gather", 8, 0.875),
        ("reduce_scatter", 8, 0.875),
        ("all_to_all", 8, 0.875),
        ("sendrecv", 8, 1.0),
        ("all_reduce", 2, 1.0),
    ],
)
def test_bus_bandwidth_is_that_of_nccl_tests(collective: str, ranks: int, factor: float) -> None:
    assert bus_factor(collective, ranks) == factor
    assert busbw_gb_per_s(collective, 10**9, 0.5, ranks) == pytest.approx(2 * factor)
    assert math.isinf(busbw_gb_per_s(collective, 10**9, 0.0, ranks))
    assert collective in NAMES


def test_numbers_are_medians_of_the_slowest_rank() -> None:
    found = {sample.metric: sample.value for sample in samples(part(), ASKED)}
    assert found["time"] == pytest.approx(1000)
    assert found["algbw"] == pytest.approx(MIB / 0.001 / 1e9)
    assert found["busbw"] == pytest.approx(1.5 * MIB / 0.001 / 1e9)
    assert found["busbw_average"] == found["busbw"]
    assert found["busbw_spread"] == pytest.approx(0.5)


def test_what_was_not_verified_is_no_number_of_wrong_elements() -> None:
    timed = part().results[0].model_copy(update={"wrong": -1})
    found = {s.metric: s.value for s in samples(part().model_copy(update={"results": (timed,)}), ASKED)}
    assert math.isnan(found["wrong_elements"])


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"world": 2}, Reason.WRONG_WORLD_SIZE),
        ({"world": 0}, Reason.WRONG_WORLD_SIZE),
        ({"hosts": 1}, Reason.WRONG_NODE_COUNT),
        ({"results": []}, Reason.NO_MEASUREMENT),
    ],
)
def test_a_group_of_another_size_is_not_believed(changed: dict[str, Any], reason: Reason) -> None:
    refused = refusal(part(**changed), ASKED)
    assert refused is not None
    assert refused.reason is reason
    assert refusal(part(), ASKED) is None


def test_a_size_without_a_repeat_was_not_measured() -> None:
    timed = part().results[0].model_copy(update={"seconds": ()})
    refused = refusal(part().model_copy(update={"results": (timed,)}), ASKED)
    assert refused is not None
    assert "iterations" in refused.message


def test_a_hang_names_the_rank_that_came_least_far_and_counts_the_others() -> None:
    at = ("all_reduce", MIB)
    far = {"outcome": "hung", "census": {"0": rank("communicator", 2, at), "1": rank("communicator", 2, at)}}
    late = {"outcome": "hung", "census": {"2": rank("communicator", 2, at), "3": rank("communicator", 1, at)}}
    hung = part("hung", world=4, results=[], nodes={"0": far, "1": late})
    assert stuck(hung, ASKED) == ("b",)
    text = outcome_text(hung, ASKED)
    assert text.startswith("hung: b: rank 3 had its communicator and finished no size")
    assert "of 4 ranks 4 had" in text
    assert census_of(hung) == {"had its communicator and finished no size": 4}
    even = part("hung", nodes={"0": far, "1": far})
    assert stuck(even, ASKED) == ()
    assert "no node says more" in outcome_text(even, ASKED)


def test_a_death_names_rank_code_last_words_and_cause() -> None:
    dead = {
        "outcome": "died",
        "dead_rank": 3,
        "exit_code": 1,
        "said": "RuntimeError: x",
        "errors": [{"class": "cuda", "cause": "a GPU refused a call", "line": "x"}],
    }
    died = part("died", nodes={"0": {"outcome": "aborted"}, "1": dead})
    assert stuck(died, ASKED) == ("b",)
    assert "b: rank 3 ended with code 1: RuntimeError: x (a GPU refused a call)" in outcome_text(died, ASKED)
    lost = part("lost", nodes={"0": {"outcome": "lost", "said": "gone"}, "1": {"outcome": "died"}})
    assert stuck(lost, ASKED) == ("a",)
    assert "a: gone" in outcome_text(lost, ASKED)


def test_versions_that_differ_are_told() -> None:
    nodes = {
        "0": {"outcome": "measured", "versions": {"nccl": "2.20"}},
        "1": {"outcome": "measured", "versions": {"nccl": "2.21"}},
    }
    found = measurement(part(nodes=nodes), ASKED, "r1")
    assert found.facts["versions_differ"] == "nccl: 2.20, 2.21"
    assert measurement(part(), ASKED, "r1").facts["versions_differ"] == "none"


@pytest.mark.parametrize("count", [2, 3, 4, 7, 8])
def test_rounds_of_pairs_are_disjoint_and_nobody_meets_twice(count: int) -> None:
    nodes = [f"n{number}" for number in range(count)]
    rounds = rounds_of_pairs(nodes, count)
    met = [frozenset(pair) for pairs in rounds for pair in pairs]
    assert sorted(map(sorted, met)) == sorted(sorted(pair) for pair in combinations(nodes, 2))
    for pairs in rounds:
        named = [node for pair in pairs for node in pair]
        assert len(named) == len(set(named)) >= count - 1
    assert rounds_of_pairs(["one"], 2) == []


def test_the_ladder_doubles_up_to_all_nodes() -> None:
    assert [ladder(count) for count in (1, 2, 3, 4, 12, 16)] == [
        (), (2,), (2, 3), (2, 4), (2, 4, 8, 12), (2, 4, 8, 16),
    ]  # fmt: skip


GOOD: dict[str, Any] = {
    "sizes_bytes": [8, MIB], "warmups": 1, "iterations": 3, "experiment_timeout_s": 60, "stall_timeout_s": 9,
}  # fmt: skip


def test_parameters_have_a_main_size_and_points() -> None:
    params = read_params(GOOD)
    assert params.main == MIB
    assert params.points == (("all_reduce", 8), ("all_reduce", MIB))
    assert params.only("sendrecv", 8).points == (("sendrecv", 8),)
    assert read_params(GOOD | {"main_bytes": 8}).main == 8


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"sizes_bytes": []}, "sizes_bytes"),
        ({"sizes_bytes": [0]}, "sizes_bytes"),
        ({"sizes_bytes": ["8"]}, "sizes_bytes"),
        ({"iterations": 0}, "iterations"),
        ({"warmups": -1}, "warmups"),
        ({"collectives": ["broadcast"]}, "collectives"),
        ({"main_bytes": 16}, "main_bytes"),
        ({"stall_timeout_s": 0}, "stall_timeout_s"),
        ({"what": 1}, "what"),
        ({"tool": "other"}, "tool"),
    ],
)
def test_a_parameter_that_does_not_do_is_named(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(ParamsError, match=named):
        read_params(GOOD | changed)


def test_nccl_tests_run_inside_a_node_only() -> None:
    params = read_params(GOOD | {"tool": "nccl-tests"})
    refuse_tool("alone", params)
    with pytest.raises(ParamsError, match="tool"):
        refuse_tool("whole", params)
    refuse_tool("whole", Params.model_validate(GOOD))


CLUSTER = ClusterExpectation("P", 8, 4, "nvidia.com/gpu", "cuda", rdma=Rdma("rdma/ib", 8, 400, "InfiniBand"))


def limit(bound: Bound, severity: Severity = Severity.FAIL, **at: str | int) -> Limit:
    return Limit("x", "c", bound, severity, Derived("f"), metric="busbw", unit="GB/s", at=at)


def test_the_floor_is_the_highest_decisive_one_at_the_point() -> None:
    at: dict[str, str | int] = {"collective": "all_reduce", "bytes": MIB}
    limits = [
        limit(AtLeast(100), bytes=MIB),
        limit(MinFraction(0.75, Reference.RING_CEILING), collective="all_reduce"),
        limit(AtLeast(350), Severity.WARN, bytes=MIB),
        limit(AtLeast(390), bytes=8),
        limit(MinFraction(0.9, Reference.FLEET_MEDIAN)),
    ]
    assert floor_of(limits, CLUSTER, at) == 300
    assert floor_of(limits[3:], CLUSTER, at) is None


def test_a_group_in_the_planners_words() -> None:
    found = group_result(part(), ASKED, "all_reduce", MIB)
    assert (found.nodes, found.outcome, len(found.busbw_gb_per_s)) == (("a", "b"), Outcome.MEASURED, 3)
    wrong = part().results[0].model_copy(update={"wrong": 2})
    assert group_result(part().model_copy(update={"results": (wrong,)}), ASKED, "all_reduce", MIB).outcome == "wrong"
    dead = part("died", nodes={"0": {"outcome": "died"}, "1": {"outcome": "aborted"}})
    assert group_result(dead, ASKED, "all_reduce", MIB) == GroupResult(("a", "b"), Outcome.DIED, stuck=("a",))
    assert group_result(part("broken"), ASKED, "all_reduce", MIB).outcome is Outcome.DIED


def test_a_blame_has_both_numbers_and_pairs_their_lowest() -> None:
    node = NodeBlame("a", Symptom.SLOW, ("b", "c"), 1.25)
    link = LinkBlame(("b", "c"), Symptom.HUNG, None, intermittent=True)
    blame = Blame(True, (node,), (link,), whole_gb_per_s=2.0, without_gb_per_s=40.0, stands=True, rounds=4)
    facts = blame_facts(blame, {"a": "its port mlx5_0:1 is 1: DOWN"})
    assert facts["blame"] == [
        "a: slow with b, c (1.25 GB/s); its port mlx5_0:1 is 1: DOWN",
        "the link b - c: hung, now and then, both are good with others",
        "with all nodes 2 GB/s, without the blamed 40 GB/s: the blame stands",
    ]
    numbers = {sample.metric: sample.value for sample in blame_samples(blame)}
    assert numbers == {
        "blamed_nodes": 1, "blamed_links": 1, "localisation_rounds": 4, "whole_busbw": 2.0, "without_busbw": 40.0,
    }  # fmt: skip
    pairs = Experiment(Stage.PAIRS, (("b", "a"),), "x")
    results = [ExperimentResult(pairs, (GroupResult(("b", "a"), busbw_gb_per_s=rates),)) for rates in ((3.0,), (1.0,))]
    (sample,) = pair_samples(results)
    assert (sample.metric, sample.value, dict(sample.at)) == ("pair_busbw", 1.0, {"from": "a", "to": "b"})


def test_nobody_is_blamed_only_where_nothing_was_missed() -> None:
    assert blame_facts(Blame(False), {})["blame"] == ["nobody"]
    unexplained = blame_facts(Blame(True, unexplained="pairs are all good"), {})
    assert unexplained["blame"] == ["unexplained: pairs are all good"]
