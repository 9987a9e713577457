"""Ages as kubectl shows them.

Owns that format. It must not know what is old.
"""

from __future__ import annotations

from datetime import UTC, datetime

from simcluster.api.metadata import parse_timestamp

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def human(seconds: float) -> str:
    """At most two units: 5s, 3m20s, 15m, 2h5m, 7h, 3d4h, 12d, 2y30d."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 2 * _MINUTE:
        return f"{whole}s"
    minutes = whole // _MINUTE
    if minutes < 10:
        return _two(minutes, "m", whole % _MINUTE, "s")
    if minutes < 180:
        return f"{minutes}m"
    hours = whole // _HOUR
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = whole // _DAY
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return _two(days // 365, "y", days % 365, "d") if days < 365 * 8 else f"{days // 365}y"


def _two(first: int, unit: str, second: int, small: str) -> str:
    return f"{first}{unit}{second}{small}" if second else f"{first}{unit}"


def age(timestamp: str | None) -> str:
    """Time since a timestamp; <unknown> where there is none."""
    if not timestamp:
        return "<unknown>"
    return human((datetime.now(UTC) - parse_timestamp(timestamp)).total_seconds())


def between(start: str | None, end: str | None) -> str:
    """Time from start to end, or to now where there is no end."""
    if not start:
        return ""
    stop = parse_timestamp(end) if end else datetime.now(UTC)
    return human((stop - parse_timestamp(start)).total_seconds())
