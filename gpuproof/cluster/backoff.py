"""How long to wait before a request is tried again, and until when.

It must not know what is requested.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Patience:
    """Seconds: `first_s` doubles up to `longest_s` between attempts; after `give_up_s` without success it is over."""

    first_s: float = 0.2
    longest_s: float = 5.0
    give_up_s: float = 60.0
    connect_s: float = 10.0
    call_s: float = 30.0
    quiet_watch_s: float = 90.0
    """A watch that says nothing for this long is opened anew: bookmarks come about each minute."""


class Outage:
    """Since when a server has answered nothing at all, over every request to it; safe for any thread.

    Patience is spent once an outage and not once a request: who asks a server that has been gone for a minute already
    gets one attempt.
    """

    def __init__(self, give_up_s: float) -> None:
        self._give_up_s = give_up_s
        self._lock = threading.Lock()
        self._since: float | None = None
        self._last = 0.0

    def over(self) -> None:
        """The server has answered."""
        with self._lock:
            self._since = None

    def goes_on(self, now: float) -> float:
        """No answer came; when the outage began. One that nobody noticed for longer than all patience is forgotten."""
        with self._lock:
            if self._since is None or now - self._last > self._give_up_s:
                self._since = now
            self._last = now
            return self._since


@dataclass
class Backoff:
    """One run of attempts; `wait` sleeps and says whether another attempt is allowed."""

    patience: Patience
    stop: threading.Event = field(default_factory=threading.Event)
    clock: Callable[[], float] = time.monotonic
    outage: Outage | None = None
    failures: int = 0
    _since: float | None = None

    def success(self) -> None:
        """The last attempt worked: forget the failures."""
        self.failures = 0
        self._since = None

    def wait(self, retry_after_s: float | None = None, *, answered: bool = True) -> bool:
        """Sleep before the next attempt; False when patience is at its end or `stop` was set."""
        now = self.clock()
        began = now
        if self.outage is not None and not answered:
            began = self.outage.goes_on(now)
        if self._since is None:
            self._since = began
        delay = min(self.patience.first_s * 2.0**self.failures, self.patience.longest_s)
        if retry_after_s is not None:
            delay = max(delay, retry_after_s)
        self.failures += 1
        if now + delay - self._since > self.patience.give_up_s:
            return False
        return not self.stop.wait(delay)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds of a Retry-After header; None where it is absent or not a plausible number of seconds."""
    value = headers.get("Retry-After", "")
    return float(value) if value.isascii() and value.isdigit() and len(value) < 5 else None
