"""The states in which containers end, as the wire shows them (golden 13).

Owns their shapes. Pure: it must not know processes or time.
"""

from __future__ import annotations

from typing import Any

from simcluster.node.status import EPOCH

LOST: dict[str, Any] = {
    "terminated": {
        "exitCode": 137,
        "reason": "ContainerStatusUnknown",
        "message": "The container could not be located when the pod was terminated",
        "startedAt": None,
        "finishedAt": None,
    }
}
"""A container that never ran when its pod was stopped."""


def ended(code: int, started_at: str, finished_at: str, container_id: str, *, oom: bool, text: str) -> dict[str, Any]:
    """A process has ended; `text` is its termination message."""
    state: dict[str, Any] = {
        "exitCode": code,
        "reason": "OOMKilled" if oom else "Completed" if code == 0 else "Error",
        "startedAt": started_at,
        "finishedAt": finished_at,
        "containerID": container_id,
    }
    return {"terminated": {**state, "message": text} if text else state}


def not_started(text: str, at: str, container_id: str) -> dict[str, Any]:
    """The runtime could not start the process."""
    return {
        "terminated": {
            "exitCode": 128,
            "reason": "StartError",
            "message": text,
            "startedAt": EPOCH,
            "finishedAt": at,
            "containerID": container_id,
        }
    }
