"""Wall-clock stamps in the two formats Kubernetes writes, and their reading.

Knows no object and no controller; delays are measured with the event loop's clock, never with these stamps.
"""

from __future__ import annotations

from datetime import UTC, datetime


def stamp() -> str:
    """Now, as metav1.Time: whole seconds, e.g. 2026-11-30T16:41:19Z."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_stamp() -> str:
    """Now, as metav1.MicroTime (events' eventTime, leases' renewTime)."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def epoch_s(text: str) -> float:
    """Seconds since 1970 of either format; ValueError where the text is neither."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def wall_s() -> float:
    """Seconds since 1970 now."""
    return datetime.now(UTC).timestamp()
