"""Limits against the best GPU of the same node: who is compared with whom, and when there is nothing to compare."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from gpuproof.finding import Context, Outcome, hold
from gpuproof.limits import MinFraction, Per, Reference, Severity, limit_id
from gpuproof.profile_error import ProfileError
from tests.gpuproof.judging import CLUSTER, limit, measurement
from tests.gpuproof.profiles import GOOD, load
from workloads.contract import Sample

BEST = limit(MinFraction(0.9, Reference.NODE_BEST), metric="rate", per=Per.GPU)


def outcomes(*values: float, at: tuple[dict[str, int], ...] = ({},)) -> list[Outcome]:
    samples = [
        Sample("rate", value * (1 + number), "GB/s", {"gpu": gpu, **point})
        for number, point in enumerate(at)
        for gpu, value in enumerate(values)
    ]
    cluster = replace(CLUSTER, gpus_per_node=len(values))
    return [finding.outcome for finding in hold(BEST, measurement(*samples), Context(cluster))]


def test_a_gpu_far_below_the_best_of_its_node_misses() -> None:
    assert outcomes(100, 90, 89.9) == [Outcome.MET, Outcome.MET, Outcome.MISSED]


def test_only_numbers_of_one_operating_point_are_compared() -> None:
    points = ({"bytes": 1}, {"bytes": 2})
    assert outcomes(100, 80, at=points) == [Outcome.MET, Outcome.MISSED] * 2


def test_a_number_that_is_none_is_no_measure_and_meets_nothing() -> None:
    assert outcomes(math.nan, 100) == [Outcome.MISSED, Outcome.MET]
    assert outcomes(math.inf, 100) == [Outcome.MISSED, Outcome.MET]
    assert set(outcomes(math.nan, math.nan)) == {Outcome.NOT_MEASURED}
    assert set(outcomes(0, 0)) == {Outcome.NOT_MEASURED}


def test_the_best_of_one_gpu_is_no_measure() -> None:
    assert set(outcomes(100)) == {Outcome.NOT_MEASURED}


def test_a_missing_gpu_is_not_left_out() -> None:
    found = hold(BEST, measurement(Sample("rate", 1, "GB/s", {"gpu": 0})), Context(replace(CLUSTER, gpus_per_node=2)))
    assert Outcome.NOT_MEASURED in {finding.outcome for finding in found}


def test_limits_on_one_number_have_names_of_their_own() -> None:
    names = {limit_id("c", "m", {}, Severity.FAIL, of=of) for of in ("", "node_best", "fleet_median")}
    assert names == {"c.m", "c.m/node_best", "c.m/fleet_median"}


LIMIT = """
[[limit]]
check = "speed"
metric = "rate"
unit = "GB/s"
per = "gpu"
min_fraction = 0.9
of = "node_best"
severity = "warn"
provenance = { kind = "derived", formula = "by hand" }
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('per = "gpu"', 'per = "node"', "node_best compares the GPUs of a node"),
        ("min_fraction", "max_fraction", "node_best is the largest number of a node"),
    ],
)
def test_a_limit_that_could_not_mean_anything_is_refused(tmp_path: Path, old: str, new: str, told: str) -> None:
    load(tmp_path, GOOD + LIMIT)
    with pytest.raises(ProfileError, match=told):
        load(tmp_path, GOOD + LIMIT.replace(old, new))


def test_a_node_of_one_gpu_has_no_best(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="must not be its own measure"):
        load(tmp_path, GOOD.replace("gpus_per_node = 2", "gpus_per_node = 1") + LIMIT)


def test_a_number_may_be_held_absolutely_and_against_others_but_not_twice_alike(tmp_path: Path) -> None:
    other = LIMIT.replace("node_best", "fleet_median")
    load(tmp_path, GOOD + LIMIT + other)
    with pytest.raises(ProfileError, match="reference"):
        load(tmp_path, GOOD + LIMIT + other + other)
