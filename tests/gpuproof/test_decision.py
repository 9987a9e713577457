"""What a run's verdicts add up to: the plan is the denominator, and a doubt is never an acceptance."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace

import pytest

from gpuproof.decision import (
    NOT_SELECTED,
    Decision,
    DecisionOutcome,
    PlannedSubject,
    ScopeResult,
    VerdictLine,
    decide,
    exit_code,
    judge_scope,
)
from gpuproof.expectation import Cover, CoverAll, CoverCanary, CoverShare, Scope, Waiver
from gpuproof.limits import Limit, Per, Severity
from gpuproof.verdict import Judgement, Verdict, judge
from tests.gpuproof.judging import CHECK, COVERED, TODAY, context, decided, limit, line, measurement, plan, sample

ACCEPTED, REJECTED, UNDECIDED = DecisionOutcome.ACCEPTED, DecisionOutcome.REJECTED, DecisionOutcome.UNDECIDED
PASS, FAIL = Verdict.PASS, Verdict.FAIL
NOT_PASSED = [verdict for verdict in Verdict if verdict is not PASS]
TOMORROW, YESTERDAY = TODAY + dt.timedelta(days=1), TODAY - dt.timedelta(days=1)


def waiver(subject: str = "gpu-01", check: str = CHECK, expires: dt.date = TODAY) -> Waiver:
    return Waiver(check, subject, "the network team", "cable on order", expires)


def test_everything_passed_is_accepted_and_says_how_much() -> None:
    got = decided(plan("gpu-01", "gpu-02"), [line(PASS, "gpu-01"), line(PASS, "gpu-02")])
    assert got.outcome is ACCEPTED
    assert got.reasons == ("every required check passed: 2 verdicts",)
    assert got.scope == COVERED.text
    assert got.counts == {**dict.fromkeys(Verdict, 0), PASS: 2}
    assert got.waived == ()


def test_exit_codes_are_frozen() -> None:
    assert {str(outcome): exit_code(outcome) for outcome in DecisionOutcome} == {
        "ACCEPTED": 0,
        "REJECTED": 1,
        "UNDECIDED": 3,
    }


def test_a_run_of_nothing_is_undecided() -> None:
    got = decided([], [])
    assert got.outcome is UNDECIDED
    assert got.reasons == ("nothing required was planned, so nothing can be accepted",)


def test_a_plan_without_anything_required_is_undecided() -> None:
    assert decided(plan("gpu-01", required=False), [line(PASS)]).outcome is UNDECIDED


@pytest.mark.parametrize("verdict", NOT_PASSED)
def test_one_verdict_that_is_not_pass_is_never_accepted(verdict: Verdict) -> None:
    got = decided(plan("gpu-01", "gpu-02"), [line(PASS, "gpu-02"), line(verdict, "gpu-01", CHECK, "why")])
    assert got.outcome is (REJECTED if verdict is FAIL else UNDECIDED)
    assert got.reasons == (f"{CHECK} is {verdict} on gpu-01: why",)
    assert got.counts[verdict] == 1


@pytest.mark.parametrize("verdict", NOT_PASSED)
def test_what_is_not_required_does_not_decide(verdict: Verdict) -> None:
    planned = plan("gpu-01") + plan("gpu-01", check="other_check", required=False)
    got = decided(planned, [line(PASS), line(verdict, check="other_check")])
    assert got.outcome is ACCEPTED
    assert got.counts[verdict] == 1


def test_a_planned_subject_without_a_verdict_was_not_run() -> None:
    got = decided(plan("gpu-01", "gpu-02"), [line(PASS, "gpu-01")])
    assert got.outcome is UNDECIDED
    assert got.reasons == (f"{CHECK} is NOT_RUN on gpu-02: planned and not reached",)
    assert got.counts[Verdict.NOT_RUN] == 1


def test_a_verdict_for_something_unplanned_never_helps() -> None:
    got = decided(plan("gpu-01"), [line(PASS, "gpu-02"), line(PASS, check="other_check")])
    assert got.outcome is UNDECIDED
    assert sum(got.counts.values()) == 1


def test_a_verdict_filed_under_a_wrong_name_never_helps() -> None:
    for stranger in (line(PASS, "gpu-02"), line(PASS, "gpu-01", "other_check")):
        got = decide(
            plan("gpu-01"),
            {(CHECK, "gpu-01"): stranger},
            interrupted=False,
            blocking_provenance=(),
            waivers=(),
            today=TODAY,
            scope=COVERED,
        )
        assert got.outcome is UNDECIDED


def test_one_subject_planned_twice_counts_once_and_stays_required() -> None:
    planned = [*plan("gpu-01"), *plan("gpu-01", required=False)]
    got = decided(planned, [line(FAIL)])
    assert got.outcome is REJECTED
    assert got.counts[FAIL] == 1


class TestDoubts:
    def test_an_interrupt_is_undecided_even_if_all_had_passed(self) -> None:
        got = decided(plan("gpu-01"), [line(PASS)], interrupted=True)
        assert got.outcome is UNDECIDED
        assert got.reasons == ("the run was interrupted before its end",)

    def test_an_interrupt_after_a_failure_stays_rejected(self) -> None:
        got = decided(plan("gpu-01", "gpu-02"), [line(FAIL)], interrupted=True)
        assert got.outcome is REJECTED
        assert got.reasons[0].startswith(f"{CHECK} is FAIL on gpu-01")
        assert "the run was interrupted before its end" in got.reasons

    def test_a_provisional_limit_makes_acceptance_impossible(self) -> None:
        got = decided(plan("gpu-01"), [line(PASS)], blocking=["c.m is provisional (no result yet)"])
        assert got.outcome is UNDECIDED
        assert got.reasons == ("the limit c.m is provisional (no result yet)",)

    def test_a_provisional_limit_can_still_reject(self) -> None:
        assert decided(plan("gpu-01"), [line(FAIL)], blocking=["c.m is provisional"]).outcome is REJECTED

    @pytest.mark.parametrize(
        "scope",
        [
            ScopeResult("all 4 nodes", complete=False, reasons=("3 were covered",)),
            ScopeResult("all 4 nodes", complete=True, reasons=("3 were covered",)),
        ],
    )
    def test_a_scope_that_was_not_covered_is_undecided(self, scope: ScopeResult) -> None:
        got = decided(plan("gpu-01"), [line(PASS)], scope=scope)
        assert got.outcome is UNDECIDED
        assert got.reasons == ("3 were covered",)

    def test_a_scope_not_covered_for_no_reason_given_is_undecided(self) -> None:
        got = decided(plan("gpu-01"), [line(PASS)], scope=ScopeResult("all 4 nodes", complete=False))
        assert got.outcome is UNDECIDED
        assert got.reasons == ("the scope was not covered: all 4 nodes",)


class TestIdleLimits:
    """A limit that no subject was held to protects nobody, whatever all verdicts say."""

    HELD, IDLE = limit(), limit(metric="algbw", per=Per.CLUSTER)
    SAID = f"no subject of {CHECK} was held to the limit {CHECK}.algbw (site.toml, limit[3])"

    def line(self, verdict: Verdict, subject: str = "gpu-01", *held: Limit) -> VerdictLine:
        return replace(line(verdict, subject), held=frozenset(item.id for item in held))

    def decision(self, *lines: VerdictLine, limits: Sequence[Limit], waivers: Sequence[Waiver] = ()) -> Decision:
        limits = [replace(item, source_file="site.toml", key="limit[3]") for item in limits]
        return decided(plan(*(item.subject for item in lines)), lines, limits=limits, waivers=waivers)

    def test_it_makes_acceptance_impossible(self) -> None:
        got = self.decision(self.line(PASS, "gpu-01", self.HELD), limits=[self.HELD, self.IDLE])
        assert (got.outcome, got.reasons) == (UNDECIDED, (self.SAID,))

    def test_one_subject_that_was_held_to_it_is_enough(self) -> None:
        lines = [self.line(PASS, "cluster", self.IDLE), self.line(PASS, "gpu-01", self.HELD)]
        assert self.decision(*lines, limits=[self.HELD, self.IDLE]).outcome is ACCEPTED

    def test_what_does_not_decide_may_be_idle(self) -> None:
        for severity in (Severity.WARN, Severity.RECORD_ONLY):
            idle = replace(self.IDLE, severity=severity)
            assert self.decision(self.line(PASS, "gpu-01", self.HELD), limits=[idle]).outcome is ACCEPTED

    def test_a_check_that_passed_nowhere_says_enough_already(self) -> None:
        got = self.decision(self.line(Verdict.ERROR), limits=[self.HELD, self.IDLE])
        assert len(got.reasons) == 1

    def test_a_check_that_is_not_required_protects_nobody_anyway(self) -> None:
        other = limit(check="other_check")
        lines = [self.line(PASS, "gpu-01", self.HELD), line(PASS, "gpu-01", "other_check")]
        planned = plan("gpu-01") + plan("gpu-01", check="other_check", required=False)
        assert decided(planned, lines, limits=[self.HELD, other]).outcome is ACCEPTED

    def test_a_limit_on_a_waived_subject_is_waived_with_it(self) -> None:
        lines = [self.line(Verdict.ERROR, "cluster"), self.line(PASS, "gpu-01", self.HELD)]
        limits = [self.HELD, self.IDLE]
        assert self.decision(*lines, limits=limits, waivers=[waiver("cluster")]).outcome is ACCEPTED
        others = [self.line(FAIL, "gpu-02"), self.line(PASS, "gpu-01", self.HELD)]
        assert self.decision(*others, limits=limits, waivers=[waiver("gpu-02")]).outcome is UNDECIDED

    def test_a_waiver_of_another_check_excuses_nothing(self) -> None:
        lines = [self.line(PASS, "gpu-01", self.HELD), line(FAIL, "cluster", "other_check")]
        lines.append(line(PASS, "gpu-01", "other_check"))
        planned = [item for each in lines for item in plan(each.subject, check=each.check)]
        got = decided(planned, lines, limits=[self.IDLE], waivers=[waiver("cluster", "other_check")])
        assert got.outcome is UNDECIDED

    def test_a_judgement_says_what_the_subject_was_held_to(self) -> None:
        found = measurement(sample(500))
        got = VerdictLine.of(CHECK, "a", judge(CHECK, "a", found, [self.HELD, self.IDLE], context()))
        assert got.held == {self.HELD.id}


class TestWaivers:
    TWO = plan("gpu-01", "gpu-02")

    @pytest.mark.parametrize("verdict", NOT_PASSED)
    def test_a_waiver_takes_one_subject_out_and_is_printed(self, verdict: Verdict) -> None:
        got = decided(self.TWO, [line(verdict, "gpu-01"), line(PASS, "gpu-02")], waivers=[waiver()])
        assert got.outcome is ACCEPTED
        assert [str(waived) for waived in got.waived] == [
            f"{CHECK} on gpu-01 is {verdict}, waived until {TODAY} by the network team: cable on order"
        ]
        assert got.reasons == ("every required check passed: 1 verdicts", "1 more did not and are waived")

    def test_a_waiver_holds_through_its_last_day_and_no_longer(self) -> None:
        lines = [line(FAIL, "gpu-01"), line(PASS, "gpu-02")]
        assert decided(self.TWO, lines, waivers=[waiver(expires=TODAY)]).outcome is ACCEPTED
        late = decided(self.TWO, lines, waivers=[waiver(expires=YESTERDAY)])
        assert late.outcome is REJECTED
        assert late.waived == ()
        assert late.reasons[-1] == f"the waiver of the network team for {CHECK} on gpu-01 expired on {YESTERDAY}"

    def test_an_expired_waiver_of_what_passes_is_not_worth_a_word(self) -> None:
        got = decided(self.TWO, [line(PASS, "gpu-01"), line(PASS, "gpu-02")], waivers=[waiver(expires=YESTERDAY)])
        assert got.outcome is ACCEPTED
        assert got.reasons == ("every required check passed: 2 verdicts",)

    @pytest.mark.parametrize("other", [waiver("gpu-02"), waiver(check="other_check")])
    def test_a_waiver_covers_its_check_and_subject_only(self, other: Waiver) -> None:
        got = decided(self.TWO, [line(FAIL, "gpu-01"), line(PASS, "gpu-02")], waivers=[other])
        assert got.outcome is REJECTED
        assert got.waived == ()

    def test_a_waiver_of_what_passes_changes_nothing(self) -> None:
        got = decided(self.TWO, [line(PASS, "gpu-01"), line(PASS, "gpu-02")], waivers=[waiver()])
        assert (got.outcome, got.waived) == (ACCEPTED, ())

    def test_waivers_cannot_stand_in_for_a_whole_check(self) -> None:
        lines = [line(FAIL, "gpu-01"), line(FAIL, "gpu-02")]
        got = decided(self.TWO, lines, waivers=[waiver("gpu-01"), waiver("gpu-02")])
        assert got.outcome is UNDECIDED
        assert got.reasons == (f"{CHECK} passed on no subject: every one of them is waived",)
        assert len(got.waived) == 2

    def test_nor_for_one_check_of_two(self) -> None:
        planned = plan("gpu-01") + plan("gpu-01", check="other_check")
        got = decided(planned, [line(FAIL), line(PASS, check="other_check")], waivers=[waiver()])
        assert got.outcome is UNDECIDED

    def test_a_check_that_failed_everywhere_is_not_called_waived(self) -> None:
        got = decided(self.TWO, [line(FAIL, "gpu-01"), line(FAIL, "gpu-02")], waivers=[waiver("gpu-01")])
        assert got.outcome is REJECTED
        assert len(got.reasons) == 1

    def test_a_waiver_does_not_heal_an_interrupt(self) -> None:
        lines = [line(FAIL, "gpu-01"), line(PASS, "gpu-02")]
        assert decided(self.TWO, lines, waivers=[waiver()], interrupted=True).outcome is UNDECIDED


class TestReasons:
    def test_subjects_with_one_reason_share_a_sentence(self) -> None:
        names = [f"gpu-{n:02}" for n in range(1, 7)]
        lines = [line(FAIL, name, CHECK, f"busbw is {i}", code="limit_missed") for i, name in enumerate(names)]
        got = decided(plan(*names), lines)
        assert got.reasons == (f"{CHECK} is FAIL on gpu-01, gpu-02, gpu-03 and 3 more: gpu-01: busbw is 0",)

    def test_as_many_names_as_fit_are_all_written(self) -> None:
        got = decided(plan("a", "b", "c"), [line(FAIL, name, CHECK, "x") for name in "abc"])
        assert got.reasons == (f"{CHECK} is FAIL on a, b, c: a: x",)

    def test_different_reasons_stay_apart_and_the_most_important_comes_first(self) -> None:
        planned = plan("a", "b", "c", "d")
        lines = [
            line(Verdict.NOT_RUN, "a", CHECK, "blocked", code="blocked"),
            line(Verdict.ERROR, "b", CHECK, "no image", code="image_pull"),
            line(FAIL, "c", CHECK, "too slow", code="limit_missed"),
            line(FAIL, "d", CHECK, "gone", code="node_lost"),
        ]
        got = decided(planned, lines)
        assert [reason.split(":")[-1].strip() for reason in got.reasons] == ["too slow", "gone", "no image", "blocked"]

    def test_the_reason_of_more_subjects_comes_first(self) -> None:
        lines = [
            line(FAIL, "a", CHECK, "rare", code="node_lost"),
            line(FAIL, "b", CHECK, "often", code="limit_missed"),
            line(FAIL, "c", CHECK, "often", code="limit_missed"),
        ]
        assert "often" in decided(plan("a", "b", "c"), lines).reasons[0]

    def test_two_checks_do_not_share_a_sentence(self) -> None:
        planned = plan("a", check="z_check") + plan("a", check="b_check")
        got = decided(planned, [line(FAIL, "a", "z_check", "x"), line(FAIL, "a", "b_check", "x")])
        assert got.reasons == ("b_check is FAIL on a: x", "z_check is FAIL on a: x")

    def test_of_equally_many_subjects_the_check_earlier_in_the_alphabet_comes_first(self) -> None:
        verdicts = {("m_check", "c"): "one", ("z_check", "b"): "two", ("b_check", "d"): "three"}
        planned = [item for check, subject in verdicts for item in plan(subject, check=check)]
        lines = [line(FAIL, subject, check, "x", code=code) for (check, subject), code in verdicts.items()]
        assert [reason[0] for reason in decided(planned, lines).reasons] == ["b", "m", "z"]

    def test_what_the_command_line_left_out_is_one_sentence_after_all_others(self) -> None:
        checks = [f"check-{n}" for n in range(5)]
        planned = [item for check in checks for item in plan("a", "b", check=check)]
        lines = [line(Verdict.NOT_RUN, s, check, "left out", code=NOT_SELECTED) for check in checks for s in ("a", "b")]
        told = "not selected for this run: 10 answers of 5 checks: check-0, check-1, check-2 and 2 more"
        assert decided(planned, lines).reasons[0] == told
        failed = decided([*planned, *plan("a")], [*lines, line(FAIL, "a", CHECK, "why")])
        assert failed.reasons[:2] == (f"{CHECK} is FAIL on a: why", told)
        one = decided(plan("a", "b"), [line(PASS, "a"), line(Verdict.NOT_RUN, "b", CHECK, "x", code=NOT_SELECTED)])
        assert one.reasons[0] == f"not selected for this run: 1 answers of 1 checks: {CHECK}"

    def test_the_first_reason_of_the_first_subject_is_told(self) -> None:
        lines = [line(FAIL, "a", CHECK, "first", "second"), line(FAIL, "b", CHECK, "third")]
        assert decided(plan("a", "b"), lines).reasons == (f"{CHECK} is FAIL on a, b: a: first",)

    def test_blocked_subjects_are_grouped_by_their_blocker(self) -> None:
        lines = [
            VerdictLine(CHECK, "a", Verdict.NOT_RUN, ("needs x",), "blocked", "x"),
            VerdictLine(CHECK, "b", Verdict.NOT_RUN, ("needs y",), "blocked", "y"),
        ]
        assert len(decided(plan("a", "b"), lines).reasons) == 2

    def test_without_a_sentence_the_code_is_the_reason_and_without_a_code_it_says_so(self) -> None:
        assert decided(plan("a"), [line(FAIL, "a", code="node_lost")]).reasons[0].endswith(": node_lost")
        assert decided(plan("a"), [line(FAIL, "a")]).reasons[0].endswith(": no reason was recorded")

    @pytest.mark.parametrize(("count", "last"), [(12, "x"), (13, "and 1 more reasons"), (15, "and 3 more reasons")])
    def test_reasons_are_capped_and_counted(self, count: int, last: str) -> None:
        names = [f"n{i:02}" for i in range(count)]
        got = decided(plan(*names), [line(FAIL, name, CHECK, "x", code=name) for name in names])
        assert len(got.reasons) == min(count, 13)
        assert got.reasons[-1].endswith(last)

    def test_a_line_carries_all_of_a_judgement(self) -> None:
        got = VerdictLine.of(CHECK, "a", Judgement(FAIL, (), ("why",), "limit_missed"), "x")
        assert got == VerdictLine(CHECK, "a", FAIL, ("why",), "limit_missed", "x")


def scope_of(cover: Cover) -> Scope:
    return Scope({"node-pool": "train", "zone": "a"}, cover)


def visited(**days_ago: int) -> dict[str, dt.date]:
    return {node: TODAY - dt.timedelta(days=days) for node, days in days_ago.items()}


class TestScope:
    @pytest.mark.parametrize(
        ("cover", "expected", "nodes", "complete"),
        [
            (CoverAll(), 2, visited(a=0, b=0), True),
            (CoverAll(), 2, visited(a=0, b=0, c=0), True),
            (CoverAll(), 2, visited(a=0), False),
            (CoverAll(), 2, visited(a=0, b=1), False),
            (CoverAll(), 2, visited(a=0, b=-1), False),
            (CoverAll(), 0, {}, False),
            (CoverAll(), 1, {}, False),
            (CoverShare(0.7, 7), 10, visited(**{f"n{i}": 7 for i in range(7)}), True),
            (CoverShare(0.7, 7), 10, visited(**{f"n{i}": 7 for i in range(6)}), False),
            (CoverShare(0.7, 7), 10, visited(**{f"n{i}": 8 for i in range(7)}), False),
            (CoverShare(0.7, 7), 10, visited(**{f"n{i}": -1 for i in range(7)}), False),
            (CoverShare(0.75, 1), 10, visited(**{f"n{i}": 0 for i in range(7)}), False),
            (CoverShare(0.75, 1), 10, visited(**{f"n{i}": 0 for i in range(8)}), True),
            (CoverShare(0.01, 1), 10, {}, False),
            (CoverShare(0.5, 1), 0, {}, False),
            (CoverCanary({"canary": "yes"}, 2), 16, visited(a=0, b=0), True),
            (CoverCanary({"canary": "yes"}, 2), 16, visited(a=0, b=1), False),
            (CoverCanary({"canary": "yes"}, 2), 16, {}, False),
        ],
    )
    def test_it_is_covered_by_enough_nodes_that_are_recent_enough(
        self, cover: Cover, expected: int, nodes: dict[str, dt.date], complete: bool
    ) -> None:
        got = judge_scope(scope_of(cover), expected_nodes=expected, visited=nodes, today=TODAY)
        assert got.complete is complete
        assert bool(got.reasons) is not complete

    def test_it_says_what_an_acceptance_speaks_for(self) -> None:
        texts = [
            judge_scope(scope_of(cover), expected_nodes=16, visited={}, today=TODAY).text
            for cover in (CoverAll(), CoverShare(0.9, 7), CoverCanary({"canary": "yes"}, 2))
        ]
        assert texts == [
            "all 16 nodes of the pool node-pool=train, zone=a",
            "at least 15 of 16 nodes of the pool node-pool=train, zone=a, each within 7 days",
            "2 canary nodes (canary=yes) of the pool node-pool=train, zone=a, and no other node",
        ]

    def test_it_says_how_many_were_covered(self) -> None:
        got = judge_scope(scope_of(CoverAll()), expected_nodes=16, visited=visited(a=0), today=TODAY)
        text = "the scope is all 16 nodes of the pool node-pool=train, zone=a"
        assert got.reasons == (f"{text}, and 1 of them answered every required check",)

    @pytest.mark.parametrize("cover", [CoverAll(), CoverShare(1, 7), CoverCanary({"canary": "yes"}, 2)])
    def test_it_says_how_many_count_only_by_waiver(self, cover: Cover) -> None:
        nodes = visited(a=0, b=0)
        bare = judge_scope(scope_of(cover), expected_nodes=2, visited=nodes, today=TODAY)
        got = judge_scope(scope_of(cover), expected_nodes=2, visited=nodes, today=TODAY, by_waiver=1)
        assert got == ScopeResult(f"{bare.text}, 1 of them only by waiver", complete=True)

    def test_a_narrowed_run_never_covers_its_scope(self) -> None:
        got = judge_scope(
            scope_of(CoverAll()), expected_nodes=1, visited=visited(a=0), today=TODAY, narrowed="--only cuda_runtime"
        )
        assert not got.complete
        assert got.reasons == ("the run was narrowed (--only cuda_runtime), so it cannot speak for its whole scope",)

    def test_an_acceptance_carries_its_scope(self) -> None:
        scope = judge_scope(scope_of(CoverAll()), expected_nodes=1, visited=visited(a=0), today=TODAY)
        got = decided([PlannedSubject(CHECK, "a", required=True)], [line(PASS, "a")], scope=scope)
        assert (got.outcome, got.scope) == (ACCEPTED, "all 1 nodes of the pool node-pool=train, zone=a")
