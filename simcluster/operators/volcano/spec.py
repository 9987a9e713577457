"""A Volcano Job's spec with its defaults, and the names of what is made of it.

Pure: owns the reading; decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from simcluster.api.port import Object
from simcluster.controllers import fields


@dataclass(frozen=True)
class Member:
    """One pod that a Job should have."""

    name: str
    task: str
    index: int
    template: Object


def tasks(job: Object) -> list[dict[str, Any]]:
    """spec.tasks."""
    found: list[dict[str, Any]] = fields.spec(job).get("tasks") or []
    return found


def replicas(job: Object) -> int:
    """All pods of all tasks."""
    return sum(int(task["replicas"]) for task in tasks(job))


def min_available(job: Object) -> int:
    """So many pods must be placed together."""
    return int(fields.spec(job)["minAvailable"])


def members(job: Object) -> Iterator[Member]:
    """The pods it should have, task by task."""
    for task in tasks(job):
        for index in range(int(task["replicas"])):
            name = f"{fields.name(job)}-{task['name']}-{index}"
            yield Member(name, task["name"], index, task["template"])


def group_name(job: Object) -> str:
    """Of its PodGroup."""
    return f"{fields.name(job)}-{fields.uid(job)}"


def plugins(job: Object) -> dict[str, list[str]]:
    """Its plugins with their arguments."""
    found: dict[str, list[str]] = fields.spec(job).get("plugins") or {}
    return found


def hosts_map(job: Object) -> str:
    """The ConfigMap with its pods' names."""
    return f"{fields.name(job)}-svc"


def phase_of(job: Object) -> str:
    """status.state.phase, "" before it has one."""
    return str((fields.status(job).get("state") or {}).get("phase") or "")
