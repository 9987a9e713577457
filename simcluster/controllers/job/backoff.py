"""When a failed pod of a Job may be replaced: 10 s after its end, doubled by each failure since the last success.

Owns the delays and the record behind them; must not know how a replacement is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from simcluster.controllers.job.views import PodView

LONGEST_FACTOR = 60
"""The longest delay, as a multiple of the first one (10 s to 10 min)."""


@dataclass(frozen=True)
class BackoffRecord:
    """Failures since the Job's last success, and the loop time of the latest one."""

    failures: int = 0
    last_failure: float = 0.0

    def remaining_s(self, first_s: float, now: float) -> float:
        """Seconds from `now` until the next pod may be made."""
        if self.failures == 0:
            return 0.0
        return max(0.0, self.last_failure + delay_s(first_s, self.failures - 1) - now)

    def with_ended(
        self, succeeded: Sequence[PodView], failed: Sequence[PodView], ended_at: Callable[[PodView], float]
    ) -> BackoffRecord:
        """The record after more pods have ended: a success forgets all failures before it."""
        failures = self.failures
        if succeeded:
            last_success = max(map(ended_at, succeeded))
            failed = [pod for pod in failed if ended_at(pod) > last_success]
            failures = 0
        if not failed:
            return BackoffRecord(failures, self.last_failure)
        return BackoffRecord(failures + len(failed), max(map(ended_at, failed)))


def delay_s(first_s: float, earlier_failures: int) -> float:
    """The delay after a failure that `earlier_failures` preceded."""
    return min(first_s * float(2 ** min(earlier_failures, 30)), first_s * LONGEST_FACTOR)


@dataclass
class EndTimes:
    """Loop times at which pods were first seen to end.

    The stamps in a pod's status have whole seconds, too coarse for a scaled cluster. A deleted pod's time is moved to
    the end of its containers once that is seen, as the controller of Kubernetes moves it to their finishedAt.
    """

    _deleted: dict[str, float] = field(default_factory=dict)
    _ended: dict[str, float] = field(default_factory=dict)

    def observe(self, pod: PodView, now: float) -> None:
        """Remember what this state of the pod shows for the first time."""
        if pod.ended or pod.terminal:
            self._ended.setdefault(pod.uid, now)
        if pod.deleting:
            self._deleted.setdefault(pod.uid, now)

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._deleted.pop(uid, None)
        self._ended.pop(uid, None)

    def of(self, pod: PodView) -> float:
        """When it ended; 0 where that was never seen."""
        return self._ended.get(pod.uid) or self._deleted.get(pod.uid) or 0.0
