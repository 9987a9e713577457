"""Several answers about one subject: the verdict is never better than the worst of them."""

from __future__ import annotations

import datetime as dt

import pytest

from gpuproof.conclusion import conclude
from gpuproof.expectation import ClusterExpectation
from gpuproof.failure import JobFailure, Reason
from gpuproof.finding import Context
from gpuproof.limits import AtLeast, Contract, Limit, Severity
from gpuproof.suite import Answer
from gpuproof.verdict import FAILURE_VERDICTS, Verdict
from workloads.contract import Fact, Measurement, Sample

CONTEXT = Context(ClusterExpectation("X", 2, 1, "nvidia.com/gpu", "cpu"))
BASIS = Contract("contract", "1", dt.date(2026, 11, 30))
LIMITS = tuple(
    Limit(f"c.{name}", "c", AtLeast(2), Severity.FAIL, BASIS, metric=name, unit="count") for name in ("api", "pod")
)


def says(metric: str, value: float, facts: dict[str, Fact] | None = None) -> Measurement:
    return Measurement("w", "r", "n", "p", 1, 1, (Sample(metric, value, "count"),), facts or {})


def verdict_of(*answers: Answer) -> Verdict:
    return conclude("c", "n", answers, LIMITS, CONTEXT).verdict


def test_all_answers_together_pass_only_when_each_limit_is_met() -> None:
    assert verdict_of(says("api", 2), says("pod", 2)) is Verdict.PASS
    assert verdict_of(says("api", 2), says("pod", 1)) is Verdict.FAIL
    assert verdict_of(says("api", 2)) is Verdict.ERROR
    assert verdict_of() is Verdict.ERROR


@pytest.mark.parametrize("reason", list(Reason))
def test_a_failure_among_the_answers_forbids_pass(reason: Reason) -> None:
    failure = JobFailure(reason, "why it failed")
    judgement = conclude("c", "n", [says("api", 2), failure], LIMITS, CONTEXT)
    assert judgement.verdict is FAILURE_VERDICTS[reason]
    assert "why it failed" in judgement.reasons


def test_a_measured_miss_outweighs_a_failure_and_both_are_named() -> None:
    judgement = conclude("c", "n", [says("api", 1), JobFailure(Reason.IMAGE_PULL, "no image")], LIMITS, CONTEXT)
    assert judgement.verdict is Verdict.FAIL
    assert "no image" in judgement.reasons
    assert any("api" in reason for reason in judgement.reasons)


def test_two_sources_for_one_number_are_an_error_and_neither_wins() -> None:
    assert verdict_of(says("api", 2), says("api", 9), says("pod", 2)) is Verdict.ERROR
    twice = {"driver": "1"}
    assert verdict_of(says("api", 2, dict(twice)), says("pod", 2, dict(twice))) is Verdict.ERROR
