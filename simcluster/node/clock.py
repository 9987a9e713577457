"""Wall-clock time as the API writes it. Owns the two formats; knows nothing else."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """RFC 3339 with seconds, as metav1.Time."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def now_micro() -> str:
    """RFC 3339 with microseconds, as metav1.MicroTime."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
