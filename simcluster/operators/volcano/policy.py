"""What a Job's policies say about something that happened to one of its pods.

Pure: owns the order in which policies are asked; must not know what an action does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from simcluster.api.port import Object
from simcluster.controllers import fields
from simcluster.operators.volcano import spec, words


@dataclass(frozen=True)
class Happening:
    """An event of a pod of a task; `version` is the Job's when the pod was made."""

    event: str
    task: str
    uid: str
    version: int
    exit_code: int = 0


def action_for(job: Object, what: Happening) -> str:
    """The task's policies come first, then the Job's; what befell a pod of an earlier version asks for nothing."""
    if what.version < int(fields.status(job).get("version") or 0):
        return words.SYNC
    own = next((task.get("policies") for task in spec.tasks(job) if task["name"] == what.task), None)
    for policies in (own, fields.spec(job).get("policies")):
        action = _first(policies or (), what)
        if action:
            return action
    return words.SYNC


def _first(policies: Iterable[dict[str, Any]], what: Happening) -> str:
    for policy in policies:
        events = {*(policy.get("events") or ()), policy.get("event")}
        if what.event in events or words.ANY in events:
            return str(policy.get("action") or words.SYNC)
        if policy.get("exitCode") and policy["exitCode"] == what.exit_code:
            return str(policy.get("action") or words.SYNC)
    return ""
