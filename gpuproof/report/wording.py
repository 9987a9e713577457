"""Owns how numbers, times and hostile text become readable; must not know verdicts, files or HTML."""

import json
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_THOUSANDS_FROM = 10_000
_SCIENTIFIC_ABOVE = 1e15
_SCIENTIFIC_BELOW = 1e-3


def visible(text: str, *, keep_newlines: bool = True) -> str:
    """Return `text` without terminal sequences and with every other control, bidi or unprintable character spelled out.

    Pods, nodes and labels write this text: it must neither steer a terminal nor reorder what a reader sees.
    """
    if text.isascii() and text.isprintable():
        return text
    kept = "\n\t" if keep_newlines else ""
    plain = _ANSI.sub("", text).replace("\r\n", "\n")
    return "".join(c if c in kept or _is_plain(c) else _spelled(c) for c in plain)


def _is_plain(character: str) -> bool:
    return character.isprintable() or unicodedata.category(character) in {"Zs", "Mn", "Mc"}


def _spelled(character: str) -> str:
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def scrubbed(value: Any) -> Any:
    """Return JSON data with lone surrogates replaced, which no encoder accepts; everything else is left as it is."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return _scrubbed(value)
    return value


def _scrubbed(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, Mapping):
        return {_scrubbed(k): _scrubbed(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_scrubbed(v) for v in value]
    return value


def number(value: float | int | str | bool | None, unit: str | None = None) -> str:
    """Return a value with sensible digits and its unit: 12 345, 0.9713, 1.2e-07, 64 GiB, `not measured` for None."""
    if value is None:
        return "not measured"
    if isinstance(value, bool | str):
        return str(value).lower() if isinstance(value, bool) else value
    if unit == "B" and math.isfinite(value) and abs(value) >= 1024:
        return byte_count(value)
    digits = _digits(value)
    return digits if unit in (None, "", "1", "count") else f"{digits} {unit}"


def _digits(value: float | int) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("infinity" if value > 0 else "-infinity")
    size = abs(value)
    if size != 0 and (size >= _SCIENTIFIC_ABOVE or size < _SCIENTIFIC_BELOW):
        return f"{value:.3g}"
    if float(value).is_integer():
        return _grouped(f"{int(value)}") if size >= _THOUSANDS_FROM else f"{int(value)}"
    if size >= _THOUSANDS_FROM:
        return _grouped(f"{value:.0f}")
    return f"{value:.4g}"


def _grouped(digits: str) -> str:
    # A thin space that does not break: a comma is a decimal mark to half of the readers.
    return f"{int(digits):,}".replace(",", "\u202f")


def byte_count(value: float | int) -> str:
    """Return bytes in binary units, `1.5 MiB`."""
    size, step = float(value), 0
    while abs(size) >= 1024 and step < len(_BINARY_UNITS) - 1:
        size, step = size / 1024, step + 1
    return f"{size:.4g} {_BINARY_UNITS[step]}"


def duration(seconds: float | int | None) -> str:
    """Return seconds as a person says them: `85 ms`, `3.2 s`, `2 min 05 s`, `1 h 04 min`."""
    if seconds is None or not math.isfinite(seconds):
        return "unknown"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def age(seconds: float) -> str:
    """Return how long ago something was in its largest unit: `40 minutes`, `5 hours`, `12 days`."""
    if not math.isfinite(seconds):
        return "an unknown time"
    minutes = max(0, int(seconds // 60))
    if minutes < 60:
        return plural(minutes, "minute")
    return plural(minutes // 60, "hour") if minutes < 48 * 60 else plural(minutes // (24 * 60), "day")


def utc(moment: datetime | None) -> str:
    """Return a time in UTC to the second; a time without a zone is taken as UTC, as the record writes it."""
    if moment is None:
        return "unknown"
    return as_utc(moment).strftime("%Y-%m-%d %H:%M:%S UTC")


def as_utc(moment: datetime) -> datetime:
    """Return the moment in UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def operating_point(at: Mapping[str, Any]) -> str:
    """Return `gpu=0, dtype=float32` for the point a number was measured at."""
    # The type is a part of the key: 1 and true are equal and do not read alike.
    return _operating_point(tuple((key, value, type(value)) for key, value in at.items()))


@lru_cache(maxsize=16_384)
def _operating_point(at: tuple[tuple[str, Any, type], ...]) -> str:
    return ", ".join(f"{key}={number(value)}" for key, value, _ in at)


_BLOCKS = "\u2007▁▂▃▄▅▆▇█"


def spark(shares: Sequence[float]) -> str:
    """Return a bar a share of the tallest, as block characters; nothing of a share is an empty place."""
    return "".join(_BLOCKS[math.ceil(min(max(share, 0.0), 1.0) * (len(_BLOCKS) - 1))] for share in shares)


def plural(count: int, noun: str) -> str:
    """Return `1 node`, `2 nodes`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(names: Sequence[str], most: int = 6) -> str:
    """Return the first names and how many more there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that puts gpu-9 before gpu-10."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part)
