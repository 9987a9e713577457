"""Two step logs held against each other: every way in which a resumed training can be another one has its own word."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpuproof.continuation import (
    Killed,
    Line,
    Where,
    crashes_in_a_row,
    cut_in_two,
    judge,
    judge_damages,
    judge_final,
    landed,
    lives,
    other_writers,
)
from workloads.contract import Fact

EVERY = 3


def bits(value: float) -> str:
    return struct.pack(">d", value).hex()


def line(at_s: float, **value: Any) -> Line:
    return Line(at_s, value)


def step(at_s: float, number: int, loss: float | None = None) -> Line:
    losses = [bits(1 / number if loss is None else loss), bits(2 / number)]
    return line(at_s, e="step", step=number, loss=losses, lr=bits(number / 10), ids=[f"i{number}", "x"], opt=number)


def saved(at_s: float, number: int, **sums: str) -> list[Line]:
    parts = {"weights": f"w{number}", "optimizer": f"o{number}", "rank-0.random": f"r{number}", **sums}
    end = line(at_s + 0.1, e="save", at="end", step=number, mode="sync", sums=parts, visible_s=0.0)
    return [line(at_s, e="save", at="begin", step=number, mode="sync"), end]


def life(first: int, last: int, at_s: float = 0.0, resumed: int | None = None) -> list[Line]:
    lines = [line(at_s, e="joined", world=2, where=[])]
    if resumed is None:
        lines.append(line(at_s, e="fresh"))
    else:
        sums = saved(0, resumed)[1].value["sums"]
        lines += [line(at_s, e="chose", step=resumed), line(at_s + 1, e="resumed", step=resumed, sums=sums)]
    for number in range(first, last + 1):
        lines.append(step(at_s + 1 + number, number))
        lines += saved(at_s + 1.2 + number, number) if number % EVERY == 0 else []
    return lines


REFERENCE = life(1, 12)
BEFORE = life(1, 7)
AFTER = life(7, 9, at_s=100.0, resumed=6)
KILL = Killed("one_pod", Where.STEP, 7, 50.0, gone_s=51.0, created_s=61.0, scheduled_s=61.5, running_s=63.0)


def judged(after: list[Line], before: list[Line] = BEFORE, kill: Killed = KILL) -> tuple[dict[str, float], Any]:
    samples, facts = judge(REFERENCE, before, after, kill)
    return {sample.metric: sample.value for sample in samples if not sample.at}, facts


def changed(kind: str, change: Callable[[dict[str, Any]], dict[str, Any]], only: int | None = None) -> list[Line]:
    return [
        replace(one, value=change(dict(one.value))) if one.kind == kind and only in (None, one.step) else one
        for one in AFTER
    ]


def test_the_same_training_differs_in_nothing() -> None:
    metrics, facts = judged(AFTER)
    good: dict[str, Fact] = {
        "came_back": True,
        "counted_as_completed": False,
        "uninterrupted_in_one_piece": True,
        "other_writers": "none",
        "began_anew": False,
        "resumed_from_newest_complete": True,
        "resumed_from_complete": True,
        "restored_differently": "none",
        "passed_killed_step": True,
        "saved_again": True,
        "saved_differently": "none",
    }
    assert facts == good
    zero = [name for name in metrics if name.startswith("steps_with_other")]
    assert len(zero) == 4
    assert all(metrics[name] == 0 for name in [*zero, "steps_missing_or_repeated", "loss_difference"])
    assert (metrics["steps_lost"], metrics["steps_compared"], metrics["copies_of_a_rank"]) == (1, 3, 1)


@pytest.mark.parametrize(
    ("metric", "key", "value"),
    [
        ("steps_with_other_loss", "loss", [bits(0.5), bits(0.25)]),
        ("steps_with_other_learning_rate", "lr", bits(0.9)),
        ("steps_with_other_samples", "ids", ["i9", "x"]),
        ("steps_with_other_optimizer_count", "opt", 1),
    ],
)
def test_each_property_of_a_step_is_counted_by_itself(metric: str, key: str, value: Any) -> None:
    metrics, _ = judged(changed("step", lambda old: {**old, key: value}, only=8))
    others = {name for name, count in metrics.items() if name.startswith("steps_with_other") and count}
    assert others == {metric}
    assert metrics[metric] == 1


def test_one_bit_of_a_loss_is_a_difference() -> None:
    nearly = bits(1 / 8)[:-1] + ("1" if bits(1 / 8)[-1] == "0" else "0")
    metrics, _ = judged(changed("step", lambda old: {**old, "loss": [nearly, old["loss"][1]]}, only=8))
    assert metrics["steps_with_other_loss"] == 1
    assert 0 < metrics["loss_difference"] < 1e-12


def test_a_loss_that_is_no_number_is_as_far_away_as_can_be() -> None:
    metrics, _ = judged(changed("step", lambda old: {**old, "loss": [bits(float("nan")), old["loss"][1]]}))
    assert metrics["loss_difference"] == float("inf")


@pytest.mark.parametrize(("resumed", "newest", "complete", "lost"), [(3, False, True, 4), (7, False, False, 0)])
def test_where_it_resumed_from_is_held_against_the_saves_that_were_told(
    resumed: int, newest: bool, complete: bool, lost: int
) -> None:
    metrics, facts = judged(life(resumed + 1, 9, at_s=100.0, resumed=resumed))
    assert (facts["resumed_from_newest_complete"], facts["resumed_from_complete"]) == (newest, complete)
    assert metrics["steps_lost"] == lost


def test_a_checkpoint_that_was_chosen_and_could_not_be_read_counts_as_chosen() -> None:
    crashed = [line(100, e="joined", world=2, where=[]), line(101, e="chose", step=7)]
    _, facts = judged(crashed)
    assert facts["came_back"] is False
    assert facts["resumed_from_complete"] is False
    assert "restored_differently" not in facts


def test_beginning_anew_loses_all_steps() -> None:
    metrics, facts = judged(life(1, 9, at_s=100.0))
    assert facts["began_anew"] is True
    assert metrics["steps_lost"] == 7


def test_silence_says_only_that_it_did_not_come_back() -> None:
    metrics, facts = judged([])
    assert facts["came_back"] is False
    assert set(metrics) == {"copies_of_a_rank", "visible_after"}


def test_a_part_that_is_restored_or_saved_otherwise_is_named() -> None:
    _, facts = judged(changed("resumed", lambda old: {**old, "sums": {**old["sums"], "optimizer": "zeros"}}))
    assert facts["restored_differently"] == "optimizer"
    less = {key: value for key, value in AFTER[2].value["sums"].items() if key != "rank-0.random"}
    _, facts = judged(changed("resumed", lambda old: {**old, "sums": less}))
    assert facts["restored_differently"] == "rank-0.random"
    _, facts = judged(changed("save", lambda old: {**old, "sums": {**old.get("sums", {}), "weights": "other"}}))
    assert facts["saved_differently"] == "weights"


def test_no_common_save_is_not_the_same_save() -> None:
    _, facts = judged([one for one in AFTER if one.kind != "save"])
    assert str(facts["saved_differently"]).startswith("unknown")
    assert facts["saved_again"] is False


def test_missing_and_repeated_steps_are_counted() -> None:
    metrics, _ = judged([one for one in AFTER if one.step != 8 or one.kind != "step"])
    assert metrics["steps_missing_or_repeated"] == 1
    metrics, _ = judged([*AFTER, step(120, 9)])
    assert metrics["steps_missing_or_repeated"] == 1


def test_a_reference_that_was_interrupted_is_told() -> None:
    samples, facts = judge([*REFERENCE, line(99, e="ended", codes=[1])], BEFORE, AFTER, KILL)
    assert samples
    assert facts["uninterrupted_in_one_piece"] is False


def test_recovery_is_cut_where_the_next_thing_was_seen() -> None:
    samples, _ = judge(REFERENCE, BEFORE, AFTER, KILL)
    parts = {str(one.at["part"]): one.value for one in samples if one.metric == "recovery_time"}
    assert parts == {
        "detection": 1.0,
        "controller": 10.0,
        "scheduling": 0.5,
        "pulling_and_starting": 1.5,
        "loading": 38.0,
        "first_step": 7.0,
        "all": 58.0,
    }
    samples, _ = judge(REFERENCE, BEFORE, AFTER, replace(KILL, created_s=None))
    parts = {str(one.at["part"]): one.value for one in samples if one.metric == "recovery_time"}
    assert not parts.keys() & {"controller", "scheduling"}


def test_a_kill_inside_a_save_is_known_by_its_open_save() -> None:
    kill = replace(KILL, where=Where.SAVE, step=9)
    open_ = [*life(1, 8), step(9, 9), saved(10, 9)[0]]
    assert landed(open_, kill) is None
    assert "open save is none" in str(landed([*open_, saved(10, 9)[1]], kill))
    assert "open save is none" in str(landed(life(1, 8), kill))


def test_a_kill_between_saves_came_after_its_step() -> None:
    assert landed(BEFORE, KILL) is None
    assert "last step told is 6" in str(landed(life(1, 6), KILL))


def test_lives_begin_where_the_ranks_meet() -> None:
    assert [len(one) for one in lives([*BEFORE, *AFTER])] == [len(BEFORE), len(AFTER)]
    assert lives([]) == []


def test_final_tensors_are_compared_one_by_one() -> None:
    theirs = [line(0, e="final", step=12, sums={"weights.a": "1", "weights.b": "2"})]
    samples, facts = judge_final(theirs, [line(0, e="final", step=12, sums={"weights.a": "1", "weights.c": "2"})])
    assert {one.metric: one.value for one in samples} == {
        "final_tensors_different": 0,
        "final_tensors_missing": 1,
        "final_tensors_extra": 1,
        "final_tensors_compared": 1,
    }
    assert facts == {"final_difference": "none"}
    assert judge_final(theirs, []) == ((), {})


def test_damages_are_told_by_what_every_rank_made_of_them() -> None:
    told = [line(0, e="damaged", how="flipped_bit", outcome=["fell back", "loaded"])]
    assert judge_damages(told) == {"flipped_bit": "fell back, loaded"}


def test_another_writer_is_named_and_what_it_did() -> None:
    told = line(60.0, e="other-writer", who="killed-1-0-x on n1 (claim 1)", did="gave way")
    for reference, before, after in ([*REFERENCE, told], BEFORE, AFTER), (REFERENCE, [*BEFORE, told], AFTER):
        _, facts = judge(reference, before, after, KILL)
        assert facts["other_writers"] == "killed-1-0-x on n1 (claim 1): gave way"


@pytest.mark.parametrize(("by", "others"), [("b", "none"), ("x", "x: wrote the checkpoint of step 6"), ("", "none")])
def test_a_checkpoint_of_a_writer_that_told_of_no_save_is_another_s(by: str, others: str) -> None:
    mine = [line(1.0, e="save", at="begin", step=6, mode="sync", by="b")]
    assert other_writers(mine, [line(9.0, e="chose", step=6, by=by)]) == others


def test_failures_in_a_row_are_counted_from_where_it_last_got_further() -> None:
    failed = line(70.0, e="failed", why="x")
    assert crashes_in_a_row([failed, step(71.0, 7), failed, line(72.0, e="joined"), failed]) == 2
    assert crashes_in_a_row([step(71.0, 7), failed, step(72.0, 6), step(72.0, 7), failed, step(73.0, 8), failed]) == 1
    assert crashes_in_a_row([step(71.0, 7), failed, step(72.0, 6), step(72.0, 7), failed]) == 2
    assert crashes_in_a_row([*AFTER]) == 0


def test_how_the_weights_lay_is_what_the_trainer_found() -> None:
    _, facts = judged(changed("resumed", lambda old: {**old, "parallelism": "fsdp"}))
    assert facts["parallelism"] == "fsdp"
    assert "parallelism" not in judged(AFTER)[1]


def test_a_save_can_be_cut_when_all_have_written_and_it_has_not_ended() -> None:
    begun, ended = saved(1.0, 6)
    written = line(1.05, e="save", at="written", step=6)
    assert not cut_in_two([begun], 6)
    assert cut_in_two([begun, written], 6)
    assert not cut_in_two([begun, written], 9)
    assert not cut_in_two([begun, written, ended], 6)
    assert not cut_in_two([begun, written, line(2.0, e="joined", world=2, where=[]), begun], 6), "of an earlier life"
