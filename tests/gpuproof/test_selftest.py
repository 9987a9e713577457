"""The self-test judges itself: a fault not caught, caught by the wrong check or for the wrong reason is noticed."""

from __future__ import annotations

import pytest

from gpuproof.selftest import Expectation, Fault, Key, Reached, Row, complaints

PASS = Row("PASS", None, None)
FAULT = Fault(
    id="f",
    title="t",
    mechanism="m",
    expects=(Expectation(check="a", subject="n1", verdict="FAIL", reason="node_lost"),),
)
FAILED = Row("FAIL", "node_lost", None)
BLOCKED = Row("NOT_RUN", "blocked", "a")
CAUGHT: dict[Key, Row] = {("a", "n1"): FAILED, ("a", "n2"): PASS, ("b", "n1"): BLOCKED, ("b", "n2"): PASS}


def reached(rows: dict[Key, Row], outcome: str = "REJECTED", code: int = 1) -> Reached:
    return Reached(outcome, code, rows, "")


def test_a_fault_that_is_caught_as_it_must_be_raises_no_complaint() -> None:
    assert complaints(FAULT, reached(CAUGHT)) == []
    assert complaints(None, reached(dict.fromkeys(CAUGHT, PASS), "ACCEPTED", 0)) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({("a", "n1"): PASS}, "expected FAIL"),
        ({("a", "n1"): Row("ERROR", "node_lost", None)}, "expected FAIL"),
        ({("a", "n1"): Row("FAIL", "limit_missed", None)}, "expected node_lost"),
        ({("a", "n2"): FAILED}, "must not touch"),
        ({("b", "n2"): Row("NOT_RUN", "blocked", "c")}, "must not touch"),
        ({("b", "n2"): Row("RECORDED", None, None)}, "must not touch"),
    ],
)
def test_every_difference_is_named(change: dict[Key, Row], said: str) -> None:
    assert any(said in text for text in complaints(FAULT, reached(CAUGHT | change)))


def test_a_wrong_decision_or_exit_code_is_a_difference() -> None:
    assert complaints(FAULT, reached(CAUGHT, "UNDECIDED", 3))
    assert complaints(FAULT, reached(CAUGHT, "REJECTED", 0))
    assert complaints(None, reached(CAUGHT, "ACCEPTED", 0))


def test_a_fault_to_cope_with_is_one_that_every_check_passes() -> None:
    coped = Fault(id="c", title="t", mechanism="m", expects=(Expectation(check="a", subject="n1", verdict="PASS"),))
    rows = dict.fromkeys(CAUGHT, PASS)
    assert complaints(coped, reached(rows, "ACCEPTED", 0)) == []
    assert complaints(coped, reached(rows, "UNDECIDED", 3), only=["a"]) == []
    assert complaints(coped, reached(CAUGHT))


def test_a_subject_that_was_never_asked_is_a_difference() -> None:
    assert any("not asked" in text for text in complaints(FAULT, reached({("a", "n2"): PASS})))
