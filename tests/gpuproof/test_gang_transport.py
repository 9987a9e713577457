"""The three witnesses of a node's traffic, as numbers and facts."""

from __future__ import annotations

from typing import Any

from gpuproof.failure import JobFailure, Reason
from gpuproof.gang_params import Params
from gpuproof.gang_results import Asked
from gpuproof.gang_transport import expected_bytes, witnesses
from gpuproof.gang_wire import GroupPart
from gpuproof.suite import Answer
from workloads.contract import Measurement

SIZE = 1 << 20
PARAMS = Params(sizes_bytes=[SIZE], warmups=1, iterations=8, experiment_timeout_s=1.0, stall_timeout_s=1.0)
WANTED = 10 * SIZE


def group(partner: str, sent: int, **changed: Any) -> tuple[GroupPart, Asked]:
    timed = {"collective": "all_reduce", "bytes": SIZE, "moved_bytes": SIZE, "seconds": [0.1], "wrong": 0}
    ports = {"ports": 2, "active": 2, "sent_bytes": sent, "received_bytes": sent}
    mine: dict[str, Any] = {"outcome": "measured", "rdma": ports, "interfaces": ["net1", "net2"]}
    nodes = {"0": mine | changed, "1": {"outcome": "measured"}}
    given = {"outcome": "measured", "world": 4, "hosts": 2, "results": [timed], "nodes": nodes}
    return GroupPart.model_validate(given), Asked({0: "a", 1: partner}, 2, PARAMS.points)


def numbers(answer: Answer) -> dict[str, float]:
    assert isinstance(answer, Measurement), answer
    return {sample.metric: sample.value for sample in answer.samples}


def test_a_node_is_judged_by_its_best_pair() -> None:
    assert expected_bytes(PARAMS) == WANTED
    answer = witnesses("a", [group("b", 0), group("c", WANTED)], None, PARAMS, "r1", "2")
    found = numbers(answer)
    assert (found["rdma_sent_share"], found["rdma_received_share"]) == (1.0, 1.0)
    assert (found["rdma_granted"], found["rdma_ports_active"]) == (2, 2)
    assert isinstance(answer, Measurement)
    assert answer.facts["partner"] == "c"
    assert not [name for name in [*found, *answer.facts] if name.startswith("nccl")]


def test_a_pod_without_the_resource_has_none_granted() -> None:
    assert numbers(witnesses("a", [group("b", WANTED)], None, PARAMS, "r1", ""))["rdma_granted"] == 0


def test_the_log_is_told_by_rank_and_direction() -> None:
    ways = {"send NET/IB/GDRDMA": 2, "receive NET/IB": 2, "send NET/Socket": 1}
    log = {"ranks": 2, "networks": ["IB"], "versions": ["2.21.5"], "ranks_by_way": ways}
    answer = witnesses("a", [group("b", WANTED, nccl=log)], None, PARAMS, "r1", "2")
    found = numbers(answer)
    assert found["nccl_ranks_read"] == 2
    assert (found["nccl_ranks_sending_gdr"], found["nccl_ranks_receiving_gdr"]) == (2, 0)
    assert (found["nccl_ranks_sending_socket"], found["nccl_ranks_receiving_socket"]) == (1, 0)
    assert isinstance(answer, Measurement)
    assert answer.facts["nccl_network"] == ["IB"]
    assert answer.facts["nccl_errors"] == ["none"]


def test_a_node_that_measured_with_nobody_says_why() -> None:
    part, asked = group("b", WANTED)
    hung = part.model_copy(update={"outcome": "hung"})
    answer = witnesses("a", [(hung, asked)], None, PARAMS, "r1", "2")
    assert isinstance(answer, Measurement)
    assert str(answer.facts["outcome"]).startswith("hung")
    lost = JobFailure(Reason.NODE_LOST, "gone")
    assert witnesses("a", [(hung, asked)], lost, PARAMS, "r1", "2") is lost
    small = part.model_copy(update={"world": 2})
    told = witnesses("a", [(small, asked)], None, PARAMS, "r1", "2")
    assert isinstance(told, JobFailure)
    assert told.reason is Reason.WRONG_WORLD_SIZE
