"""Tolerant reading of raw Kubernetes JSON: a null, an absent field or an odd type reads as empty and never raises.

It must not know what any field means.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Raw = Mapping[str, Any]
"""One object (or part of one) as the API server sent it."""


def at(obj: object, *path: str) -> object:
    """The value under `path`, or None where any step is missing or no object."""
    for key in path:
        if not isinstance(obj, Mapping):
            return None
        obj = obj.get(key)
    return obj


def text(obj: object, *path: str) -> str:
    """A string under `path`; numbers and booleans as JSON words, everything else as ''."""
    value = at(obj, *path)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else ""


def mapping(obj: object, *path: str) -> Raw:
    """An object under `path`, or an empty one."""
    value = at(obj, *path)
    return value if isinstance(value, Mapping) else {}


def objects(obj: object, *path: str) -> list[Raw]:
    """The objects of a list under `path`; entries that are no objects are left out."""
    value = at(obj, *path)
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def words(obj: object, *path: str) -> dict[str, str]:
    """A string-to-string map under `path` (labels, annotations), values that are no words left out."""
    return {str(key): value for key, value in mapping(obj, *path).items() if isinstance(value, str)}


def whole(obj: object, *path: str) -> int | None:
    """An integer under `path`; None where there is none (a boolean is none)."""
    value = at(obj, *path)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def condition(obj: object, kind: str) -> Raw:
    """The entry of `status.conditions` with that type, or an empty object; conditions change order."""
    for entry in objects(obj, "status", "conditions"):
        if text(entry, "type") == kind:
            return entry
    return {}


def said(condition: Raw) -> str:
    """Reason and message of a condition in one line."""
    return f"{text(condition, 'reason')}: {text(condition, 'message')}"


def said_where_true(obj: object, kind: str) -> str:
    """Reason and message of a condition that is true; "" where it is not."""
    found = condition(obj, kind)
    return said(found) if text(found, "status") == "True" else ""
