"""A sweep in the background: answers are handed out as they come, and no node is ever left without one."""

from __future__ import annotations

import threading
from collections.abc import Callable

from gpuproof.expectation import Deadlines
from gpuproof.failure import JobFailure, Reason
from gpuproof.jobs import NotVisited, SweepRequest, Timings, Visited
from gpuproof.sweeps import Sweep
from workloads.contract import Measurement

REQUEST = SweepRequest("c", "w", {}, ("a", "b"), 1, Deadlines(1, 1, 1, 1, 1))
OnResult = Callable[[Visited | NotVisited], None]


def visited(node: str) -> Visited:
    return Visited(node, "pod", 0, Measurement("w", "r", node, "pod", 1, 1), Timings(0, 0, 0))


def explain(error: Exception) -> JobFailure:
    return JobFailure(Reason.HARNESS_ERROR, str(error))


def ignore(_result: object) -> None:
    return


def test_an_answer_is_there_before_the_sweep_has_ended() -> None:
    go = threading.Event()

    def run(_request: SweepRequest, took: OnResult, _stop: threading.Event) -> None:
        took(visited("a"))
        assert go.wait(10)
        took(NotVisited("b", None, JobFailure(Reason.NODE_LOST, "gone")))

    sweep = Sweep(REQUEST)
    sweep.start(run, threading.Event(), ignore, explain)
    assert isinstance(sweep.answer("a"), Measurement)
    assert set(sweep.answers) == {"a"}
    go.set()
    assert sweep.answer("b") == JobFailure(Reason.NODE_LOST, "gone")
    assert sweep.join(10)


def test_a_sweep_that_breaks_answers_for_every_open_node() -> None:
    def run(_request: SweepRequest, took: OnResult, _stop: threading.Event) -> None:
        took(visited("a"))
        raise RuntimeError("broke")

    sweep = Sweep(REQUEST)
    sweep.start(run, threading.Event(), ignore, explain)
    assert isinstance(sweep.answer("a"), Measurement)
    assert sweep.answer("b") == JobFailure(Reason.HARNESS_ERROR, "broke")


def test_a_sweep_that_forgets_a_node_says_so() -> None:
    def run(_request: SweepRequest, _took: OnResult, _stop: threading.Event) -> None:
        return

    sweep = Sweep(REQUEST)
    sweep.start(run, threading.Event(), ignore, explain)
    for node in ("a", "b", "never asked"):
        answer = sweep.answer(node)
        assert isinstance(answer, JobFailure)
        assert answer.reason is Reason.HARNESS_ERROR


def test_every_result_is_recorded_before_anybody_is_told() -> None:
    recorded: list[str] = []

    def run(_request: SweepRequest, took: OnResult, _stop: threading.Event) -> None:
        for node in REQUEST.candidates:
            took(visited(node))

    sweep = Sweep(REQUEST)
    sweep.start(run, threading.Event(), lambda result: recorded.append(result.node), explain)
    sweep.answer("b")
    assert recorded == ["a", "b"]
