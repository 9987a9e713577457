"""Whether and when a container is started again (golden 13: at once, then after 10, 20, 40 … seconds).

Owns policy and delays. Pure: it must not know processes or the API.
"""

from __future__ import annotations

from simcluster.node.status import Role
from simcluster.timing import Timing

_FIRST_S = 1.0
_BACKOFF_S = 10.0
_LONGEST_S = 300.0


class Restarts:
    """The restarts of one container; `delay_s` is the (scaled) time to wait before the next start."""

    def __init__(self, role: Role, policy: str, timing: Timing) -> None:
        self.delay_s = 0.0
        self._role = role
        self._policy = policy
        self._timing = timing

    def wanted(self, exit_code: int | None) -> bool:
        """Whether a container that ended with this code is to be started again."""
        if self._role == "sidecar" or self._policy == "Always":
            return True
        return self._policy == "OnFailure" and exit_code != 0

    @property
    def possible(self) -> bool:
        """Whether the container is started again at all after it was killed for its liveness probe."""
        return self._role == "sidecar" or self._policy != "Never"

    @property
    def is_first(self) -> bool:
        """No restart yet: the first one comes at once, and is not called a back-off."""
        return self.delay_s == 0.0

    @property
    def shown_s(self) -> int:
        """The coming back-off in a real cluster's seconds, as messages name it."""
        return round(self._next() / self._timing.scale)

    @property
    def upcoming_s(self) -> float:
        """The coming delay."""
        return self._next()

    def advance(self) -> None:
        """The container has ended once more."""
        self.delay_s = self._next()

    def _next(self) -> float:
        if self.is_first:
            return self._timing.s(_FIRST_S)
        backoff_s = self._timing.s(_BACKOFF_S)
        return backoff_s if self.delay_s < backoff_s else min(self.delay_s * 2, self._timing.s(_LONGEST_S))
