"""What subjects say together: none is its own measure, and one thing under two names is seen."""

import math

import pytest

from gpuproof.fleet import MIN_OTHERS, fleet_medians, seen_values
from gpuproof.limits import Equals, MaxFraction, MinFraction, Reference, Unbounded, Uniform, Unique
from tests.gpuproof.judging import limit, measurement, sample
from workloads.contract import Measurement

RELATIVE = limit(MinFraction(0.9, Reference.FLEET_MEDIAN))
Fleet = dict[str, list[Measurement]]


def fleet(*values: float) -> Fleet:
    """One sample a node: `gpu-0` reported the first value."""
    return {f"gpu-{index}": [measurement(sample(value))] for index, value in enumerate(values)}


def median(found: Fleet, subject: str = "gpu-0", expected: int = 4) -> float | None:
    return fleet_medians([RELATIVE], found, subject, expected).get(RELATIVE.id)


class TestMedians:
    def test_only_limits_relative_to_the_fleet_have_one(self) -> None:
        others = [limit(), limit(MinFraction(0.9, Reference.BASELINE)), limit(MinFraction(0.9, Reference.RING_CEILING))]
        assert fleet_medians(others, fleet(1, 1, 1, 1), "gpu-0", 4) == {}
        assert fleet_medians([RELATIVE], fleet(1, 1, 1, 1), "gpu-0", 4) == {RELATIVE.id: 1}

    def test_upper_limits_have_one_too(self) -> None:
        upper = limit(MaxFraction(1.1, Reference.FLEET_MEDIAN))
        assert fleet_medians([upper], fleet(1, 4, 4, 4), "gpu-0", 4) == {upper.id: 4}

    def test_it_is_the_median_of_the_others_and_never_of_oneself(self) -> None:
        assert median(fleet(1, 2, 50, 100)) == 50
        assert median(fleet(1, 2, 50, 100), "gpu-3") == 2

    def test_every_sample_at_the_point_counts_and_no_other_metric(self) -> None:
        found = {"gpu-0": [measurement(sample(9))]} | {
            f"gpu-{n}": [measurement(sample(1, n=1), sample(7, metric="algbw")), measurement(sample(n, n=2))]
            for n in (5, 6, 8)
        }
        assert median(found) == 3

    def test_a_fleet_of_one_has_no_measure(self) -> None:
        assert median(fleet(1), expected=1) is None
        assert median({}, expected=1) is None

    @pytest.mark.parametrize(("nodes", "expected", "there"), [(3, 3, False), (4, 4, True), (4, 8, True), (4, 9, False)])
    def test_it_takes_three_others_and_half_of_those_expected(self, nodes: int, expected: int, there: bool) -> None:
        assert MIN_OTHERS == 3
        assert (median(fleet(*[5.0] * nodes), expected=expected) == 5) is there

    def test_a_subject_that_reported_nothing_usable_is_no_other(self) -> None:
        for lost in (measurement(), measurement(sample(math.nan)), measurement(sample(1, unit="Gb/s"))):
            assert median(fleet(1, 2, 3) | {"gpu-9": [lost]}) is None

    def test_what_is_not_finite_or_in_another_unit_is_left_out(self) -> None:
        odd = [measurement(sample(math.inf)), measurement(sample(-math.inf)), measurement(sample(1000, unit="Gb/s"))]
        found = fleet(9, 3, 3, 3)
        found["gpu-1"] += odd
        assert median(found) == 3


class TestSeen:
    UUID = limit(Unique(), fact="uuid")

    def test_every_value_is_kept_with_all_that_reported_it(self) -> None:
        found = {
            "gpu-0": [measurement(facts={"uuid": ["a", "b"], "other": "x"})],
            "gpu-1": [measurement(facts={"uuid": ["b", "c", "c"]}), measurement(facts={"uuid": "a"})],
            "gpu-2": [measurement(sample(1))],
        }
        assert seen_values([self.UUID], found, 3) == {
            self.UUID.id: {"a": ("gpu-0", "gpu-1"), "b": ("gpu-0", "gpu-1"), "c": ("gpu-1", "gpu-1")}
        }

    def test_only_unique_limits_are_looked_for(self) -> None:
        others = [limit(Equals("a"), fact="uuid"), limit(Unbounded(), fact="uuid"), RELATIVE]
        assert seen_values(others, {"gpu-0": [measurement(facts={"uuid": "a"})]}, 1) == {}
        assert seen_values([*others, self.UUID], {}, 1) == {self.UUID.id: {}}

    def test_a_word_and_the_number_it_writes_are_one_value(self) -> None:
        found = {"gpu-0": [measurement(facts={"uuid": "7"})], "gpu-1": [measurement(facts={"uuid": 7})]}
        assert seen_values([self.UUID], found, 2) == {self.UUID.id: {"7": ("gpu-0", "gpu-1")}}

    @pytest.mark.parametrize(("expected", "known"), [(2, True), (4, True), (5, False)])
    def test_what_is_usual_takes_half_of_those_expected(self, expected: int, known: bool) -> None:
        kernel = limit(Uniform(), fact="kernel")
        found = {name: [measurement(facts={"kernel": "6.8"})] for name in ("gpu-0", "gpu-1")}
        seen = seen_values([kernel, self.UUID], found, expected)
        assert (kernel.id in seen, self.UUID.id in seen) == (known, True)
