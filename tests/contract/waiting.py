"""Waiting for a condition until a deadline: the only place of this suite that sleeps.

Owns the polling; it must not know what is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

POLL_S = 0.04


class LateError(AssertionError):
    """A condition did not come true before its deadline."""


def until(condition: Callable[[], T | bool | None], deadline_s: float, what: str | Callable[[], str]) -> T:
    """The condition's first true value; raises `LateError` naming what was waited for after `deadline_s` seconds."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value  # type: ignore[return-value]
        if time.monotonic() > end:
            raise LateError(f"not within {deadline_s:g} s: {what() if callable(what) else what}")
        time.sleep(POLL_S)


def holds(condition: Callable[[], bool], for_s: float, what: str) -> None:
    """The condition stays true for `for_s` seconds (to show that something does NOT happen)."""
    end = time.monotonic() + for_s
    while time.monotonic() < end:
        assert condition(), what
        time.sleep(POLL_S)


def pause(seconds: float) -> None:
    """Let recorded time pass between two recorded actions of a replay."""
    if seconds > 0:
        time.sleep(seconds)
