"""A queue of keys with delays and growing retries: what every controller's workers take their keys from.

Owns when a key is due; must not know what a key stands for.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from simcluster.api.port import ApiError

K = TypeVar("K", bound=Hashable)
log = logging.getLogger(__name__)
UNEXPECTED_SHAPE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading an object in a shape that nobody expected may raise."""


class TryAgainError(Exception):
    """Raised by a handler whose work is not done yet, through nobody's fault: the key is retried like a failed one."""


class WorkQueue(Generic[K]):
    """Keys waiting for one of `workers` tasks; a key is never handled twice at once, and waits at most once.

    `retry_first_s` is the delay after a first failure; it doubles up to `retry_max_s`.
    """

    def __init__(
        self,
        handle: Callable[[K], Awaitable[None]],
        *,
        title: str,
        retry_first_s: float,
        retry_max_s: float,
        workers: int = 1,
    ) -> None:
        self._handle = handle
        self._title = title
        self._retry_first_s = retry_first_s
        self._retry_max_s = retry_max_s
        self._worker_count = workers
        self._ready: deque[K] = deque()
        self._waiting: set[K] = set()
        self._busy: set[K] = set()
        self._again: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the workers; keys added before are kept."""
        self._tasks = [asyncio.create_task(self._work(), name=self._title) for _ in range(self._worker_count)]

    async def stop(self) -> None:
        """Cancel workers and timers; what waits is forgotten."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    def add(self, key: K) -> None:
        """Handle the key as soon as a worker is free."""
        self.cancel(key)
        self._enqueue(key)

    def add_after(self, key: K, delay_s: float) -> None:
        """Handle the key after a delay. Of two delays the earlier one counts: a handler asks again for a later one."""
        if delay_s <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + delay_s
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= due:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(due, self._expire, key)

    def cancel(self, key: K) -> None:
        """Forget the key's delay; a key that is due already stays so."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def retry(self, key: K) -> None:
        """Handle the key again after its own growing delay."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, min(self._retry_first_s * 2**failures, self._retry_max_s))

    def forget(self, key: K) -> None:
        """The key was handled well: its next failure starts with the first delay."""
        self._failures.pop(key, None)

    def _expire(self, key: K) -> None:
        self._timers.pop(key, None)
        self._enqueue(key)

    def _enqueue(self, key: K) -> None:
        if key in self._busy:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.append(key)
            self._wake.set()

    async def _work(self) -> None:
        while True:
            while not self._ready:
                self._wake.clear()
                await self._wake.wait()
            key = self._ready.popleft()
            self._waiting.discard(key)
            self._busy.add(key)
            try:
                await self._handle(key)
            except TryAgainError:
                self.retry(key)
            except ApiError as error:
                log.info("%s %s: %s; will retry", self._title, key, error.message)
                self.retry(key)
            except UNEXPECTED_SHAPE:
                # One object in a shape nobody expected must not stop a controller for all the others.
                log.exception("%s %s", self._title, key)
                self.retry(key)
            else:
                self.forget(key)
            self._busy.discard(key)
            if key in self._again:
                self._again.discard(key)
                self._enqueue(key)
