"""What holds for every measurement and every plan: nothing passes without a met finding, and loss never helps."""

import math
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuproof.decision import DecisionOutcome, ScopeResult
from gpuproof.failure import JobFailure, Reason
from gpuproof.limits import AtLeast, AtMost, Equals, Expected, Limit, MinFraction, Per, Reference, Severity, Unbounded
from gpuproof.verdict import Outcome, Verdict, judge, judge_failure
from tests.gpuproof.judging import CHECK, NODE, TODAY, context, decided, limit, line, measurement, plan, sample
from workloads.contract import Measurement, Sample

METRICS = ("busbw", "error")
UNITS = ("GB/s", "1")
NEAR = st.sampled_from([-1.0, 0.0, 1.0, 2.0, 3.0, math.nan, math.inf, -math.inf])
POINTS = st.dictionaries(st.sampled_from(["gpu", "n"]), st.sampled_from([0, 1, "1", True]), max_size=2)

bounds = st.one_of(
    st.builds(AtLeast, st.sampled_from([0.5, 2.0])),
    st.builds(AtMost, st.sampled_from([0.0, 2.0])),
    st.builds(Equals, st.sampled_from([1, 2])),
    st.just(Expected("gpus_per_node")),
    st.just(Expected("gpu_driver")),
    st.just(MinFraction(0.005, Reference.RING_CEILING)),
    st.just(MinFraction(0.5, Reference.BASELINE)),
    st.just(Unbounded()),
)
limits = st.builds(
    limit,
    bounds,
    metric=st.sampled_from(METRICS),
    unit=st.sampled_from(UNITS),
    at=st.dictionaries(st.just("n"), st.sampled_from([0, 1])),
    per=st.sampled_from(Per),
    severity=st.sampled_from(Severity),
    check=st.sampled_from([CHECK, CHECK, "other_check"]),
)
samples = st.builds(
    lambda value, metric, unit, at: Sample(metric, value, unit, at),
    NEAR,
    st.sampled_from(METRICS),
    st.sampled_from(UNITS),
    POINTS,
)
measurements = st.lists(samples, max_size=6).map(lambda found: measurement(*found))
GOOD = {Verdict.PASS, Verdict.RECORDED}


def verdict(held: list[Limit], found: Measurement) -> Verdict:
    return judge(CHECK, NODE, found, held, context()).verdict


@given(st.lists(limits, max_size=4), measurements)
def test_a_pass_has_a_met_decisive_finding_and_no_other_decisive_one(held: list[Limit], found: Measurement) -> None:
    got = judge(CHECK, NODE, found, held, context())
    decisive = {finding.outcome for finding in got.findings if finding.decisive}
    assert (got.verdict is Verdict.PASS) == (decisive == {Outcome.MET})
    assert (got.verdict is Verdict.FAIL) == (Outcome.MISSED in decisive)
    assert bool(got.reasons) == (got.verdict not in GOOD)
    assert (got.reason_code is None) == (got.verdict in GOOD)


@given(st.lists(limits, max_size=4), measurements)
def test_every_limit_that_applies_leaves_a_finding(held: list[Limit], found: Measurement) -> None:
    got = judge(CHECK, NODE, found, held, context())
    applying = {item.id for item in held if item.check == CHECK and item.applies_to(NODE)}
    assert {finding.limit_id for finding in got.findings} == applying


@given(st.lists(limits, max_size=4), measurements, st.data())
def test_a_number_that_is_none_never_improves_a_verdict(
    held: list[Limit], found: Measurement, data: st.DataObject
) -> None:
    if not found.samples:
        return
    before = verdict(held, found)
    index = data.draw(st.integers(0, len(found.samples) - 1))
    worse = data.draw(st.sampled_from([math.nan, math.inf, -math.inf]))
    changed = replace(found.samples[index], value=worse)
    after = verdict(held, replace(found, samples=(*found.samples[:index], changed, *found.samples[index + 1 :])))
    assert after is before or after is Verdict.FAIL


ASKED = [(metric, n, gpu) for metric in METRICS for n in (0, 1) for gpu in (0, 1)]


@given(
    st.lists(st.sampled_from([1.0, 1.0, 1.0, 0.0, math.nan]), min_size=len(ASKED), max_size=len(ASKED)),
    st.sets(st.integers(0, len(ASKED) - 1)),
    st.sampled_from(["GB/s", "Gb/s"]),
)
def test_every_sample_that_a_limit_asks_for_is_needed(values: list[float], lost: set[int], unit: str) -> None:
    """Two metrics at two points on two GPUs are asked for: a pass needs all eight, good and in the right unit."""
    held = [limit(AtLeast(0.5), metric=m, at={"n": n}, per=Per.GPU) for m in METRICS for n in (0, 1)]
    asked = zip(ASKED, values, strict=True)
    found = [sample(value, metric, unit, n=n, gpu=gpu) for (metric, n, gpu), value in asked]
    kept = [item for index, item in enumerate(found) if index not in lost]
    got = verdict(held, measurement(*kept))
    sound = unit == "GB/s"
    assert (got is Verdict.PASS) == (sound and not lost and all(value == 1.0 for value in values))
    assert (got is Verdict.FAIL) == (sound and any(item.value != 1.0 for item in kept))


@given(st.sampled_from(Reason), st.text())
def test_a_failed_job_never_passes(reason: Reason, message: str) -> None:
    got = judge_failure(JobFailure(reason, message))
    assert got.verdict in {Verdict.FAIL, Verdict.ERROR, Verdict.NOT_RUN}
    assert got.reasons[0]


SUBJECTS = ("a", "b", "c")
VERDICTS = st.lists(st.sampled_from([*Verdict, None]), min_size=3, max_size=3)
GOODNESS = {Verdict.PASS: 2, Verdict.FAIL: 0}
ORDER = {DecisionOutcome.REJECTED: 0, DecisionOutcome.UNDECIDED: 1, DecisionOutcome.ACCEPTED: 2}


def outcome(verdicts: list[Verdict | None], **doubts: bool) -> DecisionOutcome:
    lines = [line(given_, subject) for subject, given_ in zip(SUBJECTS, verdicts, strict=True) if given_ is not None]
    return decided(
        plan(*SUBJECTS),
        lines,
        interrupted=doubts.get("interrupted", False),
        blocking=["x is provisional"] if doubts.get("provisional") else [],
        scope=ScopeResult("all", complete=not doubts.get("uncovered", False)),
    ).outcome


@given(VERDICTS, VERDICTS)
def test_a_decision_is_monotone_in_its_verdicts(one: list[Verdict | None], other: list[Verdict | None]) -> None:
    """Where every verdict is at most as good, the decision is at most as good."""
    ranks = [[GOODNESS.get(v, 1) if v else 1 for v in verdicts] for verdicts in (one, other)]
    if all(low <= high for low, high in zip(*ranks, strict=True)):
        assert ORDER[outcome(one)] <= ORDER[outcome(other)]


@given(VERDICTS, st.dictionaries(st.sampled_from(["interrupted", "provisional", "uncovered"]), st.just(True)))
def test_a_doubt_never_improves_a_decision(verdicts: list[Verdict | None], doubts: dict[str, bool]) -> None:
    clean, doubted = outcome(verdicts), outcome(verdicts, **doubts)
    assert ORDER[doubted] <= ORDER[clean]
    assert (doubted is DecisionOutcome.REJECTED) == (clean is DecisionOutcome.REJECTED)
    assert not (doubts and doubted is DecisionOutcome.ACCEPTED)


@given(VERDICTS)
def test_accepted_means_every_planned_verdict_is_a_pass(verdicts: list[Verdict | None]) -> None:
    assert (outcome(verdicts) is DecisionOutcome.ACCEPTED) == all(v is Verdict.PASS for v in verdicts)


@settings(max_examples=50)
@given(st.integers(0, 40), st.sampled_from([0.1, 0.5, 0.9, 1.0]))
def test_removing_a_verdict_never_helps(count: int, share: float) -> None:
    names = [f"n{i}" for i in range(count)]
    kept = [line(Verdict.PASS, name) for name in names[: int(share * count)]]
    got = decided(plan(*names), kept, today=TODAY)
    assert (got.outcome is DecisionOutcome.ACCEPTED) == (count > 0 and len(kept) == count)


def test_a_finite_sample_is_the_only_way_to_pass() -> None:
    assert verdict([limit(AtLeast(0.5))], measurement(sample(1.0))) is Verdict.PASS
