"""A pod's status without ids, times and addresses, so that histories of two clusters can be compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def summary(status: dict[str, Any]) -> dict[str, Any]:
    """What a status says, as far as it is the same on each run."""
    said: dict[str, Any] = {
        "phase": status.get("phase"),
        "conditions": [
            [item["type"], item["status"], item.get("reason"), item.get("message")]
            for item in status.get("conditions", [])
        ],
        "has address": "podIP" in status,
        "containers": [
            container(item) for item in [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
        ],
    }
    for name in ("reason", "message"):
        if name in status:
            said[name] = status[name]
    return said


def container(item: dict[str, Any]) -> dict[str, Any]:
    """One container of it."""
    (kind, state), *_ = item["state"].items()
    last = item.get("lastState") or {}
    return {
        "name": item["name"],
        "is": [kind, state.get("reason"), state.get("exitCode")],
        "was": [[kind, state.get("reason"), state.get("exitCode")] for kind, state in last.items()],
        "ready": item["ready"],
        "started": item.get("started"),
        "restarts": item["restartCount"],
        "has id": "containerID" in item,
    }


def collapsed(summaries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The sequence without repeats."""
    kept: list[dict[str, Any]] = []
    for each in summaries:
        if not kept or kept[-1] != each:
            kept.append(each)
    return kept
