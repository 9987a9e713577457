"""Termination messages: what of a container's last words reaches its status (golden 17a).

Owns the limits. Pure but for reading the files it is given.
"""

from __future__ import annotations

from pathlib import Path

PER_CONTAINER = 4096
PER_POD = 12 * 1024
FALLBACK_BYTES = 2048
FALLBACK_LINES = 80


def limit_for(containers: int) -> int:
    """Bytes that each of a pod's containers may leave."""
    return min(PER_CONTAINER, PER_POD // max(containers, 1))


def tail(data: bytes, limit: int) -> str:
    """The last `limit` bytes as text; bytes that are not UTF-8 become U+FFFD."""
    return data[-limit:].decode("utf-8", errors="replace") if limit > 0 else ""


def message(path: Path, log: bytes, *, policy: str, failed: bool, limit: int) -> str:
    """The message of an ended container; `log` is the end of its output, used by FallbackToLogsOnError."""
    data = _end_of(path, limit)
    if data or policy != "FallbackToLogsOnError" or not failed:
        return tail(data, limit)
    lines = log[-FALLBACK_BYTES:].splitlines(keepends=True)[-FALLBACK_LINES:]
    return tail(b"".join(lines), min(limit, FALLBACK_BYTES))


def _end_of(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - limit))
            return file.read(limit)
    except (FileNotFoundError, IsADirectoryError):
        return b""
