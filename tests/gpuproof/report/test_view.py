"""What a record becomes, whole or torn; the decision shown is never better than what was recorded."""

from collections.abc import Callable

import pytest

from gpuproof.report import RunView
from gpuproof.report.evidence import HARD_BUDGET_CHARS
from tests.gpuproof.report import synthetic
from tests.gpuproof.report.synthetic import Lines, Script


def test_accepted_run_says_what_it_covered_and_counts_every_answer() -> None:
    view = RunView.from_record(synthetic.run(4))

    assert (view.decision.outcome, view.decision.exit_code) == ("ACCEPTED", 0)
    assert view.decision.scope == "all 4 nodes of pool node-pool=sim-train, 2 GPUs each"
    assert view.counts == {"PASS": 8}
    assert view.simulated
    assert (view.run.requests, view.run.bytes_received, view.run.seconds) == (18, 123_456, 41.7)
    assert view.problems == ()


def test_subjects_are_in_the_order_a_person_counts() -> None:
    view = RunView.from_record(synthetic.run(12))

    assert [s.subject for s in view.checks[0].subjects] == [f"gpu-{i}" for i in range(1, 13)]


def test_rejected_run_names_blocker_and_reason_of_the_bad_node() -> None:
    view = RunView.from_record(synthetic.run(4, short=["gpu-3"]))

    failed, blocked = view.find("gpu_inventory", "gpu-3"), view.find("cuda_runtime", "gpu-3")
    assert failed is not None
    assert blocked is not None
    assert (failed.verdict, failed.reason_code) == ("FAIL", "limit_missed")
    assert (blocked.verdict, blocked.blocked_by) == ("NOT_RUN", "gpu_inventory")
    assert view.decision.outcome == "REJECTED"


@pytest.mark.parametrize("short", [(), ("gpu-1",)])
def test_no_prefix_of_any_run_is_ever_accepted(short: tuple[str, ...]) -> None:
    whole = synthetic.run(4, short=short)
    decided = next(i for i, line in enumerate(whole) if line["event"] == "decision")

    for length in range(decided + 1):
        view = RunView.from_record(whole[:length])
        assert view.decision.outcome == "UNDECIDED"
        assert view.decision.exit_code == 3
        assert not view.decision.recorded
        assert "The run did not finish" in view.decision.reasons[0]


def test_no_record_with_a_line_missing_is_accepted() -> None:
    whole = synthetic.run(4)

    for place in range(len(whole)):
        view = RunView.from_record(whole[:place] + whole[place + 1 :])
        assert (view.decision.outcome, view.decision.recorded) == ("UNDECIDED", False), whole[place]


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (lambda lines: [*lines[:4], *lines[5:]], "number 5 is missing"),
        (lambda lines: lines[1:], "number 1 is missing"),
        (lambda lines: [*lines[:4], *lines[7:]], "numbers 5 to 7 are missing"),
        (lambda lines: [*lines[:5], lines[4], *lines[5:]], "line 6 is out of order"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "number 1 is missing; line 2 is out of order"),
        (lambda lines: [{**lines[0], "seq": None}, *lines[1:]], "line 1 is out of order; number 1 is missing"),
        (lambda lines: lines[:-1], "its last line, the end of the run, is missing"),
    ],
)
def test_what_is_missing_is_named(kept: Callable[[Lines], Lines], said: str) -> None:
    decision = RunView.from_record(kept(synthetic.run(4))).decision

    assert (decision.outcome, decision.exit_code) == ("UNDECIDED", 3)
    assert decision.reasons[0].startswith(f"The record says ACCEPTED, and it is not whole: {said}")


def test_many_holes_are_counted() -> None:
    lines = synthetic.run(4)
    holed = [line for line in lines if line["seq"] % 2 or line["event"] in ("decision", "run_finished")]

    reason = RunView.from_record(holed).decision.reasons[0]

    assert reason.count(" is missing;") == 5
    assert reason.endswith(" more.")


def test_rejected_with_lines_missing_is_not_shown_as_decided() -> None:
    lines = synthetic.run(4, short=["gpu-1"])

    decision = RunView.from_record([*lines[:5], *lines[6:]]).decision

    assert decision.outcome == "UNDECIDED"
    assert decision.reasons[0] == "The record says REJECTED, and it is not whole: number 6 is missing."


def test_killed_run_shows_what_was_planned_and_not_reached() -> None:
    view = RunView.from_record(synthetic.run(4, killed_after=12))

    assert view.counts["NOT_RUN"] > 0
    assert sum(view.counts.values()) == 8
    assert any("have no verdict" in reason for reason in view.decision.reasons)


def test_killed_run_with_a_fail_says_what_a_finished_one_would_be() -> None:
    view = RunView.from_record(synthetic.run(4, short=["gpu-1"], killed_after=8))

    assert view.decision.outcome == "UNDECIDED"
    assert any("would be REJECTED" in reason for reason in view.decision.reasons)


def test_decision_before_a_resume_is_void() -> None:
    lines = synthetic.run(4)
    lines.append({"seq": 999, "t": "2026-11-30T10:00:00Z", "event": "resumed", "by": "gpuproof run --resume"})

    assert RunView.from_record(lines).decision.outcome == "UNDECIDED"


def test_accepted_beside_a_required_fail_is_a_contradiction_not_an_acceptance() -> None:
    lines = synthetic.run(4, short=["gpu-2"])
    next(line for line in lines if line["event"] == "decision")["outcome"] = "ACCEPTED"

    view = RunView.from_record(lines)

    assert view.decision.outcome == "UNDECIDED"
    assert "contradicts itself" in view.decision.reasons[0]


def test_accepted_with_nothing_passed_is_a_contradiction() -> None:
    script = Script()
    synthetic.begin(script, [])
    synthetic.end(script, "ACCEPTED", [], "nothing", {})

    assert RunView.from_record(script.lines).decision.outcome == "UNDECIDED"


def _waived(expires: str, *, expired: bool) -> Lines:
    waiver = {"subject": "gpu-2", "owner": "synthetic owner", "reason": "in repair", "expires": expires}
    waivers = [{**waiver, "check": check["check"], "expired": expired} for check in synthetic.CHECKS]
    lines = synthetic.run(4, short=["gpu-2"], waivers=waivers)
    decision = next(line for line in lines if line["event"] == "decision")
    decision |= {"outcome": "ACCEPTED", "waived": ["gpu_inventory on gpu-2 is FAIL, waived by synthetic owner"]}
    return lines


def test_waived_fail_leaves_the_recorded_acceptance_alone() -> None:
    view = RunView.from_record(_waived("2027-01-01", expired=False))

    subject = view.find("gpu_inventory", "gpu-2")
    assert subject is not None
    assert subject.waiver is not None
    assert view.decision.outcome == "ACCEPTED"
    assert view.decision.waived == ("gpu_inventory on gpu-2 is FAIL, waived by synthetic owner",)


@pytest.mark.parametrize(("expires", "expired"), [("2026-01-01", True), ("2026-01-01", False), ("soon", False)])
def test_expired_waiver_excuses_nothing(expires: str, *, expired: bool) -> None:
    assert RunView.from_record(_waived(expires, expired=expired)).decision.outcome == "UNDECIDED"


def test_two_verdicts_for_one_subject_count_as_the_worse_and_are_reported() -> None:
    lines = synthetic.run(4, short=["gpu-1"])
    again = next(line for line in lines if line["event"] == "verdict" and line["verdict"] == "FAIL")
    lines.insert(-3, {**again, "verdict": "PASS", "findings": []})

    view = RunView.from_record(lines)

    subject = view.find("gpu_inventory", "gpu-1")
    assert subject is not None
    assert subject.verdict == "FAIL"
    assert any("two verdicts" in problem for problem in view.problems)


def test_verdict_after_a_resume_replaces_the_one_before() -> None:
    script = Script()
    synthetic.begin(script, ["gpu-1"])
    synthetic.verdict(script, "gpu_inventory", "gpu-1", "NOT_RUN")
    script.add("resumed", by="again")
    synthetic.verdict(script, "gpu_inventory", "gpu-1", "PASS")

    view = RunView.from_record(script.lines)

    assert [s.verdict for s in view.checks[0].subjects] == ["PASS"]
    assert view.problems == ()


def test_resumed_run_keeps_the_findings_it_settled_and_follows_its_new_plan() -> None:
    script, node_names = Script(), synthetic.names(3)
    synthetic.begin(script, node_names)
    found = [synthetic.finding("limit[0]", "gpus_allocatable", 2.0, "= 2 count")]
    synthetic.verdict(script, "gpu_inventory", "gpu-1", "PASS", findings=found)
    script.add("resumed", by=["gpuproof", "run", "--resume"])
    synthetic.begin(script, node_names[:1])
    synthetic.verdict(script, "gpu_inventory", "gpu-1", "PASS", duration_s=0.0)

    view = RunView.from_record(script.lines)

    subject = view.find("gpu_inventory", "gpu-1")
    assert subject is not None
    assert [f.observed for f in subject.findings] == [2.0]
    assert subject.duration_s == 2.5
    assert {(s.check, s.subject) for s in view.subjects if s.planned} == {
        ("gpu_inventory", "gpu-1"),
        ("cuda_runtime", "gpu-1"),
    }
    assert view.run.started_at == RunView.from_record(script.lines[:1]).run.started_at


def test_unplanned_verdict_is_shown_and_counts_for_nothing() -> None:
    script = Script()
    synthetic.begin(script, ["gpu-1"])
    synthetic.verdict(script, "gpu_inventory", "stranger", "PASS")

    view = RunView.from_record(script.lines)

    stranger = view.find("gpu_inventory", "stranger")
    assert stranger is not None
    assert not stranger.planned
    assert view.counts == {"NOT_RUN": 2}


@pytest.mark.parametrize(
    "line",
    [
        {"event": "verdict", "check": "gpu_inventory", "subject": "gpu-1", "verdict": "FINE"},
        {"event": "verdict", "subject": "gpu-1"},
        {"event": "decision", "outcome": "YES"},
        {"event": "something_newer"},
        {"event": None},
        {},
    ],
)
def test_unreadable_line_is_reported_and_never_guessed(line: dict[str, object]) -> None:
    script = Script()
    synthetic.begin(script, ["gpu-1"])

    view = RunView.from_record([*script.lines, line])

    assert len(view.problems) == 1
    assert view.decision.outcome == "UNDECIDED"
    assert view.counts == {"NOT_RUN": 2}


def test_nothing_at_all_is_undecided_and_says_so() -> None:
    view = RunView.from_record([])

    assert view.decision.outcome == "UNDECIDED"
    assert "no start" in view.problems[0]


def test_namespace_left_behind_is_a_problem_of_the_run() -> None:
    lines = synthetic.run(1)
    cleanup = next(line for line in lines if line["event"] == "cleanup")
    cleanup |= {"deleted": False, "left": ["pod/a"]}

    assert "gpuproof clean" in RunView.from_record(lines).problems[0]


def test_lone_surrogates_do_not_lose_the_line() -> None:
    lines = synthetic.run(2, unpullable=["gpu-1"])
    next(line for line in lines if line["event"] == "evidence")["text"] = "bad \udcff byte"

    view = RunView.from_record(lines)

    subject = view.find("cuda_runtime", "gpu-1")
    assert subject is not None
    assert view.problems == ()
    assert subject.evidence[0].text == "bad \\udcff byte"


def test_evidence_keeps_head_and_tail_and_says_what_was_cut() -> None:
    script = Script()
    synthetic.begin(script, ["gpu-1"])
    text = "first line\n" + "x" * 100_000 + "\nlast line"
    script.add("evidence", check="gpu_inventory", subject="gpu-1", kind="log", text=text)

    view = RunView.from_record(script.lines)

    subject = view.find("gpu_inventory", "gpu-1")
    assert subject is not None
    kept = subject.evidence[0]
    assert kept.text.startswith("first line")
    assert kept.text.endswith("last line")
    assert "cut here" in kept.text
    assert kept.cut_chars == view.run.evidence_cut_chars > 90_000


def test_evidence_of_a_whole_run_stays_below_its_budget() -> None:
    script, nodes = Script(), synthetic.names(1_500)
    synthetic.begin(script, nodes)
    for name in nodes:
        script.add("evidence", check="gpu_inventory", subject=name, kind="log", text=f"{name} " + "y" * 20_000)

    view = RunView.from_record(script.lines)

    kept = sum(len(e.text) for s in view.subjects for e in s.evidence)
    assert kept < HARD_BUDGET_CHARS + 10_000
    assert all(e.cut_chars > 0 for s in view.subjects for e in s.evidence)
