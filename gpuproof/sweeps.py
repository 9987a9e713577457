"""Runs each workload once over all nodes that can be asked, in the background, and hands out answers node by node.

One Job a workload and check, started when its first answer is asked for. It must not know a limit or a verdict.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpuproof.failure import JobFailure, Reason
from gpuproof.jobs import NotVisited, SweepRequest, Visited
from gpuproof.suite import Answer

RunSweep = Callable[[SweepRequest, Callable[[Visited | NotVisited], None], threading.Event], None]
"""Blocks until every candidate of the request has been handed out."""


@dataclass
class Sweep:
    """One workload over many nodes; answers appear one by one."""

    request: SweepRequest
    visits: dict[str, Visited] = field(default_factory=dict)
    """Nodes that have measured, with pod and times."""
    _answers: dict[str, Answer] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _ended: bool = False
    _thread: threading.Thread | None = None

    def start(
        self,
        run_sweep: RunSweep,
        stop: threading.Event,
        on_result: Callable[[Visited | NotVisited], None],
        explain: Callable[[Exception], JobFailure],
    ) -> None:
        """Begin in a thread of its own, which calls `on_result` for every node before anybody waiting is woken."""

        def took(result: Visited | NotVisited) -> None:
            on_result(result)
            with self._changed:
                if isinstance(result, Visited):
                    self.visits[result.node] = result
                self._answers[result.node] = result.measurement if isinstance(result, Visited) else result.failure
                self._changed.notify_all()

        def work() -> None:
            end = JobFailure(Reason.HARNESS_ERROR, "the sweep ended without a word about this node")
            try:
                run_sweep(self.request, took, stop)
            except Exception as error:  # noqa: BLE001 - the job runner's boundary: whatever it was, it is an answer
                end = explain(error)
            finally:
                with self._changed:
                    for node in self.request.candidates:
                        self._answers.setdefault(node, end)
                    self._ended = True
                    self._changed.notify_all()

        self._thread = threading.Thread(target=work, name=f"sweep-{self.request.workload}", daemon=True)
        self._thread.start()

    def answer(self, node: str) -> Answer:
        """Wait for the node's answer; the sweep's own deadlines bound the wait."""
        with self._changed:
            # A timeout keeps the main thread open to signals; the condition is what ends the wait.
            while node not in self._answers and not self._ended:
                self._changed.wait(0.5)
            return self._answers.get(node) or JobFailure(
                Reason.HARNESS_ERROR, f"{node} was not part of the sweep of {self.request.workload}"
            )

    def wait(self) -> None:
        """Wait until every node has answered."""
        with self._changed:
            while not self._ended:
                self._changed.wait(0.5)

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread's end; whether it came."""
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def answers(self) -> Mapping[str, Answer]:
        """What is known so far."""
        with self._changed:
            return dict(self._answers)
