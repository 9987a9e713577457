"""The record of a run: one flushed JSON line an event, the one source of every report; written and read back here.

It must not know a cluster, a limit or what a report looks like.
"""

from __future__ import annotations

import io
import json
import math
import os
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

SCHEMA = 1

EVENTS: Mapping[str, tuple[str, ...]] = {
    "run_started": (
        "schema", "run_id", "gpuproof", "started_by", "profile", "cluster", "scope", "tier", "checks",
        "expected_nodes", "gpus_per_node", "limits", "waivers", "pod_patch",
    ),
    "inventory": ("nodes", "server_version"),
    "planned": ("subjects",),
    "baseline": ("run", "decision", "simulated", "values"),
    "acceptances": ("runs", "nodes"),
    "job_started": ("workload", "check", "job", "namespace", "nodes", "follow_up"),
    "measurement": (
        "check", "workload", "subject", "pod", "index", "samples", "facts", "environment", "timings",
    ),
    "failure": ("check", "workload", "subject", "pod", "reason", "message", "evidence"),
    "telemetry": ("check", "workload", "columns", "rows", "errors"),
    "gpu_time": ("nodes",),
    "evidence": ("subject", "check", "kind", "text"),
    "verdict": (
        "check", "subject", "verdict", "required", "reason_code", "reasons", "findings", "blocked_by", "duration_s",
    ),
    "interrupted": ("signal",),
    "resumed": ("by",),
    "cleanup": ("namespace", "deleted", "seconds", "left"),
    "decision": ("outcome", "reasons", "scope", "counts", "waived", "exit_code"),
    "run_finished": ("seconds", "requests", "bytes_received"),
}  # fmt: skip
"""Every event and its fields, all of them always present; frozen by a test, changed only with `SCHEMA`."""


class RecordError(ValueError):
    """A record that cannot be read: file, line and what is wrong with it."""


class Recorder:
    """Appends to one file; safe to call from any thread. A kill loses at most the line being written."""

    def __init__(self, path: Path, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._seq = _last_seq(path)
        self._listeners: list[Callable[[Mapping[str, Any]], None]] = []
        self._file = path.open("ab", buffering=0)
        if path.stat().st_size and not _ends_with_newline(path):
            # A killed run left half a line: end it, so that the next one is whole. Reading skips it.
            self._file.write(b"\n")

    def append(self, event: str, **fields: object) -> None:
        """One line {"seq", "t", "event", …}; `ValueError` when a field of the event is missing or unknown."""
        expected = EVENTS.get(event)
        if expected is None or set(fields) != set(expected):
            raise ValueError(f"record event {event!r}: fields {sorted(fields)}, expected {sorted(expected or ())}")
        stamp = self._now().astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with self._lock:
            self._seq += 1
            line = {"seq": self._seq, "t": stamp, "event": event, **{key: _plain(fields[key]) for key in expected}}
            self._file.write(json.dumps(line, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace") + b"\n")
            for listener in self._listeners:
                listener(line)

    def listen(self, listener: Callable[[Mapping[str, Any]], None]) -> None:
        """Call `listener` with every line after it is written, in order, from the thread that wrote it."""
        self._listeners.append(listener)

    def close(self) -> None:
        """Write everything to the disk and close."""
        with self._lock:
            if not self._file.closed:
                os.fsync(self._file.fileno())
                self._file.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_record(path: Path) -> list[dict[str, Any]]:
    """All lines in order. Only a torn line is left out: the last one, or one that a resumed run goes on after."""
    lines: list[dict[str, Any]] = []
    torn = 0
    for number, text in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not text.strip():
            continue
        entry = _parsed(text)
        if entry is None:
            if torn:
                raise RecordError(f"{path}:{torn}: not a JSON object; only a line torn by a kill may be incomplete")
            torn = number
        else:
            if torn and entry["seq"] != (lines[-1]["seq"] if lines else 0) + 1:
                raise RecordError(f"{path}:{torn}: not a JSON object, and line {number} does not follow the one before")
            torn = 0
            lines.append(entry)
    return lines


def _parsed(text: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return None
    whole = isinstance(entry, dict) and isinstance(entry.get("seq"), int) and isinstance(entry.get("event"), str)
    return entry if whole else None


def _last_seq(path: Path) -> int:
    if not path.exists():
        return 0
    lines = read_record(path)
    return int(lines[-1]["seq"]) if lines else 0


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, io.SEEK_END)
        return file.read(1) == b"\n"


def _plain(value: object) -> Any:
    """JSON values only; NaN and the infinities as words, for JSON has none for them."""
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(entry) for entry in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"{type(value).__name__} does not belong in a record: {value!r}")
