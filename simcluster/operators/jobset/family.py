"""A JobSet's child Jobs by what has become of them, and the counts of that.

Owns that sorting. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from simcluster.api.port import Object
from simcluster.controllers import fields
from simcluster.operators.jobset import spec, words


@dataclass
class Family:
    """The Jobs of the present attempt, and those of earlier ones that are still there."""

    active: list[Object] = field(default_factory=list)
    succeeded: list[Object] = field(default_factory=list)
    failed: list[Object] = field(default_factory=list)
    previous: list[Object] = field(default_factory=list)

    @classmethod
    def of(cls, jobset: Object, jobs: Iterable[Object]) -> Family:
        """Sort the Jobs that this JobSet controls."""
        family = cls()
        for job in jobs:
            controller = fields.controller_of(job)
            if controller is None or controller["uid"] != fields.uid(jobset):
                continue
            if int(fields.labels(job).get(words.ATTEMPT, "0")) < spec.restarts(jobset):
                family.previous.append(job)
            elif fields.condition_true(job, "Failed"):
                family.failed.append(job)
            elif fields.condition_true(job, "Complete"):
                family.succeeded.append(job)
            else:
                family.active.append(job)
        return family

    @property
    def names(self) -> set[str]:
        """Names that are taken."""
        every = (*self.active, *self.succeeded, *self.failed, *self.previous)
        return {fields.name(job) for job in every}

    def status(self, replicated: dict[str, Any]) -> Object:
        """The counts of one replicated job, as replicatedJobsStatus has them."""
        active = _of(replicated, self.active)
        return {
            "name": replicated["name"],
            "ready": sum(_ready(job) for job in active),
            "succeeded": len(_of(replicated, self.succeeded)),
            "failed": len(_of(replicated, self.failed)),
            "active": sum(bool(fields.status(job).get("active")) and not fields.deleting(job) for job in active),
            "suspended": sum(spec.suspended(job) for job in active),
        }

    def started(self, replicated: dict[str, Any]) -> bool:
        """All of its Jobs are ready or beyond that."""
        counts = self.status(replicated)
        return bool(counts["ready"] + counts["succeeded"] + counts["failed"] >= spec.replicas(replicated))

    def may_start(self, jobset: Object, replicated: dict[str, Any]) -> bool:
        """What it depends on has come as far as it asks."""
        by_name = {each["name"]: each for each in spec.replicated_jobs(jobset)}
        for dependency in replicated.get("dependsOn") or ():
            before = by_name[dependency["name"]]
            done = self.status(before)["succeeded"] >= spec.replicas(before)
            if not (done if dependency["status"] == "Complete" else self.started(before)):
                return False
        return True

    def reached(self, jobset: Object) -> bool:
        """The success policy is met: all of the Jobs it names have succeeded, or any."""
        policy = fields.spec(jobset).get("successPolicy") or {}
        targets = policy.get("targetReplicatedJobs") or [each["name"] for each in spec.replicated_jobs(jobset)]
        chosen = [each for each in spec.replicated_jobs(jobset) if each["name"] in targets]
        done = sum(len(_of(each, self.succeeded)) for each in chosen)
        if policy.get("operator") == "Any":
            return done > 0
        return done >= sum(spec.replicas(each) for each in chosen)


def _of(replicated: dict[str, Any], jobs: list[Object]) -> list[Object]:
    return [job for job in jobs if fields.labels(job).get(words.REPLICATED_JOB) == replicated["name"]]


def _ready(job: Object) -> bool:
    status = fields.status(job)
    at_work = int(status.get("ready") or 0) + int(status.get("succeeded") or 0)
    return at_work >= spec.pods_of(fields.spec(job))
