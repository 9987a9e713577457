"""Limits as values: what they are called, whom they speak about, and when their provenance blocks an acceptance."""

import datetime as dt
from dataclasses import fields, replace

import pytest

from gpuproof.expectation import ClusterExpectation, Rdma
from gpuproof.limits import (
    Asks,
    AtLeast,
    AtMost,
    Bound,
    Contract,
    Derived,
    Equals,
    Expected,
    Limit,
    MaxFraction,
    Measured,
    MinFraction,
    MinVersion,
    OneOf,
    Per,
    Provenance,
    Provisional,
    Published,
    Reference,
    Severity,
    Unbounded,
    Uniform,
    Unique,
    bound_text,
    limit_id,
    number,
    provenance_block,
)
from tests.gpuproof.judging import CLUSTER, TODAY, limit

YESTERDAY = TODAY - dt.timedelta(days=1)


@pytest.mark.parametrize(
    ("bound", "unit", "text"),
    [
        (AtLeast(400), "GB/s", ">= 400 GB/s"),
        (AtMost(0.5), "1", "<= 0.5"),
        (Equals("none"), "", "= none"),
        (Equals(True), "", "= true"),
        (OneOf((1, 2)), "count", "one of 1, 2"),
        (Expected("nodes"), "count", "= nodes of the profile"),
        (MinFraction(0.75, Reference.RING_CEILING), "GB/s", ">= 0.75 x ring_ceiling"),
        (MaxFraction(1.5, Reference.FLEET_MEDIAN), "s", "<= 1.5 x fleet_median"),
        (Unbounded(), "MiB", "recorded, not judged"),
        (Unique(), "", "reported once in the whole fleet"),
        (Uniform(), "", "the same as on most nodes"),
        (MinVersion((("12", "525"), ("13", "580")), "cuda"), "", "at least 525 where cuda is 12, 580 where cuda is 13"),
    ],
)
def test_a_bound_reads_as_a_sentence_part(bound: Bound, unit: str, text: str) -> None:
    assert bound_text(bound, unit) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.0, "2"),
        (0.1, "0.1"),
        (399.9999999, "399.9999999"),
        (8_589_934_592, "8589934592"),
        (8_589_934_592.0, "8589934592"),
        (999_999_999_999_999.0, "999999999999999"),
        (1e15, "1000000000000000.0"),
        (-1e15, "-1000000000000000.0"),
        (1e30, "1e+30"),
        (-3.0, "-3"),
        (True, "true"),
        (False, "false"),
        ("word", "word"),
        (float("nan"), "nan"),
        (float("inf"), "inf"),
    ],
)
def test_numbers_are_written_without_rounding(value: str | float | bool, text: str) -> None:
    assert number(value) == text


def test_an_id_names_check_metric_point_and_what_is_not_decisive() -> None:
    assert limit_id("c", "m", {}, Severity.FAIL) == "c.m"
    assert limit_id("c", "m", {"n": 2, "dtype": "float32"}, Severity.FAIL) == "c.m{dtype=float32,n=2}"
    assert limit_id("c", "m", {}, Severity.WARN) == "c.m:warn"
    assert limit_id("c", "m", {"n": 1}, Severity.RECORD_ONLY) == "c.m{n=1}:record_only"


@pytest.mark.parametrize(
    ("per", "subjects"),
    [
        (Per.SUBJECT, {"cluster", "gpu-01"}),
        (Per.NODE, {"gpu-01"}),
        (Per.GPU, {"gpu-01"}),
        (Per.CLUSTER, {"cluster"}),
    ],
)
def test_a_limit_speaks_about_its_subjects_only(per: Per, subjects: set[str]) -> None:
    assert {subject for subject in ("cluster", "gpu-01") if limit(per=per).applies_to(subject)} == subjects


@pytest.mark.parametrize(
    ("asks", "fitting"),
    [
        (Asks(cluster=True, nodes=True), set(Per)),
        (Asks(cluster=True, nodes=False), {Per.SUBJECT, Per.CLUSTER}),
        (Asks(cluster=False, nodes=True), {Per.SUBJECT, Per.NODE, Per.GPU}),
        (Asks(cluster=False, nodes=False), set()),
    ],
)
def test_a_limit_fits_whom_its_check_asks(asks: Asks, fitting: set[Per]) -> None:
    assert {per for per in Per if asks.fits(per)} == fitting


@pytest.mark.parametrize(
    ("bound", "compares"),
    [
        (Unique(), True),
        (Uniform(), True),
        (MinVersion((("12", "525"),), "cuda"), False),
        (MinFraction(0.9, Reference.FLEET_MEDIAN), True),
        (MaxFraction(1.1, Reference.FLEET_MEDIAN), True),
        (MinFraction(0.9, Reference.BASELINE), False),
        (MaxFraction(1.1, Reference.RING_CEILING), False),
        (AtLeast(1), False),
        (Unbounded(), False),
    ],
)
def test_some_limits_need_the_answers_of_all(bound: Bound, *, compares: bool) -> None:
    assert limit(bound).compares_subjects is compares


def test_only_severity_fail_is_decisive() -> None:
    assert [severity for severity in Severity if limit(severity=severity).decisive] == [Severity.FAIL]


def test_the_name_is_the_metric_or_the_fact() -> None:
    assert limit(metric="busbw").name == "busbw"
    assert limit(fact="gpu_product").name == "gpu_product"
    assert Limit("i", "c", AtLeast(1), Severity.FAIL, Derived("f")).name == ""


def test_a_limit_speaks_about_every_subject_unless_it_says_otherwise() -> None:
    assert Limit("i", "c", AtLeast(1), Severity.FAIL, Derived("f"), metric="m").per is Per.SUBJECT


NUMBERS: list[Provenance] = [
    Measured("evidence/x.json", YESTERDAY, 3, "median", "4 nodes", valid_until=TODAY),
    Published("https://example.org/x", YESTERDAY, 480, valid_until=TODAY),
    Derived("n * u", valid_until=TODAY),
    Contract("order 7", "4.2", YESTERDAY, valid_until=TODAY),
]


@pytest.mark.parametrize("provenance", NUMBERS, ids=lambda p: p.kind)
def test_a_number_blocks_from_the_day_after_its_last_valid_day(provenance: Provenance) -> None:
    assert provenance_block(provenance, TODAY) is None
    text = provenance_block(provenance, TODAY + dt.timedelta(days=1))
    assert text == f"out of date: {provenance.kind} number valid until {TODAY}"


@pytest.mark.parametrize("provenance", [*NUMBERS, Provisional("none yet", TODAY)], ids=lambda p: p.kind)
def test_the_kind_of_a_provenance_is_not_for_the_caller_to_choose(provenance: Provenance) -> None:
    assert {item.name: item.init for item in fields(provenance)}["kind"] is False


def test_a_number_without_an_end_never_blocks() -> None:
    assert provenance_block(Derived("n * u"), dt.date.max) is None


def test_a_provisional_number_blocks_always_and_says_when_its_day_has_passed() -> None:
    guess = Provisional("no result yet", TODAY)
    assert provenance_block(guess, YESTERDAY) == f"provisional (no result yet), to be replaced by {TODAY}"
    assert provenance_block(guess, TODAY) == f"provisional (no result yet), to be replaced by {TODAY}"
    late = provenance_block(guess, TODAY + dt.timedelta(days=1))
    assert late == f"provisional (no result yet), to be replaced by {TODAY}, which has passed"


def test_the_cluster_is_addressed_by_the_keys_of_its_table() -> None:
    full = replace(CLUSTER, gpu_driver="580.82.07", gpu_memory_mib=81559)
    assert full.expectations() == {
        "gpu_product": "SIMULATED-GPU",
        "gpus_per_node": 2,
        "nodes": 4,
        "gpu_resource": "nvidia.com/gpu",
        "device": "cpu",
        "gpu_driver": "580.82.07",
        "gpu_memory_mib": 81559,
        "gpu_sharing": "none",
        "gpu_offers": "nvidia.com/gpu=2",
        "gpus_per_pod": 2,
        "physical_gpus_per_node": 2,
        "rdma.resource": "rdma/ib",
        "rdma.per_node": 8,
        "rdma.rate_gbps": 400,
        "rdma.link_layer": "InfiniBand",
        "gpu_name": "SIMULATED GPU",
    }
    assert full.expected("rdma.rate_gbps") == 400
    assert full.expected("no_such_key") is None


def test_what_the_profile_does_not_expect_is_not_there() -> None:
    bare = ClusterExpectation("P", 8, 16, "nvidia.com/gpu", "cuda")
    derived = {"gpu_sharing", "gpu_offers", "gpus_per_pod", "physical_gpus_per_node"}
    given = {"gpu_product", "gpus_per_node", "nodes", "gpu_resource", "device"}
    assert set(bare.expectations()) == given | derived


def test_shares_are_counted_apart_from_cards() -> None:
    sliced = replace(CLUSTER, gpus_per_node=8, gpu_sharing="time-slicing", gpus_per_pod=1, gpu_resource="r/shared")
    assert (sliced.shared, sliced.pod_gpus, sliced.physical_gpus) == (True, 1, None)
    assert (sliced.expected("gpu_offers"), sliced.expected("gpus_per_pod")) == ("r/shared=8", 1)
    assert replace(sliced, physical_gpus_per_node=2).expected("physical_gpus_per_node") == 2
    partitioned = replace(CLUSTER, gpu_sharing="mig", mig_profile="1g.10gb")
    assert [each.sharing_text for each in (CLUSTER, sliced, partitioned)] == [
        "whole GPUs", "time-slicing", "MIG 1g.10gb",
    ]  # fmt: skip


def test_the_ring_ceiling_is_nics_times_line_rate_in_bytes() -> None:
    bare = ClusterExpectation("P", 8, 16, "nvidia.com/gpu", "cuda")
    assert CLUSTER.ring_ceiling_gb_per_s() == 400
    assert bare.ring_ceiling_gb_per_s() is None


@pytest.mark.parametrize(
    ("nodes", "hierarchical", "alltoall"), [(2, 750, 93.75), (4, 516.7, 64.6), (16, 423.3, 52.9), (32, 411.3, 51.4)]
)
def test_the_other_ceilings_are_those_of_the_published_formulas(
    nodes: int, hierarchical: float, alltoall: float
) -> None:
    cluster = replace(CLUSTER, nodes=nodes, gpus_per_node=8, rdma=Rdma("rdma/ib", 8, 400, "InfiniBand"))
    assert cluster.hierarchical_ceiling_gb_per_s() == pytest.approx(hierarchical, abs=0.1)
    assert cluster.alltoall_ceiling_gb_per_s() == pytest.approx(alltoall, abs=0.1)
    alone = replace(cluster, nodes=1)
    assert (alone.hierarchical_ceiling_gb_per_s(), alone.alltoall_ceiling_gb_per_s()) == (None, None)
    assert replace(cluster, rdma=None).hierarchical_ceiling_gb_per_s() is None
