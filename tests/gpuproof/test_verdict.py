"""What a measurement earns: every way to pass by accident gives FAIL, ERROR or NOT_RUN instead."""

import math
from collections.abc import Mapping

import pytest

from gpuproof.failure import JobFailure, Reason
from gpuproof.limits import (
    AtLeast,
    AtMost,
    Bound,
    Equals,
    Expected,
    Limit,
    MaxFraction,
    MinFraction,
    MinVersion,
    OneOf,
    Per,
    Reference,
    Severity,
    Unbounded,
    Uniform,
    Unique,
)
from gpuproof.verdict import (
    BLOCKED,
    FAILURE_VERDICTS,
    LIMIT_MISSED,
    LIMIT_NOT_MEASURED,
    NOTHING_JUDGED,
    Judgement,
    Outcome,
    Verdict,
    blocked,
    judge,
    judge_failure,
)
from tests.gpuproof.judging import CHECK, NODE, context, limit, measurement, sample
from workloads.contract import Fact, Measurement

NOT_NUMBERS = [math.nan, math.inf, -math.inf]


def judged(limits: list[Limit], found: Measurement, subject: str = NODE) -> Judgement:
    return judge(CHECK, subject, found, limits, context())


def verdict(limits: list[Limit], found: Measurement, subject: str = NODE) -> Verdict:
    return judged(limits, found, subject).verdict


class TestBounds:
    @pytest.mark.parametrize(
        ("bound", "value", "met"),
        [
            (AtLeast(400), 400.0, True),
            (AtLeast(400), math.nextafter(400, 500), True),
            (AtLeast(400), math.nextafter(400, 0), False),
            (AtMost(400), 400.0, True),
            (AtMost(400), math.nextafter(400, 0), True),
            (AtMost(400), math.nextafter(400, 500), False),
            (AtMost(0), 0.0, True),
            (AtMost(0), 1.0, False),
            (AtLeast(1), -2.0, False),
            (Equals(2), 2.0, True),
            (Equals(2), 1.0, False),
            (Equals(2), 3.0, False),
            (OneOf((2, 4)), 4.0, True),
            (OneOf((2, 4)), 3.0, False),
            (Expected("gpus_per_node"), 2.0, True),
            (Expected("gpus_per_node"), 1.0, False),
            (Expected("gpus_per_node"), 3.0, False),
            (MinFraction(0.75, Reference.RING_CEILING), 300.0, True),
            (MinFraction(0.75, Reference.RING_CEILING), 299.0, False),
            (MaxFraction(0.5, Reference.RING_CEILING), 200.0, True),
            (MaxFraction(0.5, Reference.RING_CEILING), 201.0, False),
        ],
    )
    def test_the_number_in_the_file_is_the_number_that_fails(self, bound: Bound, value: float, met: bool) -> None:
        got = judged([limit(bound)], measurement(sample(value)))
        assert got.verdict is (Verdict.PASS if met else Verdict.FAIL)
        assert got.reason_code == (None if met else LIMIT_MISSED)
        assert [finding.outcome for finding in got.findings] == [Outcome.MET if met else Outcome.MISSED]
        assert got.findings[0].observed == value

    @pytest.mark.parametrize("value", NOT_NUMBERS)
    @pytest.mark.parametrize(
        "bound",
        [
            AtLeast(1e-300),
            AtMost(1e300),
            Equals(1.0),
            OneOf((1.0, 2.0)),
            Expected("nodes"),
            MinFraction(0.1, Reference.RING_CEILING),
            MaxFraction(10, Reference.RING_CEILING),
        ],
    )
    def test_what_is_not_finite_meets_no_bound(self, bound: Bound, value: float) -> None:
        assert verdict([limit(bound)], measurement(sample(value))) is Verdict.FAIL

    @pytest.mark.parametrize("value", NOT_NUMBERS)
    def test_what_is_not_finite_is_not_even_recorded_as_met(self, value: float) -> None:
        recorded = limit(Unbounded(), severity=Severity.RECORD_ONLY)
        assert judged([recorded], measurement(sample(value))).findings[0].outcome is Outcome.MISSED

    @pytest.mark.parametrize("of", [Reference.FLEET_MEDIAN, Reference.BASELINE])
    @pytest.mark.parametrize("reference", [None, 0.0, -1.0, *NOT_NUMBERS])
    def test_a_fraction_of_nothing_usable_is_not_measured(self, of: Reference, reference: float | None) -> None:
        relative = limit(MinFraction(0.9, of))
        known = {} if reference is None else {relative.id: reference}
        got = judge(CHECK, NODE, measurement(sample(1e9)), [relative], context(known, known))
        assert (got.verdict, got.reason_code) == (Verdict.ERROR, LIMIT_NOT_MEASURED)
        assert str(of) in got.reasons[0]

    def test_a_reference_may_be_small(self) -> None:
        relative = limit(MinFraction(0.9, Reference.BASELINE))
        there = context(baseline={relative.id: 0.5})
        assert judge(CHECK, NODE, measurement(sample(0.45)), [relative], there).verdict is Verdict.PASS

    @pytest.mark.parametrize(("value", "expected"), [(90.0, Verdict.PASS), (89.9, Verdict.FAIL)])
    def test_fleet_and_baseline_are_two_references(self, value: float, expected: Verdict) -> None:
        for of in (Reference.FLEET_MEDIAN, Reference.BASELINE):
            relative = limit(MinFraction(0.9, of))
            known, other = {relative.id: 100.0}, {relative.id: 1.0}
            there = context(known, other) if of is Reference.FLEET_MEDIAN else context(other, known)
            assert judge(CHECK, NODE, measurement(sample(value)), [relative], there).verdict is expected

    def test_an_expectation_that_the_profile_lacks_is_not_measured(self) -> None:
        got = judged([limit(Expected("gpu_driver"))], measurement(sample(1)))
        assert got.verdict is Verdict.ERROR
        assert "expects no gpu_driver" in got.reasons[0]


class TestSamples:
    def test_no_limit_at_all_is_an_error(self) -> None:
        got = judged([], measurement(sample(500)))
        assert (got.verdict, got.reason_code) == (Verdict.ERROR, NOTHING_JUDGED)
        assert got.reasons[0].startswith(f"no limit of the profile speaks about {CHECK} on {NODE}")

    def test_limits_of_other_checks_judge_nothing(self) -> None:
        got = judged([limit(check="other_check")], measurement(sample(500)))
        assert (got.verdict, got.reason_code) == (Verdict.ERROR, NOTHING_JUDGED)

    def test_limits_for_other_subjects_judge_nothing(self) -> None:
        assert verdict([limit(per=Per.CLUSTER)], measurement(sample(500))) is Verdict.ERROR
        assert verdict([limit(per=Per.NODE)], measurement(sample(500)), "cluster") is Verdict.ERROR
        assert verdict([limit(per=Per.CLUSTER)], measurement(sample(500)), "cluster") is Verdict.PASS

    def test_an_empty_record_is_an_error_that_names_the_limit(self) -> None:
        got = judged([limit()], measurement())
        assert (got.verdict, got.reason_code) == (Verdict.ERROR, LIMIT_NOT_MEASURED)
        assert got.reasons == ("busbw not measured: no sample was reported (limit >= 400 GB/s)",)
        assert got.findings[0].observed is None
        assert got.findings[0].bound == ">= 400 GB/s"

    def test_a_missing_row_is_an_error_although_the_others_pass(self) -> None:
        limits = [limit(at={"bytes": 2**30}), limit(at={"bytes": 2**33})]
        assert verdict(limits, measurement(sample(500, bytes=2**30))) is Verdict.ERROR

    def test_a_missed_limit_weighs_more_than_a_missing_one(self) -> None:
        limits = [limit(at={"bytes": 2**33}), limit(at={"bytes": 2**30})]
        got = judged(limits, measurement(sample(1, bytes=2**30)))
        assert got.verdict is Verdict.FAIL
        assert len(got.reasons) == 2
        assert got.reasons[0].startswith("busbw at bytes=1073741824 is 1 GB/s, expected >= 400 GB/s")

    def test_every_matching_sample_must_meet_the_limit(self) -> None:
        found = measurement(sample(500, bytes=2**30), sample(399, bytes=2**33))
        assert verdict([limit()], found) is Verdict.FAIL

    def test_an_average_does_not_stand_in_for_a_size(self) -> None:
        found = measurement(sample(500, statistic="mean"))
        assert verdict([limit(at={"bytes": 2**33})], found) is Verdict.ERROR

    @pytest.mark.parametrize("value", ["8", 8.5, True, "8.0"])
    def test_an_operating_point_is_compared_with_its_kind(self, value: str | float | bool) -> None:
        found = measurement(sample(500, n=value))
        assert verdict([limit(at={"n": 8 if value is not True else 1})], found) is Verdict.ERROR

    def test_a_whole_number_may_arrive_as_a_float(self) -> None:
        assert verdict([limit(at={"n": 8})], measurement(sample(500, n=8.0))) is Verdict.PASS

    def test_the_other_metric_is_not_the_metric(self) -> None:
        assert verdict([limit()], measurement(sample(500, metric="algbw"))) is Verdict.ERROR

    def test_another_unit_is_not_measured_and_says_both(self) -> None:
        got = judged([limit()], measurement(sample(500, unit="Gb/s")))
        assert got.verdict is Verdict.ERROR
        assert 'reported in "Gb/s", the limit is in "GB/s"' in got.reasons[0]

    def test_another_unit_at_one_point_spoils_the_others(self) -> None:
        found = measurement(sample(500, n=1), sample(500, unit="GiB/s", n=2))
        assert verdict([limit()], found) is Verdict.ERROR

    def test_one_value_for_each_of_two_points_is_sound(self) -> None:
        assert verdict([limit()], measurement(sample(500, n=1), sample(500, m=1))) is Verdict.PASS

    def test_two_values_for_one_point_are_no_measurement(self) -> None:
        got = judged([limit()], measurement(sample(500, n=1), sample(600, n=1)))
        assert got.verdict is Verdict.ERROR
        assert "two samples were reported for one operating point" in got.reasons[0]


class TestGpus:
    PER_GPU = staticmethod(lambda: limit(per=Per.GPU))

    def test_every_gpu_meets_it(self) -> None:
        got = judged([self.PER_GPU()], measurement(sample(500, gpu=0), sample(500, gpu=1)))
        assert got.verdict is Verdict.PASS
        assert len(got.findings) == 2

    def test_one_bad_gpu_fails_the_node_and_is_named(self) -> None:
        got = judged([self.PER_GPU()], measurement(sample(500, gpu=0), sample(399, gpu=1)))
        assert got.verdict is Verdict.FAIL
        assert got.reasons == ("busbw at gpu=1 is 399 GB/s, expected >= 400 GB/s",)

    def test_one_good_gpu_of_two_is_no_pass(self) -> None:
        got = judged([self.PER_GPU()], measurement(sample(500, gpu=0)))
        assert (got.verdict, got.reason_code) == (Verdict.ERROR, LIMIT_NOT_MEASURED)
        assert "1 samples for 1 GPUs, expected one for each of 2" in got.reasons[0]

    def test_more_gpus_than_bought_is_no_pass(self) -> None:
        found = measurement(*(sample(500, gpu=gpu) for gpu in range(3)))
        assert verdict([self.PER_GPU()], found) is Verdict.ERROR

    def test_one_gpu_twice_is_no_pass(self) -> None:
        assert verdict([self.PER_GPU()], measurement(sample(500, gpu=0), sample(500, gpu=0))) is Verdict.ERROR

    def test_one_gpu_twice_beside_the_other_is_no_pass(self) -> None:
        found = measurement(sample(500, gpu=0), sample(500, gpu=0), sample(500, gpu=1))
        assert verdict([self.PER_GPU()], found) is Verdict.ERROR

    def test_a_sample_without_a_gpu_does_not_stand_for_all(self) -> None:
        assert verdict([self.PER_GPU()], measurement(sample(500))) is Verdict.ERROR

    def test_a_sample_without_a_gpu_does_not_stand_for_the_missing_one(self) -> None:
        assert verdict([self.PER_GPU()], measurement(sample(500, gpu=0), sample(500))) is Verdict.ERROR

    def test_each_operating_point_needs_each_gpu(self) -> None:
        found = measurement(sample(500, gpu=0, n=1), sample(500, gpu=1, n=1), sample(500, gpu=0, n=2))
        got = judged([self.PER_GPU()], found)
        assert got.verdict is Verdict.ERROR
        assert got.reasons[0].startswith("busbw at n=2 not measured: 1 samples for 1 GPUs")

    @pytest.mark.parametrize("labels", [(0, "x"), (0, 0.5), ("0", "1"), (0, 1.0), (False, True), (1, 2), (-1, 0)])
    def test_only_the_integers_from_0_on_are_gpus(self, labels: tuple[str | float | bool, ...]) -> None:
        got = judged([self.PER_GPU()], measurement(*(sample(500, gpu=label) for label in labels)))
        assert (got.verdict, got.reason_code) == (Verdict.ERROR, LIMIT_NOT_MEASURED)
        said = f"the GPUs are labelled {labels[0]!r}, {labels[1]!r}, expected the integers from 0 to 1"
        assert said in got.reasons[0]

    def test_the_order_of_the_gpus_does_not_matter(self) -> None:
        assert verdict([self.PER_GPU()], measurement(sample(500, gpu=1), sample(500, gpu=0))) is Verdict.PASS

    def test_samples_of_single_gpus_do_not_answer_a_limit_on_the_node(self) -> None:
        for found in (measurement(sample(500, gpu=0)), measurement(sample(500), sample(500, gpu=0))):
            got = judged([limit(per=Per.NODE)], found)
            assert got.verdict is Verdict.ERROR
            assert 'must say per = "gpu"' in got.reasons[0]


class TestFacts:
    @pytest.mark.parametrize(
        ("bound", "value", "met"),
        [
            (Equals("none"), "none", True),
            (Equals("none"), "None", False),
            (Equals("none"), "", False),
            (Equals(True), True, True),
            (Equals(True), False, False),
            (Equals(True), 1, False),
            (Equals(1), True, False),
            (Equals(1), "1", False),
            (Equals("1"), 1, False),
            (Equals(1), 1.0, True),
            (OneOf(("a", "b")), "b", True),
            (OneOf(("a", "b")), "c", False),
            (Expected("gpu_product"), "SIMULATED-GPU", True),
            (Expected("gpu_product"), "SIMULATED-GPU-SHARED", False),
            (Expected("gpu_name"), "SIMULATED GPU", True),
            (AtLeast(2), 2, True),
            (AtLeast(2), 1, False),
            (AtLeast(2), "3", False),
            (AtLeast(1), True, False),
            (AtMost(1), False, False),
            (AtMost(2), "1", False),
            (AtMost(2), math.nan, False),
        ],
    )
    def test_a_fact_is_compared_with_its_kind(self, bound: Bound, value: str | float | bool, met: bool) -> None:
        got = verdict([limit(bound, fact="word")], measurement(facts={"word": value}))
        assert got is (Verdict.PASS if met else Verdict.FAIL)

    def test_a_missing_fact_is_not_measured(self) -> None:
        got = judged([limit(Equals("none"), fact="word")], measurement(facts={"other": "none"}))
        assert (got.verdict, got.reason_code) == (Verdict.ERROR, LIMIT_NOT_MEASURED)

    def test_every_item_of_a_list_must_meet_it(self) -> None:
        held = limit(Equals("none"), fact="word")
        assert verdict([held], measurement(facts={"word": ["none", "none"]})) is Verdict.PASS
        got = judged([held], measurement(facts={"word": ["none", "802"]}))
        assert got.verdict is Verdict.FAIL
        assert got.reasons == ("word at item=1 is 802, expected = none",)

    def test_an_empty_list_is_not_measured(self) -> None:
        for per in (Per.NODE, Per.GPU):
            held = limit(Equals("none"), fact="word", per=per)
            got = judged([held], measurement(facts={"word": []}))
            assert got.verdict is Verdict.ERROR
            assert "an empty list was reported" in got.reasons[0]

    @pytest.mark.parametrize(("count", "expected"), [(1, Verdict.ERROR), (2, Verdict.PASS), (3, Verdict.ERROR)])
    def test_a_fact_a_gpu_needs_one_value_a_gpu(self, count: int, expected: Verdict) -> None:
        held = limit(Equals("none"), fact="word", per=Per.GPU)
        got = judged([held], measurement(facts={"word": ["none"] * count}))
        assert got.verdict is expected
        if expected is Verdict.ERROR:
            assert f"reported for {count} GPUs, expected 2" in got.reasons[0]
        assert got.findings[0].at == {"gpu": 0}

    def test_one_word_does_not_stand_for_every_gpu(self) -> None:
        held = limit(Equals("none"), fact="word", per=Per.GPU)
        got = judged([held, limit()], measurement(sample(500), facts={"word": "none"}))
        assert got.verdict is Verdict.ERROR
        assert "one value was reported, expected one for every GPU" in got.reasons[0]

    def test_a_list_that_is_not_one_a_gpu_may_have_any_length(self) -> None:
        held = limit(Equals("none"), fact="word")
        assert verdict([held], measurement(facts={"word": ["none"] * 3})) is Verdict.PASS

    def test_a_fact_is_no_metric_and_a_metric_no_fact(self) -> None:
        assert verdict([limit(Equals(1), fact="busbw")], measurement(sample(1))) is Verdict.ERROR
        assert verdict([limit(Equals(1))], measurement(facts={"busbw": 1})) is Verdict.ERROR

    def test_what_was_observed_is_kept_as_number_or_word(self) -> None:
        observed = [
            judged([limit(Equals("x"), fact="word")], measurement(facts={"word": value})).findings[0].observed
            for value in ("x", 2, 2.5, True)
        ]
        assert observed == ["x", 2.0, 2.5, "true"]


class TestUnique:
    HELD = limit(Unique(), fact="uuid", per=Per.GPU)
    MINE = measurement(facts={"uuid": ["a", "b"]})

    def held(self, seen: Mapping[str, tuple[str, ...]], found: Measurement = MINE) -> Judgement:
        return judge(CHECK, NODE, found, [self.HELD], context(seen={self.HELD.id: seen}))

    def test_values_that_nobody_else_has_meet_it(self) -> None:
        got = self.held({"a": (NODE,), "b": (NODE,), "c": ("gpu-02",)})
        assert got.verdict is Verdict.PASS
        assert got.findings[0].text == "uuid at gpu=0 is a, meets reported once in the whole fleet"

    def test_a_value_that_another_has_too_fails_and_names_who(self) -> None:
        got = self.held({"a": (NODE,), "b": ("gpu-02", NODE, "gpu-02", "gpu-03")})
        assert (got.verdict, got.reason_code) == (Verdict.FAIL, LIMIT_MISSED)
        assert got.reasons == (
            "uuid at gpu=1 is b, expected reported once in the whole fleet, it is also on gpu-02, gpu-03",
        )

    @pytest.mark.parametrize(("count", "last"), [(3, "n1, n2, n3"), (4, "n1, n2, n3 and 1 more")])
    def test_many_others_are_counted(self, count: int, last: str) -> None:
        others = tuple(f"n{number}" for number in range(1, count + 1))
        assert self.held({"a": (NODE, *others), "b": (NODE,)}).reasons[0].endswith(f"it is also on {last}")

    def test_a_value_that_the_subject_has_twice_fails(self) -> None:
        got = self.held({"a": (NODE, NODE)}, measurement(facts={"uuid": ["a", "a"]}))
        assert got.verdict is Verdict.FAIL
        assert got.reasons[0].endswith(f"it is 2 times on {NODE}")
        both = self.held({"a": (NODE, NODE, "gpu-02")}, measurement(facts={"uuid": ["a", "a"]}))
        assert both.reasons[0].endswith(f"it is 2 times on {NODE} and also on gpu-02")

    @pytest.mark.parametrize("seen", [{}, {"a": ("gpu-02",), "b": ("gpu-02",)}])
    def test_what_was_compared_with_nothing_is_not_measured(self, seen: Mapping[str, tuple[str, ...]]) -> None:
        got = self.held(seen)
        assert (got.verdict, got.reason_code) == (Verdict.ERROR, LIMIT_NOT_MEASURED)
        assert got.reasons[0].startswith("uuid at gpu=0 not measured: what the whole fleet reported is not known")
        assert judged([self.HELD], self.MINE).verdict is Verdict.ERROR

    def test_one_value_of_the_whole_subject_may_be_held_too(self) -> None:
        held = limit(Unique(), fact="serial")
        there = context(seen={held.id: {"7": (NODE,)}})
        assert judge(CHECK, NODE, measurement(facts={"serial": 7}), [held], there).verdict is Verdict.PASS

    def test_a_metric_is_never_unique(self) -> None:
        got = judged([limit(Unique())], measurement(sample(500)))
        assert got.verdict is Verdict.ERROR
        assert "only a fact can be held to this: reported once" in got.reasons[0]


class TestUniform:
    HELD = limit(Uniform(), fact="kernel")
    MINE = measurement(facts={"kernel": "6.8"})

    def held(self, seen: Mapping[str, tuple[str, ...]], found: Measurement = MINE) -> Judgement:
        return judge(CHECK, NODE, found, [self.HELD], context(seen={self.HELD.id: seen}))

    def test_what_most_nodes_have_meets_it(self) -> None:
        got = self.held({"6.8": (NODE, "gpu-02", "gpu-03"), "5.4": ("gpu-04",)})
        assert got.verdict is Verdict.PASS
        assert got.findings[0].text == "kernel is 6.8, meets 6.8, as on 3 of 4 nodes"

    def test_an_outlier_fails_and_is_told_what_the_majority_has(self) -> None:
        got = self.held({"6.8": (NODE,), "5.4": ("gpu-02", "gpu-03")})
        assert (got.verdict, got.reason_code) == (Verdict.FAIL, LIMIT_MISSED)
        assert got.reasons == ("kernel is 6.8, expected 5.4, as on 2 of 3 nodes",)

    def test_without_a_majority_nobody_meets_it(self) -> None:
        got = self.held({"6.8": (NODE, "gpu-02"), "5.4": ("gpu-03", "gpu-04")})
        assert got.reasons == (
            "kernel is 6.8, expected what most nodes have, and there is no such: 5.4 on 2, 6.8 on 2 of 4 nodes",
        )

    def test_eight_equal_gpus_of_one_node_are_one_voice(self) -> None:
        held, mine = limit(Uniform(), fact="vbios", per=Per.GPU), measurement(facts={"vbios": ["a", "a"]})
        seen = {"a": (NODE, NODE), "b": ("gpu-02", "gpu-02", "gpu-03", "gpu-03")}
        got = judge(CHECK, NODE, mine, [held], context(seen={held.id: seen}))
        assert got.reasons[0] == "vbios at gpu=0 is a, expected b, as on 2 of 3 nodes"

    @pytest.mark.parametrize("seen", [{}, {"6.8": ("gpu-02",)}])
    def test_what_was_compared_with_nothing_is_not_measured(self, seen: Mapping[str, tuple[str, ...]]) -> None:
        got = self.held(seen)
        assert (got.verdict, got.reason_code) == (Verdict.ERROR, LIMIT_NOT_MEASURED)

    def test_an_empty_word_is_no_value_to_share(self) -> None:
        got = self.held({" ": (NODE, "gpu-02")}, measurement(facts={"kernel": " "}))
        assert got.verdict is Verdict.ERROR
        assert "the value is empty" in got.reasons[0]

    def test_a_metric_is_never_uniform(self) -> None:
        assert judged([limit(Uniform())], measurement(sample(500))).verdict is Verdict.ERROR


class TestMinVersion:
    HELD = limit(MinVersion((("12", "525.60.13"), ("13", "580")), "cuda"), fact="driver")

    @pytest.mark.parametrize(
        ("driver", "cuda", "verdict"),
        [
            ("525.60.13", "12", Verdict.PASS),
            ("580.82.07", 12, Verdict.PASS),
            ("525.60.12", "12", Verdict.FAIL),
            ("525.9", "12", Verdict.FAIL),
            ("580", "13", Verdict.PASS),
            ("575.51.03", "13", Verdict.FAIL),
            ("580.82.07", "14", Verdict.ERROR),
            ("580.82.07", "none", Verdict.ERROR),
            ("580.82.07", True, Verdict.ERROR),
            ("[N/A]", "12", Verdict.ERROR),
            ("", "12", Verdict.ERROR),
            ("580.", "12", Verdict.ERROR),
            ("-580", "12", Verdict.ERROR),
        ],
    )
    def test_versions_are_compared_number_by_number(self, driver: str, cuda: Fact, verdict: Verdict) -> None:
        assert judged([self.HELD], measurement(facts={"driver": driver, "cuda": cuda})).verdict is verdict

    def test_the_finding_names_floor_and_kind(self) -> None:
        got = judged([self.HELD], measurement(facts={"driver": "535.1", "cuda": "13"}))
        assert got.reasons == ("driver is 535.1, expected >= 580 (cuda is 13)",)

    def test_without_the_kind_nothing_is_judged(self) -> None:
        got = judged([self.HELD], measurement(facts={"driver": "580.1"}))
        assert got.verdict is Verdict.ERROR
        assert "the fact cuda that says which floor applies" in got.reasons[0]


class TestSeverity:
    def test_a_missed_warning_does_not_decide_and_is_shown(self) -> None:
        got = judged([limit(), limit(AtLeast(600), severity=Severity.WARN)], measurement(sample(500)))
        assert got.verdict is Verdict.PASS
        assert [finding.outcome for finding in got.findings] == [Outcome.MET, Outcome.MISSED]
        assert [finding.decisive for finding in got.findings] == [True, False]

    def test_a_met_warning_does_not_make_a_pass(self) -> None:
        for severity in (Severity.WARN, Severity.RECORD_ONLY):
            got = judged([limit(severity=severity)], measurement(sample(500)))
            assert (got.verdict, got.reason_code) == (Verdict.RECORDED, None)

    def test_a_met_warning_does_not_heal_a_missing_decisive_limit(self) -> None:
        limits = [limit(severity=Severity.WARN), limit(metric="algbw")]
        assert verdict(limits, measurement(sample(500))) is Verdict.ERROR

    def test_what_is_only_recorded_is_met_by_any_number(self) -> None:
        recorded = limit(Unbounded(), severity=Severity.RECORD_ONLY)
        got = judged([recorded], measurement(sample(-1)))
        assert (got.verdict, got.findings[0].outcome) == (Verdict.RECORDED, Outcome.MET)

    def test_one_number_of_two_is_worth_recording(self) -> None:
        limits = [limit(severity=Severity.RECORD_ONLY), limit(metric="algbw", severity=Severity.RECORD_ONLY)]
        assert verdict(limits, measurement(sample(500))) is Verdict.RECORDED

    def test_nothing_recorded_is_an_error(self) -> None:
        got = judged([limit(severity=Severity.RECORD_ONLY)], measurement())
        assert (got.verdict, got.reason_code) == (Verdict.ERROR, NOTHING_JUDGED)
        assert got.reasons

    def test_a_missing_warning_does_not_decide(self) -> None:
        limits = [limit(), limit(metric="algbw", severity=Severity.WARN)]
        assert verdict(limits, measurement(sample(500))) is Verdict.PASS

    @pytest.mark.parametrize(("count", "last"), [(8, "400 GB/s"), (9, "and 1 more"), (20, "and 12 more")])
    def test_reasons_are_capped_and_counted(self, count: int, last: str) -> None:
        found = measurement(*(sample(1, n=n) for n in range(count)))
        got = judged([limit()], found)
        assert len(got.reasons) == min(count, 9)
        assert got.reasons[-1].endswith(last)
        assert len(got.findings) == count


class TestFindingTexts:
    def test_a_met_limit_reads_well(self) -> None:
        got = judged(
            [limit(Expected("gpus_per_node"), metric="gpus", unit="count")], measurement(sample(2, "gpus", "count"))
        )
        assert got.findings[0].text == "gpus is 2, meets = 2 (gpus_per_node of the profile)"
        assert got.findings[0].bound == "= 2 (gpus_per_node of the profile)"
        assert got.findings[0].unit == "count"
        assert got.findings[0].limit_id == f"{CHECK}.gpus"

    def test_a_plain_ratio_has_no_unit_in_its_text(self) -> None:
        got = judged([limit(AtMost(0.5), metric="error", unit="1")], measurement(sample(0.75, "error", "1", n=4)))
        assert got.reasons == ("error at n=4 is 0.75, expected <= 0.5",)


class TestFailures:
    def test_every_reason_has_a_verdict_and_none_is_a_pass(self) -> None:
        assert set(FAILURE_VERDICTS) == set(Reason)
        assert set(FAILURE_VERDICTS.values()) == {Verdict.FAIL, Verdict.ERROR, Verdict.NOT_RUN}

    @pytest.mark.parametrize(
        ("expected", "reasons"),
        [
            (
                Verdict.FAIL,
                """unschedulable gpu_runtime_failed sandbox_failed admission_refused evicted preempted deadline_exceeded
                never_started node_lost node_not_ready node_missing volume_failed""",
            ),
            (
                Verdict.ERROR,
                """image_pull create_error forbidden quota_exceeded not_admitted oom_killed nonzero_exit no_measurement
                truncated_measurement malformed_measurement wrong_world_size wrong_node_count foreign_measurement
                node_busy pod_deleted harness_error cluster_unreachable""",
            ),
            (Verdict.NOT_RUN, "interrupted unvisited node_cordoned"),
        ],
    )
    def test_whose_fault_it_is(self, expected: Verdict, reasons: str) -> None:
        for word in reasons.split():
            got = judge_failure(JobFailure(Reason(word), "what happened"))
            assert (got.verdict, got.reason_code, got.reasons) == (expected, word, ("what happened",))
        assert {str(r) for r, v in FAILURE_VERDICTS.items() if v is expected} == set(reasons.split())

    def test_a_failure_without_a_sentence_still_has_a_reason(self) -> None:
        assert judge_failure(JobFailure(Reason.EVICTED, "")).reasons == ("no measurement: evicted",)

    def test_a_blocked_check_names_its_blocker(self) -> None:
        got = blocked("gpu_inventory", Verdict.FAIL)
        assert (got.verdict, got.reason_code) == (Verdict.NOT_RUN, BLOCKED)
        assert got.reasons == ("not run: it needs gpu_inventory, which is FAIL here",)
