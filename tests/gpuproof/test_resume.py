"""What a resumed run takes over: only what the last line of the record settled, and what it was settled with."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pytest

from gpuproof import describe
from gpuproof.decision import Key, VerdictLine
from gpuproof.resume import Circumstances, Earlier, ResumeError, read_earlier
from gpuproof.verdict import Verdict
from tests.gpuproof.judging import measurement, sample
from workloads.contract import Measurement

HERE = Circumstances("5f" * 32, "0.1.0", "uid-of-the-cluster", {"image": "a"})
NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
STARTED: dict[str, Any] = {
    "event": "run_started",
    "t": "2026-11-30T11:00:00.000Z",
    "profile": {"sha256": HERE.profile_sha256},
    "gpuproof": HERE.gpuproof,
    "cluster": {"uid": HERE.cluster_uid},
    "pod_patch": {"image": "a"},
}
LOOKED = {"event": "inventory", "nodes": [{"name": name, "uid": f"uid-{name}"} for name in ("gpu-01", "gpu-02")]}


def earlier(*lines: dict[str, Any], now: dt.datetime = NOW) -> Earlier:
    return read_earlier([STARTED, LOOKED, *lines], now, HERE)


def earlier_verdicts(*lines: dict[str, Any]) -> dict[Key, VerdictLine]:
    return earlier(*lines).usable({"gpu-01": "uid-gpu-01", "gpu-02": "uid-gpu-02"})


def line(verdict: str, *held: str, subject: str = "gpu-01", reasons: tuple[str, ...] = ()) -> dict[str, Any]:
    findings = [{"limit_id": name} for name in held]
    base = {"event": "verdict", "check": "c", "subject": subject}
    return {**base, "verdict": verdict, "reasons": reasons, "findings": findings, "reason_code": None}


def settled(*lines: dict[str, Any]) -> dict[str, Verdict]:
    return {subject: got.verdict for (_, subject), got in earlier_verdicts(*lines).items()}


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
        return earlier_verdicts(*lines)["c", "gpu-01"].held

    assert held(line("PASS", "c.a", "c.b", "c.b")) == {"c.a", "c.b"}
    assert held(line("PASS", "c.a"), line("PASS")) == {"c.a"}
    assert held(line("PASS", "c.a"), line("PASS", "c.b")) == {"c.b"}
    assert held(line("FAIL", "c.a"), line("PASS")) == frozenset()


def test_a_record_without_a_beginning_is_nothing_to_continue() -> None:
    with pytest.raises(ResumeError, match="no run_started line"):
        read_earlier([line("PASS")], NOW, HERE)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"profile": {"sha256": "other"}}, "another profile"),
        ({"gpuproof": "0.0.9"}, "another version"),
        ({"cluster": {"uid": "other"}}, "another cluster"),
        ({"cluster": {}}, "another cluster"),
        ({"pod_patch": {"image": "b"}}, "another pod image"),
        ({"t": "2026-11-28T11:00:00.000Z"}, "more than"),
        ({"t": "2026-11-30T13:00:00.000Z"}, "more than"),
    ],
)
def test_a_run_under_other_circumstances_is_not_continued(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ResumeError, match=said):
        read_earlier([{**STARTED, **change}, LOOKED, line("PASS")], NOW, HERE)


def test_a_run_that_was_decided_is_finished_unless_it_was_interrupted() -> None:
    with pytest.raises(ResumeError, match="finished"):
        earlier({"event": "decision", "reasons": ["every required check passed: 9 verdicts"]})
    earlier({"event": "decision", "reasons": ["the run was interrupted before its end"]})


def test_a_node_that_is_another_one_by_now_is_asked_again() -> None:
    found = earlier(line("PASS"), line("PASS", subject="gpu-02"))
    assert set(found.usable({"gpu-01": "uid-gpu-01", "gpu-02": "made anew"})) == {("c", "gpu-01")}
    assert found.usable({}) == {}


def written(found: Measurement, workload: str = "some_workload") -> dict[str, Any]:
    facts = {"workload": workload, "subject": found.node, "pod": found.pod, "facts": dict(found.facts)}
    return {"event": "measurement", "check": "c", "samples": describe.samples(found), **facts}


def test_measurements_are_read_back_as_they_were() -> None:
    found = measurement(sample(7, gpu=0, dtype="x"), facts={"uuid": ["a", "b"]})
    [got] = earlier(written(found)).measurements["c", found.node]
    assert (got.workload, got.node, got.samples, got.facts) == (found.workload, found.node, found.samples, found.facts)


def test_the_last_measurement_of_each_workload_counts() -> None:
    lines = [written(measurement(sample(1))), written(measurement(sample(2))), written(measurement(sample(3)), "other")]
    got = earlier(*lines).measurements["c", "gpu-01"]
    assert [item.samples[0].value for item in got] == [2, 3]


def test_what_was_not_finite_comes_back_from_its_word() -> None:
    lines = [written(measurement(sample(0)))]
    for word, value in (("NaN", math.nan), ("Infinity", math.inf), ("-Infinity", -math.inf)):
        lines[0]["samples"][0]["value"] = word
        [got] = earlier(*lines).measurements["c", "gpu-01"]
        assert got.samples[0].value == value or (math.isnan(value) and math.isnan(got.samples[0].value))
