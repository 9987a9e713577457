"""A load held against what an exporter told: the right pod, the right GPUs, at the right time, by either clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from gpuproof.finding import Context
from gpuproof.telemetry.attribution import Question, attribution_of, measured_interval_s
from gpuproof.telemetry.exposition import Series
from gpuproof.telemetry.history import MAX_SCRAPES, NodeHistory, Scrape
from gpuproof.telemetry.readings import ENERGY, POWER, USED, UTILISATION, XID, Holder, read_gpus
from gpuproof.telemetry.windows import Sight, clock_offset_s
from gpuproof.verdict import Judgement, Verdict, judge
from tests.gpuproof.telemetry.pages import EXPORTER, PROFILE, SETTINGS, UUIDS
from workloads.contract import Fact, Measurement, Sample

CHECK = "dcgm_attribution"
START, HOLD, GAP, END = 1000.0, 10.0, 1.0, 1042.0
POD = Holder("run-ns", "load-0", "measure")

Tell = Callable[[int, float], Mapping[str, float] | None]
"""What an exporter tells of a GPU at a time; None where it leaves it out."""
Name = Callable[[int, float], Holder | None]


def busy(gpu: int, at: float) -> bool:
    """GPU 0 has the first turn, GPU 1 the second."""
    began = START + gpu * (HOLD + GAP)
    return began <= at < began + HOLD


def healthy(gpu: int, at: float) -> Mapping[str, float]:
    """Values of a GPU that is busy in its turn: 400 W instead of 70 W, 48 MiB more."""
    now = busy(gpu, at)
    passed = min(max(at - START - gpu * (HOLD + GAP), 0.0), HOLD)
    return {
        UTILISATION: 90.0 if now else 0.0,
        POWER: 400.0 if now else 70.0,
        USED: 58.0 if now else 4.0,
        ENERGY: 70e3 * (at - 900) + 330e3 * passed,
        XID: 0.0,
    }


def named(gpu: int, at: float) -> Holder | None:
    """The load's pod while it is there."""
    return POD if START - 1 <= at < START + 2 * HOLD + GAP + 1 else None


def history(tell: Tell = healthy, name: Name = named, *, every_s: float = 0.5) -> NodeHistory:
    """What a harness keeps that looks every so often."""
    found = NodeHistory("n1")
    found.listed([EXPORTER])
    steps = int((END - 990.0) / every_s)
    for step in range(steps):
        at = 990.0 + step * every_s
        series = []
        for gpu, uuid in enumerate(UUIDS):
            holder = name(gpu, at)
            pods = {} if holder is None else dict(vars(holder))
            labels = {"gpu": str(gpu), "UUID": uuid, **pods}
            series += [Series(field, labels, value, "gauge") for field, value in (tell(gpu, at) or {}).items()]
        found.add(Scrape("n1", "ns/exporter", at - 0.01, at + 0.01, 1, "text 0.0.4", read_gpus(series)))
    return found


def load(ahead_s: float = 0.0) -> Measurement:
    """What the load says, by a clock of its own."""
    samples = []
    for gpu in (0, 1):
        began = START + gpu * (HOLD + GAP) + ahead_s
        told = (("load_began", began), ("load_ended", began + HOLD), ("load_memory", 48.0), ("load_busy", 0.9))
        samples += [Sample(metric, value, "x", {"gpu": gpu}) for metric, value in told]
    facts: dict[str, Fact] = {"gpu_uuid": list(UUIDS), "load_error": ["none"]}
    return Measurement("exporter_load", "r", "n1", "load-0", 1, 1, tuple(samples), facts)


def asked(ahead_s: float = 0.0) -> Question:
    sight = Sight(START - 2.0, START + 2 * HOLD + GAP + 0.1)
    return Question(load(ahead_s), sight, POD, ended_by=START + 2 * HOLD + GAP + 1.5, interval_s=0.5)


def judged(found: NodeHistory, question: Question | None = None) -> Judgement:
    told = attribution_of(found, SETTINGS, question or asked())
    whole = replace(told, facts={**told.facts, "load_error": ["none"]})
    return judge(CHECK, "n1", whole, PROFILE.limits_for(CHECK), Context(PROFILE.cluster))


def missed(judgement: Judgement) -> set[str]:
    return {finding.metric for finding in judgement.findings if finding.decisive and finding.outcome == "missed"}


def test_a_sound_exporter_passes() -> None:
    got = judged(history())
    assert (got.verdict, got.reasons) == (Verdict.PASS, ())


@pytest.mark.parametrize("ahead_s", [-3600.0, -1.0, 1.0, 3600.0])
def test_a_node_whose_clock_is_wrong_passes_too(ahead_s: float) -> None:
    assert judged(history(), asked(ahead_s)).verdict is Verdict.PASS


def test_clocks_that_fit_are_left_alone() -> None:
    sight = Sight(asked=100.0, arrived=130.0)
    assert clock_offset_s(sight, began=102.0, emitted=129.0) == 0
    assert clock_offset_s(sight, began=90.0, emitted=117.0) == 10
    assert clock_offset_s(sight, began=112.0, emitted=139.0) == -9


def frozen(gpu: int, at: float) -> Mapping[str, float]:
    return healthy(gpu, 990.0)


def one_frozen(gpu: int, at: float) -> Mapping[str, float]:
    return healthy(gpu, 990.0 if gpu == 1 else at)


def swapped(gpu: int, at: float) -> Mapping[str, float]:
    return healthy(1 - gpu, at)


def never_falls(gpu: int, at: float) -> Mapping[str, float]:
    return {**healthy(gpu, at), UTILISATION: 90.0 if at >= START + gpu * (HOLD + GAP) else 0.0}


def dead_energy(gpu: int, at: float) -> Mapping[str, float]:
    return {**healthy(gpu, at), ENERGY: 5.0}


def less_memory(gpu: int, at: float) -> Mapping[str, float]:
    return {**healthy(gpu, at), USED: 10.0 if busy(gpu, at) else 4.0}


def new_xid(gpu: int, at: float) -> Mapping[str, float]:
    return {**healthy(gpu, at), XID: 94.0 if gpu == 1 and at > 1012 else 0.0}


@pytest.mark.parametrize(
    ("tell", "named_as"),
    [
        (frozen, {"frozen", "utilisation_under_load", "power_rise", "memory_rise", "energy_rise"}),
        (one_frozen, {"frozen", "utilisation_under_load", "power_rise", "memory_rise", "energy_rise"}),
        (swapped, {"utilisation_under_load", "utilisation_idle", "power_rise", "memory_rise"}),
        (never_falls, {"utilisation_idle", "utilisation_after"}),
        (dead_energy, {"energy_rise"}),
        (less_memory, {"memory_rise"}),
        (new_xid, {"xid_changed"}),
    ],
)
def test_values_that_do_not_follow_the_load(tell: Tell, named_as: set[str]) -> None:
    got = judged(history(tell))
    assert (got.verdict, missed(got)) == (Verdict.FAIL, named_as)


def nobody(gpu: int, at: float) -> Holder | None:
    return None


def empty(gpu: int, at: float) -> Holder | None:
    return Holder("", "", "")


def another(gpu: int, at: float) -> Holder | None:
    return named(gpu, at) and Holder("team", "train-0", "main")


def late(gpu: int, at: float) -> Holder | None:
    return POD if START + 4 <= at < START + 2 * HOLD + GAP + 1 else None


def stays(gpu: int, at: float) -> Holder | None:
    return POD if at >= START - 1 else None


@pytest.mark.parametrize(
    ("name", "named_as", "why"),
    [
        (nobody, {"attribution"}, "no pod labels"),
        (empty, {"attribution"}, "empty"),
        (another, {"attribution"}, "team/train-0/main, expected run-ns/load-0/measure"),
        (late, {"attribution"}, "no pod labels"),
        (stays, {"stale_pod"}, "run-ns/load-0/measure on"),
    ],
)
def test_labels_of_nobody_of_another_and_of_one_who_is_gone(name: Name, named_as: set[str], why: str) -> None:
    got = judged(history(name=name))
    assert (got.verdict, missed(got)) == (Verdict.FAIL, named_as)
    assert any(why in reason for reason in got.reasons), got.reasons


def test_an_old_xid_is_told_and_fails_nobody() -> None:
    got = judged(history(lambda gpu, at: {**healthy(gpu, at), XID: 43.0}))
    assert got.verdict is Verdict.PASS
    (said,) = [finding for finding in got.findings if finding.metric == "xid_old" and finding.at == {"item": 0}]
    assert (said.outcome, "XID 43 from before the run" in said.text) == ("missed", True)


def test_without_a_page_under_load_nothing_is_met() -> None:
    blind = history(lambda gpu, at: None if START - 1 < at < START + 2 * HOLD + GAP else healthy(gpu, at))
    got = judged(blind)
    assert got.verdict is Verdict.FAIL
    assert missed(got) == {"attribution"}
    assert any("it was on no page" in reason for reason in got.reasons)


def test_an_exporter_that_fails_under_load_fails_and_one_that_was_not_asked_is_an_error() -> None:
    sound = history()
    failing, unasked = (NodeHistory("n1") for _ in range(2))
    for each in sound.scrapes:
        under_load = START - 1 < each.at < START + 2 * HOLD + GAP + 1
        failing.add(Scrape("n1", "ns/exporter", each.began, each.ended, error="HTTP 500") if under_load else each)
        if not under_load:
            unasked.add(each)
    assert judged(unasked).verdict is Verdict.ERROR
    got = judged(failing)
    assert (got.verdict, missed(got)) == (Verdict.FAIL, {"attribution"})
    assert any("HTTP 500" in reason for reason in got.reasons)


def test_a_load_shorter_than_two_intervals_is_none() -> None:
    got = judged(history(), replace(asked(), interval_s=6.0))
    assert "intervals_held" in missed(got)


def test_gpu_time_is_summed_between_good_looks() -> None:
    told = history().gpu_time
    assert told.watched_s == pytest.approx(2 * 51.5, abs=0.1)
    assert told.allocated_s == pytest.approx(2 * 23.0, abs=1.1)
    assert told.busy_s == pytest.approx(2 * 0.9 * HOLD, abs=1.0)


def test_the_interval_is_measured_from_changes() -> None:
    def every_two_seconds(gpu: int, at: float) -> Mapping[str, float]:
        return healthy(gpu, at - at % 2)

    assert measured_interval_s(history(every_two_seconds)) == pytest.approx(2.0)
    assert measured_interval_s(history(frozen)) is None


def test_a_history_is_bounded_and_counts_restarts() -> None:
    found = history(every_s=0.01)
    assert (len(found.scrapes), found.asked) == (MAX_SCRAPES, 5200)
    found.listed([replace(EXPORTER, restarts=2)])
    found.listed([replace(EXPORTER, uid="uid-2")])
    assert found.restarts == 3
    found.listed([replace(EXPORTER, problem="it is not ready: CrashLoopBackOff")])
    assert found.exporter is None
