"""The watches of one sweep in threads, what they bring in order, and a clock that stands still while nothing is seen.

It must not know jobs, measurements or what a change means.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator

from gpuproof.cluster.port import ClusterError, Watch, WatchEvent

STALL_S = 1.0
"""Between two looks at the clock: longer means that this process was stopped, starved or waited for something else."""

_JOIN_S = 5.0

News = tuple[str, WatchEvent | ClusterError]
"""A kind of object and its change, or why the watch on it ended for good."""


class Feeds:
    """Watches by kind; each is read by a thread of its own until `close`."""

    def __init__(self) -> None:
        self._inbox: queue.SimpleQueue[tuple[_Feed, WatchEvent | ClusterError]] = queue.SimpleQueue()
        self._feeds: dict[str, _Feed] = {}
        self._all: list[_Feed] = []

    @property
    def blind(self) -> bool:
        """Whether some watch is known to see nothing now."""
        return not all(feed.watch.live for feed in self._feeds.values())

    def open(self, kind: str, watch: Watch) -> None:
        """Read a watch; an earlier one on the same kind is closed, and what it still says is not heard."""
        earlier = self._feeds.get(kind)
        if earlier is not None:
            earlier.watch.close()
        feed = self._feeds[kind] = _Feed(kind, watch, self._inbox)
        self._all.append(feed)
        feed.start()

    def waiting(self) -> Iterator[News]:
        """What has arrived by now."""
        with contextlib.suppress(queue.Empty):
            while True:
                feed, item = self._inbox.get_nowait()
                if self._feeds.get(feed.kind) is feed:
                    yield feed.kind, item

    def wait(self, timeout_s: float) -> Iterator[News]:
        """What arrives next, at most `timeout_s` from now, and all that came with it."""
        with contextlib.suppress(queue.Empty):
            feed, item = self._inbox.get(timeout=max(0.0, timeout_s))
            if self._feeds.get(feed.kind) is feed:
                yield feed.kind, item
        yield from self.waiting()

    def close(self) -> None:
        """End every watch; does not wait."""
        for feed in self._all:
            feed.watch.close()

    def join(self) -> None:
        """Wait for the threads, a bounded time each."""
        for feed in self._all:
            feed.join(_JOIN_S)


class SeeingClock:
    """Seconds that pass only while this process runs and every watch is open; deadlines of pods count by it.

    What happened to a pod while nobody looked is not known, so that time is nobody's delay.
    """

    def __init__(self, clock: Callable[[], float], blind: Callable[[], bool]) -> None:
        self._clock, self._blind = clock, blind
        self._last = self.now = clock()

    def read(self) -> float:
        """The time now. Read it often: more than `STALL_S` between two calls counts as not seen."""
        last, self._last = self._last, self._clock()
        passed = self._last - last
        if passed <= STALL_S and not self._blind():
            self.now += passed
        return self.now


class _Feed(threading.Thread):
    """Puts a watch's changes into an inbox until the watch is closed or fails for good."""

    def __init__(
        self, kind: str, watch: Watch, inbox: queue.SimpleQueue[tuple[_Feed, WatchEvent | ClusterError]]
    ) -> None:
        super().__init__(name=f"watch-{kind}", daemon=True)
        self.kind, self.watch, self.inbox = kind, watch, inbox

    def run(self) -> None:
        """The thread's body."""
        try:
            for event in self.watch:
                self.inbox.put((self, event))
        except ClusterError as error:
            self.inbox.put((self, error))
