"""What a resumed run takes over: only what the last line of the record settled, and what it was settled with."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gpuproof import describe
from gpuproof.resume import earlier_measurements, earlier_verdicts
from gpuproof.verdict import Verdict
from tests.gpuproof.judging import measurement, sample
from workloads.contract import Measurement

SHA = "5f" * 32
STARTED = {"event": "run_started", "profile": {"sha256": SHA}}


def line(verdict: str, *held: str, subject: str = "gpu-01", reasons: tuple[str, ...] = ()) -> dict[str, Any]:
    findings = [{"limit_id": name} for name in held]
    base = {"event": "verdict", "check": "c", "subject": subject}
    return {**base, "verdict": verdict, "reasons": reasons, "findings": findings}


def settled(*lines: dict[str, Any]) -> dict[str, Verdict]:
    return {subject: got.verdict for (_, subject), got in earlier_verdicts([STARTED, *lines], SHA).items()}


def test_what_was_measured_is_settled_and_nothing_else() -> None:
    for verdict in Verdict:
        kept = {"gpu-01": verdict} if verdict in ("PASS", "FAIL", "RECORDED") else {}
        assert settled(line(str(verdict))) == kept


@pytest.mark.parametrize("later", ["ERROR", "NOT_RUN", "NOT_APPLICABLE"])
def test_a_pass_that_a_later_line_took_back_is_asked_again(later: str) -> None:
    assert settled(line("PASS"), line(later)) == {}
    assert settled(line("PASS"), line(later), line("PASS")) == {"gpu-01": Verdict.PASS}
    assert settled(line("PASS"), line(later, subject="gpu-02")) == {"gpu-01": Verdict.PASS}


def test_the_last_of_two_settled_verdicts_counts() -> None:
    assert settled(line("PASS"), line("FAIL")) == {"gpu-01": Verdict.FAIL}


def test_the_limits_it_was_held_to_outlive_a_repetition_without_findings() -> None:
    def held(*lines: dict[str, Any]) -> frozenset[str]:
        return earlier_verdicts([STARTED, *lines], SHA)["c", "gpu-01"].held

    assert held(line("PASS", "c.a", "c.b", "c.b")) == {"c.a", "c.b"}
    assert held(line("PASS", "c.a"), line("PASS")) == {"c.a"}
    assert held(line("PASS", "c.a"), line("PASS", "c.b")) == {"c.b"}
    assert held(line("FAIL", "c.a"), line("PASS")) == frozenset()


@pytest.mark.parametrize(
    ("lines", "said"), [([], "no run_started line"), ([STARTED], "judged by a profile with sha256")]
)
def test_another_profile_or_no_run_is_nothing_to_continue(lines: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        earlier_verdicts(lines, "another")


def written(found: Measurement, workload: str = "some_workload") -> dict[str, Any]:
    facts = {"workload": workload, "subject": found.node, "pod": found.pod, "facts": dict(found.facts)}
    return {"event": "measurement", "check": "c", "samples": describe.samples(found), **facts}


def test_measurements_are_read_back_as_they_were() -> None:
    found = measurement(sample(7, gpu=0, dtype="x"), facts={"uuid": ["a", "b"]})
    [got] = earlier_measurements([STARTED, written(found)])["c", found.node]
    assert (got.workload, got.node, got.samples, got.facts) == (found.workload, found.node, found.samples, found.facts)


def test_the_last_measurement_of_each_workload_counts() -> None:
    lines = [written(measurement(sample(1))), written(measurement(sample(2))), written(measurement(sample(3)), "other")]
    got = earlier_measurements(lines)["c", "gpu-01"]
    assert [item.samples[0].value for item in got] == [2, 3]


def test_what_was_not_finite_comes_back_from_its_word() -> None:
    lines = [written(measurement(sample(0)))]
    for word, value in (("NaN", math.nan), ("Infinity", math.inf), ("-Infinity", -math.inf)):
        lines[0]["samples"][0]["value"] = word
        [got] = earlier_measurements(lines)["c", "gpu-01"]
        assert got.samples[0].value == value or (math.isnan(value) and math.isnan(got.samples[0].value))
