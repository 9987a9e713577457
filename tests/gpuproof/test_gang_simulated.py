"""A gang of eight nodes on the simulated cluster, assembled once: what befalls it is named, with the counterfactual.

Each defect strikes when a pod with its name as label starts, and is healed by another: no new gang, no new import of
torch. What the checks make of it is told by the faults of `simcluster/faults`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpuproof.cluster.port import JOBS, PODS
from gpuproof.expectation import Rdma
from gpuproof.failure import JobFailure
from gpuproof.gang_params import Params
from gpuproof.gang_session import GangRequest, GangSession, Order
from gpuproof.gang_suite import CLUSTER, GangSuite, SuiteRequest
from gpuproof.line_stream import LineStream
from gpuproof.localisation import Floor, Floors
from gpuproof.manifests import MEASURE, ORDER_ANNOTATION, PodSettings, Renderer
from gpuproof.suite import Answer
from gpuproof.visits import SweepRequest
from tests.simulated import GPU, PATIENT, POOL, Simulated, simulated
from workloads.contract import Measurement
from workloads.gang_wire import sign_order

SIZE = 2_097_152
LIMIT_MBIT = 100
FLOOR_GB_PER_S = 0.015
"""120 Mbit/s, that of the simulated profile. A link that is left 100 gives 0.0125 at most; sixteen ranks on two cores
gave 0.027 with a load of 16 beside them, a pair of nodes 0.06."""

NODES = tuple(f"gpu-{number:02d}" for number in range(1, 9))
BAD = "gpu-03"
STRIKES: dict[str, list[dict[str, object]]] = {
    "slow-node": [{"do": "limit-link", "node": BAD, "network": "rdma", "mbit": LIMIT_MBIT}],
    "two-slow-nodes": [
        {"do": "limit-link", "node": BAD, "network": "rdma", "mbit": LIMIT_MBIT},
        {"do": "limit-link", "node": "gpu-06", "network": "rdma", "mbit": LIMIT_MBIT},
    ],
    "slow-pair": [{"do": "limit-pair", "node": BAD, "other": "gpu-04", "mbit": LIMIT_MBIT}],
    "dies": [{"do": "break-gpu", "node": BAD, "gpu": 1, "compute_error": 719}],
    "hangs": [{"do": "break-gpu", "node": BAD, "gpu": 1, "hangs": True}],
    "heal": [
        {"do": "limit-link", "node": BAD, "network": "rdma", "mbit": 2500},
        {"do": "limit-link", "node": "gpu-04", "network": "rdma", "mbit": 2500},
        {"do": "limit-link", "node": "gpu-06", "network": "rdma", "mbit": 2500},
        {"do": "break-gpu", "node": BAD},
    ],
}


def fault_file(folder: Path, name: str, label: str) -> str:
    lines = [f'id = "{label}"', f'title = "{name}"', 'mechanism = "test"', 'source = "test"']
    lines.append(f'at = {{ event = "measuring", node = "gpu-01", labels = {{ strike = "{label}" }} }}')
    for action in STRIKES[name]:
        lines.append("[[action]]")
        lines += [f"{key} = {toml(value)}" for key, value in action.items()]
    lines += ["[[expects]]", 'check = "x"', 'subject = "cluster"', 'verdict = "FAIL"']
    path = folder / f"{label}.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool | int) else f'"{value}"'


@dataclass
class Bench:
    """The gang and what strikes it."""

    sim: Simulated
    session: GangSession
    struck: list[str] = field(default_factory=list)

    def strike(self, label: str) -> None:
        """Start the pod that the fault waits for, and wait until it runs: the fault has struck by then."""
        container = {"name": "measure", "image": "simcluster.local/python:3", "command": ["sleep", "1000"]}
        spec = {"nodeName": "gpu-01", "containers": [container], "tolerations": [{"operator": "Exists"}]}
        metadata = {"name": f"strike-{label}", "labels": {"strike": label}}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        namespace = self.sim.renderer.namespace
        self.sim.cluster.create(PODS, pod, namespace=namespace)
        watch = self.sim.cluster.watch(PODS, namespace=namespace, field_selector=f"metadata.name=strike-{label}")
        next(event for event in watch if event.object.get("status", {}).get("phase") == "Running")
        watch.close()

    def measure(
        self, *stages: str, nodes: tuple[str, ...] = NODES, stall_timeout_s: float = 40.0
    ) -> dict[tuple[str, str], Answer]:
        """These stages, whole and localisation by default, and every answer."""
        said: dict[tuple[str, str], Answer] = {}
        patient = PARAMS.model_copy(update={"stall_timeout_s": stall_timeout_s})
        params = dict.fromkeys(stages or ("whole", "localisation"), patient)
        floor = Floor(FLOOR_GB_PER_S)
        request = SuiteRequest(params, "r1", "cpu", 2, 0.625, "rdma/ib", Floors(floor, floor))

        def publish(stage: str, subject: str, answer: Answer) -> None:
            said[stage, subject] = answer

        # By name, so that the bad pair are neighbours: rings send between neighbours only.
        suite = GangSuite(self.session, request, nodes, publish)
        if "alone" in stages:
            suite.alone(nodes)
        suite.measure()
        return said


PARAMS = Params(
    sizes_bytes=[SIZE], warmups=0, iterations=3, experiment_timeout_s=60.0, stall_timeout_s=40.0, p2p_off=True
)


@contextmanager
def a_gang(folder: Path) -> Iterator[Bench]:
    """All faults in wait, and the gang assembled."""
    files = [fault_file(folder, name, name) for name in STRIKES if name != "heal"]
    files += [fault_file(folder, "heal", f"heal-{name}") for name in STRIKES if name != "heal"]
    with simulated("eight", *files, image="simcluster.local/torch:2") as sim:
        pod, rdma = PodSettings("simcluster.local/torch:2"), Rdma("rdma/ib", 2, 2.5, "InfiniBand")
        renderer = Renderer("r1", sim.renderer.namespace, POOL, GPU, pod, rdma=rdma)
        request = GangRequest(SweepRequest("network", "gang_agent", {}, NODES, 2, PATIENT), 120.0)
        session = GangSession(sim.cluster, renderer, sim.sweeper.inventory, request, threading.Event())
        try:
            assembly = session.assemble()
            assert assembly.whole, assembly.missing
            yield Bench(sim, session)
        finally:
            session.close()


def facts(answer: Answer) -> Mapping[str, Any]:
    assert isinstance(answer, Measurement), answer
    return answer.facts


def numbers(answer: Answer, metric: str) -> list[float]:
    assert isinstance(answer, Measurement), answer
    return [sample.value for sample in answer.samples if sample.metric == metric]


def holds_with_and_without(answer: Answer) -> None:
    """The counterfactual: below the floor with the blamed, above it without."""
    assert facts(answer)["counterfactual"].endswith("the blame stands"), facts(answer)
    (without,) = numbers(answer, "without_busbw")
    assert without >= FLOOR_GB_PER_S
    whole = numbers(answer, "whole_busbw")
    assert not whole or whole[0] < FLOOR_GB_PER_S


def alone(bench: Bench) -> None:
    said = bench.measure("alone")
    for node in NODES:
        assert numbers(said["alone", node], "wrong_elements") == [0]
        assert numbers(said["alone", node], "busbw")[0] > 0
        assert numbers(said["alone", node], "busbw_p2p_off")[0] > 0


def whole(bench: Bench) -> None:
    before = bench.sim.cluster.counters.requests
    said = bench.measure("whole", "ladder", "transport", "localisation")
    assert facts(said["whole", CLUSTER])["outcome"] == "measured"
    assert facts(said["localisation", CLUSTER])["blame"] == ["nobody"]
    assert facts(said["ladder", CLUSTER])["steps"] == ["2", "4", "8"]
    for node in NODES:
        assert facts(said["transport", node])["interfaces"] == ["net1", "net2"]
        assert numbers(said["transport", node], "rdma_sent_share")[0] >= 1
        assert numbers(said["transport", node], "rdma_granted") == [2]
    # Six experiments are six annotations, and one list of the pods; a stream of lines may have been opened anew.
    assert bench.sim.cluster.counters.requests - before <= 6 + 1 + 2


DEFECTS: list[tuple[str, list[str], list[str]]] = [
    ("slow-node", [f"{BAD}: slow with"], []),
    ("two-slow-nodes", [f"{BAD}: slow with", "gpu-06: slow with"], []),
    ("slow-pair", [f"the link {BAD} - gpu-04: slow"], [f"{BAD}: slow"]),
    ("dies", [f"{BAD}: died"], []),
    ("hangs", [f"{BAD}: hung"], []),
]


def defect(bench: Bench, name: str, named: list[str], others: list[str]) -> None:
    bench.strike(name)
    try:
        # A hang costs its time limit in each experiment, so there are fewer of them and of ranks.
        hangs = name == "hangs"
        said = bench.measure(nodes=NODES[:4] if hangs else NODES, stall_timeout_s=6.0 if hangs else 40.0)
    finally:
        bench.strike(f"heal-{name}")
    blame = said["localisation", CLUSTER]
    words = facts(blame)["blame"]
    assert len(words) == len(named) + 1, words
    for expected in named:
        assert any(word.startswith(expected) for word in words), words
    assert not any(word.startswith(wrong) for word in words for wrong in others), words
    holds_with_and_without(blame)
    if name in ("dies", "hangs"):
        outcome = facts(said["whole", CLUSTER])["outcome"]
        assert outcome.startswith({"dies": "died", "hangs": "hung"}[name]), outcome
        assert f"{BAD}: rank 5" in outcome, outcome


def order() -> Order:
    content = {**PARAMS.order(), "device": "cpu", "env": {}}
    return Order((NODES[:2],), 2, 60.0, content)


def forged_and_old_orders(bench: Bench) -> None:
    session = bench.session
    session.run(order())
    leader = min(NODES, key=session.index)
    pod, namespace = session.pod(leader), bench.sim.renderer.namespace
    old = bench.sim.cluster.get(PODS, pod, namespace=namespace)["metadata"]["annotations"][ORDER_ANNOTATION]
    forged = sign_order(b"x" * 64, {"run": "r1", "epoch": 9, "number": 999, "kind": "finish"})
    before = len(session.refused)
    for text, said in ((forged, "not signed"), (old, "again")):
        bench.sim.cluster.annotate(PODS, pod, {ORDER_ANNOTATION: text}, namespace=namespace)
        lines = LineStream(bench.sim.cluster, namespace, pod, MEASURE)
        next(line for line in lines if said in str(line.get("refused", "")))
        lines.close()
    assert all(part.outcome == "measured" for part in session.run(order()))
    assert [said for said in ("not signed", "again") if any(said in word for word in session.refused[before:])] == [
        "not signed",
        "again",
    ]


def loss_of_index_0(bench: Bench) -> None:
    session, namespace = bench.session, bench.sim.renderer.namespace
    leader = min(NODES, key=session.index)
    bench.sim.cluster.delete(PODS, session.pod(leader), namespace=namespace, grace_s=0)
    blamed = bench.measure("whole", "localisation")
    assert leader in session.lost
    assert leader in facts(blamed["whole", CLUSTER])["outcome"]
    words = facts(blamed["localisation", CLUSTER])["blame"]
    assert words[0].startswith(f"{leader}: died"), words
    assert facts(blamed["localisation", CLUSTER])["counterfactual"].endswith("the blame stands")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_what_befalls_a_gang_is_named_with_the_counterfactual(tmp_path: Path) -> None:
    """One gang for all of it, as in a run: the parts build on each other, and the last takes the leader away."""
    with a_gang(tmp_path) as bench:
        alone(bench)
        whole(bench)
        for name, named, others in DEFECTS:
            defect(bench, name, named, others)
        forged_and_old_orders(bench)
        loss_of_index_0(bench)


def test_a_gang_short_of_a_node_says_who_and_frees_the_others() -> None:
    with simulated("light-4", "gang-node-refused") as sim:
        request = GangRequest(SweepRequest("network", "gang_agent", {}, sim.nodes, 2, PATIENT), 60.0)
        session = GangSession(sim.cluster, sim.renderer, sim.sweeper.inventory, request, threading.Event())
        said: dict[tuple[str, str], Answer] = {}
        params = dict.fromkeys(("whole", "transport"), PARAMS)
        suite = SuiteRequest(params, "r1", "cpu", 2, None, None, None)

        def publish(stage: str, subject: str, answer: Answer) -> None:
            said[stage, subject] = answer

        GangSuite(session, suite, sim.nodes, publish).run()
        whole, refused = said["whole", CLUSTER], said["transport", "gpu-04"]
        assert isinstance(whole, JobFailure)
        assert isinstance(refused, JobFailure)
        assert "3 of 4 nodes came" in whole.message
        assert "gpu-04: " in whole.message
        assert "rdma/ib" in whole.message
        assert whole.reason == refused.reason == "admission_refused"
        left = sim.cluster.list_objects(JOBS, namespace=sim.renderer.namespace).items
        assert all("deletionTimestamp" in job["metadata"] for job in left)
