"""Runs the gang in the background and hands out what it says, stage by stage and subject by subject.

It must not know a limit, a verdict or what a stage is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from gpuproof.failure import JobFailure, Reason
from gpuproof.suite import Answer

OnAnswer = Callable[[str, str, Answer], None]


class Gang:
    """The answers of one gang; `start` once, then wait for them from any thread."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str], Answer] = {}
        self._changed = threading.Condition()
        self._ended = False
        self._end = JobFailure(Reason.HARNESS_ERROR, "this was not part of the gang")
        self._thread: threading.Thread | None = None
        self._on_answer: OnAnswer = _say_nothing

    def start(self, work: Callable[[], None], on_answer: OnAnswer, explain: Callable[[Exception], JobFailure]) -> None:
        """Begin in a thread of its own; `on_answer` is called for each answer before anybody waiting is woken."""
        self._on_answer = on_answer

        def run() -> None:
            end = self._end
            try:
                work()
            except Exception as error:  # noqa: BLE001 - the job runner's boundary: whatever it was, it is an answer
                end = explain(error)
            finally:
                with self._changed:
                    self._end, self._ended = end, True
                    self._changed.notify_all()

        self._thread = threading.Thread(target=run, name="gang", daemon=True)
        self._thread.start()

    def publish(self, stage: str, subject: str, answer: Answer) -> None:
        """Called by the gang's thread, once for each stage and subject."""
        self._on_answer(stage, subject, answer)
        with self._changed:
            self._answers[stage, subject] = answer
            self._changed.notify_all()

    def answer(self, stage: str, subject: str) -> Answer:
        """Wait for an answer; the gang's own deadlines bound the wait."""
        with self._changed:
            # A timeout keeps the main thread open to signals; the condition is what ends the wait.
            while (stage, subject) not in self._answers and not self._ended:
                self._changed.wait(0.5)
            return self._answers.get((stage, subject), self._end)

    def wait(self) -> None:
        """Wait until all has been said."""
        with self._changed:
            while not self._ended:
                self._changed.wait(0.5)

    def answers(self, stage: str) -> Mapping[str, Answer]:
        """What a stage has said so far, by subject."""
        with self._changed:
            return {subject: answer for (name, subject), answer in self._answers.items() if name == stage}

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread's end; whether it came."""
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()


def _say_nothing(*_: object) -> None:
    """Before the start nobody listens."""
