"""Ways in which existing suites said "pass" without having measured anything, replayed on the simulated profile."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from gpuproof.catalogue import load_checks, subjects_asked
from gpuproof.decision import Decision, DecisionOutcome, PlannedSubject, ScopeResult, VerdictLine, judge_scope
from gpuproof.failure import JobFailure, Reason
from gpuproof.fleet import seen_values
from gpuproof.profile import find_profile, load_profile
from gpuproof.verdict import Context, Judgement, Verdict, blocked, judge, judge_failure
from tests.gpuproof.judging import TODAY, decided
from workloads.contract import Fact, Measurement, Sample

CHECKS = ("gpu_inventory", "cuda_runtime")
ASKS = subjects_asked(load_checks())
PROFILE = load_profile(find_profile("simulated"), known_checks=ASKS, today=TODAY)
NODES = ("gpu-01", "gpu-02", "gpu-03", "gpu-04")
DRIVER = str(PROFILE.cluster.gpu_driver)
ACCEPTED, REJECTED, UNDECIDED = DecisionOutcome.ACCEPTED, DecisionOutcome.REJECTED, DecisionOutcome.UNDECIDED


def reported(workload: str, node: str, samples: tuple[Sample, ...], facts: Mapping[str, Fact]) -> Measurement:
    return Measurement(workload, "run", node, "pod", 1, 1, samples, facts)


def inventory(node: str) -> Measurement:
    """What a sound node reports about its GPUs."""
    counts = ("gpus_capacity", "gpus_allocatable", "gpus_visible", "gpus_pci", "gpus_nvml")
    samples = tuple(Sample(name, 2.0, "count") for name in counts)
    facts: dict[str, Fact] = {
        "gpu_product": "SIMULATED-GPU",
        "pod_gpu_product": ["SIMULATED-GPU"] * 2,
        "gpu_driver": DRIVER,
        "pod_gpu_driver": [DRIVER] * 2,
        "pod_gpu_uuid": [f"GPU-{node}-0", f"GPU-{node}-1"],
        "gpu_uuids_unique": True,
        "nvidia_smi_error": "none",
        "nvidia_smi_unreadable": ["none"],
        "nvml_error": "none",
        "gpu_offers": "nvidia.com/gpu=2",
        "gpu_sharing": "none",
        "pod_mig_profile": ["none"],
        "kernel_version": "6.8.0",
        "os_image": str(PROFILE.cluster.os_image),
        "container_runtime": str(PROFILE.cluster.container_runtime),
        "kubelet_version": str(PROFILE.cluster.kubelet_version),
        "taints": str(PROFILE.cluster.taints),
        "label:nvidia.com/gpu-driver-upgrade-state": "upgrade-done",
        "driver_version": DRIVER,
        "cuda_of_image": "13.0.2",
        "cuda_major_of_image": "13",
        "nccl_of_image": "2.27.5",
        "gpu_firmware": ["96.00"] * 2,
        "adapter_firmware": ["none"],
    }
    return reported("gpu_inventory", node, samples, facts)


def runtime(node: str) -> Measurement:
    """What a sound node reports about computing on its GPUs."""
    per_gpu = [
        sample
        for gpu in (0, 1)
        for sample in (
            Sample("stream_wrong_bytes", 0.0, "B", {"gpu": gpu}),
            Sample("memory_wrong_words", 0.0, "count", {"gpu": gpu}),
            Sample("memory_read_back_wrong_words", 0.0, "count", {"gpu": gpu}),
            Sample("memory_tested_fraction", 0.01, "1", {"gpu": gpu}),
            Sample("peers_reachable", 1.0, "count", {"gpu": gpu}),
            Sample("peer_wrong_bytes", 0.0, "B", {"gpu": gpu}),
            *(
                Sample("gemm_max_relative_error", 1e-6, "1", {"gpu": gpu, "dtype": dtype, "n": 256})
                for dtype in ("float32", "tf32", "bf16", "fp8")
            ),
        )
    ]
    samples = (*per_gpu, Sample("gpus_cuda", 2.0, "count"), Sample("gpus_usable", 2.0, "count"))
    return reported("cuda_runtime", node, samples, {"cuda_error": ["none"], "fabric_state": ["completed"] * 2})


def pool(count: float) -> Measurement:
    return reported("gpu_inventory", "", (Sample("nodes", count, "count"),), {})


Answers = dict[tuple[str, str], Judgement]


def clean() -> Answers:
    """The judgements of a sound cluster."""
    answers = {("gpu_inventory", "cluster"): judged("gpu_inventory", "cluster", pool(4))}
    for node in NODES:
        answers["gpu_inventory", node] = judged("gpu_inventory", node, inventory(node))
        answers["cuda_runtime", node] = judged("cuda_runtime", node, runtime(node))
    return answers


def judged(check: str, subject: str, measurement: Measurement) -> Judgement:
    """Judge one subject beside three sound nodes."""
    limits = PROFILE.limits_for(check)
    fleet = {**{node: [inventory(node)] for node in NODES}, subject: [measurement]}
    return judge(
        check, subject, measurement, limits, Context(PROFILE.cluster, seen=seen_values(limits, fleet, len(NODES)))
    )


def outcome(answers: Answers) -> Decision:
    planned = [PlannedSubject("gpu_inventory", "cluster", required=True)]
    planned += [PlannedSubject(check, node, required=True) for check in CHECKS for node in NODES]
    lines = [VerdictLine.of(check, subject, judgement) for (check, subject), judgement in answers.items()]
    visited = {node: TODAY for check, node in answers if node in NODES}
    scope = judge_scope(PROFILE.scope, expected_nodes=PROFILE.cluster.nodes, visited=visited, today=TODAY)
    return decided(planned, lines, scope=scope, waivers=PROFILE.waivers, blocking=PROFILE.blocking_provenance(TODAY))


def without(measurement: Measurement, metric: str) -> Measurement:
    return replace(measurement, samples=tuple(s for s in measurement.samples if s.metric != metric))


def with_value(measurement: Measurement, metric: str, value: float, gpu: int | None = None) -> Measurement:
    return replace(
        measurement,
        samples=tuple(
            replace(s, value=value) if s.metric == metric and s.at.get("gpu") == gpu else s for s in measurement.samples
        ),
    )


def with_fact(measurement: Measurement, name: str, fact: Fact) -> Measurement:
    return replace(measurement, facts={**measurement.facts, name: fact})


def test_the_sound_cluster_is_accepted_or_all_of_this_would_prove_nothing() -> None:
    got = outcome(clean())
    assert (got.outcome, got.counts[Verdict.PASS]) == (ACCEPTED, 9)


Change = Callable[[Measurement], Measurement]

INVENTORY: dict[str, tuple[Change, Verdict]] = {
    "capacity and allocatable agree on one GPU of two": (
        lambda m: with_value(with_value(m, "gpus_capacity", 1), "gpus_allocatable", 1),
        Verdict.FAIL,
    ),
    "none allocatable": (lambda m: with_value(m, "gpus_allocatable", 0), Verdict.FAIL),
    "pod sees fewer than it asked for": (lambda m: with_value(m, "gpus_visible", 1), Verdict.FAIL),
    "pod sees more than it asked for": (lambda m: with_value(m, "gpus_visible", 3), Verdict.FAIL),
    "another product by its label": (lambda m: with_fact(m, "gpu_product", "SIMULATED-GPU-SHARED"), Verdict.FAIL),
    "another driver in the pod": (lambda m: with_fact(m, "pod_gpu_driver", [DRIVER, "535.1"]), Verdict.FAIL),
    "one GPU listed twice": (lambda m: with_fact(m, "gpu_uuids_unique", False), Verdict.FAIL),
    "one machine under two node names": (
        lambda m: with_fact(m, "pod_gpu_uuid", inventory("gpu-01").facts["pod_gpu_uuid"]),
        Verdict.FAIL,
    ),
    "a GPU without a UUID": (lambda m: with_fact(m, "pod_gpu_uuid", ["GPU-x"]), Verdict.ERROR),
    "nvidia-smi with a lone error line": (lambda m: with_fact(m, "nvidia_smi_error", "GPU is lost"), Verdict.FAIL),
    "no product label": (
        lambda m: replace(m, facts={k: v for k, v in m.facts.items() if k != "gpu_product"}),
        Verdict.ERROR,
    ),
    "the pod listed no GPU": (lambda m: with_fact(m, "pod_gpu_product", []), Verdict.ERROR),
    "the pod listed one GPU of two": (lambda m: with_fact(m, "pod_gpu_product", ["SIMULATED-GPU"]), Verdict.ERROR),
    "a count is missing": (lambda m: without(m, "gpus_visible"), Verdict.ERROR),
    "a count is not a number": (lambda m: with_value(m, "gpus_visible", math.nan), Verdict.FAIL),
}

RUNTIME: dict[str, tuple[Change, Verdict]] = {
    "a listed GPU does not compute": (
        lambda m: with_fact(with_value(m, "gpus_usable", 1), "cuda_error", ["gpu 1: 802"]),
        Verdict.FAIL,
    ),
    "a GPU computes wrongly": (lambda m: with_value(m, "gemm_max_relative_error", 3.1e-5, gpu=1), Verdict.FAIL),
    "a GPU computes nothing": (lambda m: with_value(m, "gemm_max_relative_error", 1.0, gpu=1), Verdict.FAIL),
    "a GPU computes what is not a number": (
        lambda m: with_value(m, "gemm_max_relative_error", math.nan, gpu=0),
        Verdict.FAIL,
    ),
    "one word is wrong": (lambda m: with_value(m, "memory_wrong_words", 1, gpu=0), Verdict.FAIL),
    "no memory was tested": (lambda m: with_value(m, "memory_tested_fraction", 0, gpu=0), Verdict.FAIL),
    "a GPU that does not exist stands for one": (
        lambda m: replace(
            m, samples=tuple(replace(s, at={**s.at, "gpu": "x"}) if s.at.get("gpu") == 1 else s for s in m.samples)
        ),
        Verdict.ERROR,
    ),
    "one GPU is not in the record": (
        lambda m: replace(m, samples=tuple(s for s in m.samples if s.at.get("gpu") != 1)),
        Verdict.ERROR,
    ),
    "the product is of another size": (
        lambda m: replace(m, samples=tuple(replace(s, at={**s.at, "n": 64}) if "n" in s.at else s for s in m.samples)),
        Verdict.ERROR,
    ),
    "the record is empty": (lambda m: replace(m, samples=(), facts={}), Verdict.ERROR),
}


@pytest.mark.parametrize(("change", "verdict"), INVENTORY.values(), ids=INVENTORY)
def test_an_inventory_that_is_not_right_is_not_accepted(change: Change, verdict: Verdict) -> None:
    answers = clean()
    answers["gpu_inventory", "gpu-03"] = judged("gpu_inventory", "gpu-03", change(inventory("gpu-03")))
    assert answers["gpu_inventory", "gpu-03"].verdict is verdict
    got = outcome(answers)
    assert got.outcome is (REJECTED if verdict is Verdict.FAIL else UNDECIDED)
    assert "gpu_inventory is" in got.reasons[0]
    assert "gpu-03" in got.reasons[0]


@pytest.mark.parametrize(("change", "verdict"), RUNTIME.values(), ids=RUNTIME)
def test_a_computation_that_is_not_right_is_not_accepted(change: Change, verdict: Verdict) -> None:
    answers = clean()
    answers["cuda_runtime", "gpu-02"] = judged("cuda_runtime", "gpu-02", change(runtime("gpu-02")))
    assert answers["cuda_runtime", "gpu-02"].verdict is verdict
    assert outcome(answers).outcome is (REJECTED if verdict is Verdict.FAIL else UNDECIDED)


@pytest.mark.parametrize("found", [0, 3, 5])
def test_fewer_or_more_nodes_than_bought_is_rejected(found: int) -> None:
    answers = clean()
    answers["gpu_inventory", "cluster"] = judged("gpu_inventory", "cluster", pool(found))
    assert outcome(answers).outcome is REJECTED


def test_a_cluster_without_nodes_is_rejected() -> None:
    """Checks that loop over the nodes found pass on none of them."""
    missing = judge_failure(JobFailure(Reason.NODE_MISSING, "the pool has 0 nodes, expected 4"))
    answers = {("gpu_inventory", node): missing for node in NODES}
    answers["gpu_inventory", "cluster"] = judged("gpu_inventory", "cluster", pool(0))
    assert outcome(answers).outcome is REJECTED


def test_a_run_that_measured_nothing_is_undecided() -> None:
    got = outcome({})
    assert got.outcome is UNDECIDED
    assert got.counts == {**dict.fromkeys(Verdict, 0), Verdict.NOT_RUN: 9}


@pytest.mark.parametrize("reason", Reason)
def test_a_node_whose_pod_ended_badly_is_not_left_out_of_the_count(reason: Reason) -> None:
    answers = clean()
    answers["cuda_runtime", "gpu-02"] = judge_failure(JobFailure(reason, "it ended"))
    got = outcome(answers)
    assert got.outcome is (REJECTED if answers["cuda_runtime", "gpu-02"].verdict is Verdict.FAIL else UNDECIDED)
    assert got.counts[Verdict.PASS] == 8


def test_every_pod_refused_is_rejected() -> None:
    answers = clean()
    refused = judge_failure(JobFailure(Reason.ADMISSION_REFUSED, "UnexpectedAdmissionError"))
    answers |= {("cuda_runtime", node): refused for node in NODES}
    got = outcome(answers)
    assert got.outcome is REJECTED
    assert len(got.reasons) == 1


@pytest.mark.parametrize("verdict", [Verdict.NOT_APPLICABLE, Verdict.NOT_RUN, Verdict.RECORDED, Verdict.ERROR])
def test_a_skip_is_never_green(verdict: Verdict) -> None:
    answers = clean()
    answers["cuda_runtime", "gpu-02"] = Judgement(verdict)
    assert outcome(answers).outcome is UNDECIDED


def test_a_blocked_check_is_not_a_passed_one() -> None:
    answers = clean()
    answers["cuda_runtime", "gpu-02"] = blocked("gpu_inventory", Verdict.ERROR)
    got = outcome(answers)
    assert got.outcome is UNDECIDED
    assert "it needs gpu_inventory, which is ERROR here" in got.reasons[0]


def test_all_passed_on_fewer_nodes_than_promised_is_undecided() -> None:
    answers = {key: judgement for key, judgement in clean().items() if key[1] != "gpu-04"}
    got = outcome(answers)
    assert got.outcome is UNDECIDED
    assert any("3 of them answered" in reason for reason in got.reasons)


def test_passing_nodes_of_another_pool_do_not_fill_the_gap() -> None:
    answers = {(check, subject.replace("04", "99")): judgement for (check, subject), judgement in clean().items()}
    assert outcome(answers).outcome is UNDECIDED


def test_there_is_no_tolerance_below_the_number_in_the_file() -> None:
    limit = next(item for item in PROFILE.limits if item.name == "gemm_max_relative_error")
    value = getattr(limit.bound, "value", math.nan)
    good = with_value(runtime("gpu-01"), "gemm_max_relative_error", value, gpu=0)
    bad = with_value(runtime("gpu-01"), "gemm_max_relative_error", math.nextafter(value, 1), gpu=0)
    assert judged("cuda_runtime", "gpu-01", good).verdict is Verdict.PASS
    assert judged("cuda_runtime", "gpu-01", bad).verdict is Verdict.FAIL


def test_a_scope_nobody_covered_is_undecided_although_all_verdicts_pass() -> None:
    lines = [VerdictLine.of(check, subject, judgement) for (check, subject), judgement in clean().items()]
    planned = [PlannedSubject(item.check, item.subject, required=True) for item in lines]
    assert decided(planned, lines).outcome is ACCEPTED
    assert decided(planned, lines, scope=ScopeResult("16 nodes", complete=False)).outcome is UNDECIDED
