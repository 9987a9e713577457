"""The phases of a Volcano Job: which follows from what its pods are.

Pure: owns the state machine; must not know a client.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from simcluster.api.port import Object
from simcluster.controllers import fields
from simcluster.operators.volcano import spec, words

ENDING = {"AbortJob": "Aborting", "TerminateJob": "Terminating", "CompleteJob": "Completing"}
"""Actions that end a Job, and the phase until its pods are gone."""
ENDED = {"Aborting": "Aborted", "Terminating": "Terminated", "Completing": "Completed"}
COUNTED = {"Pending": "pending", "Running": "running", "Succeeded": "succeeded", "Failed": "failed"}


@dataclass
class Counts:
    """Pods by phase, all and by task; those that are being deleted count apart."""

    phases: Counter[str] = field(default_factory=Counter)
    by_task: dict[str, Counter[str]] = field(default_factory=dict)
    terminating: int = 0

    @property
    def alive(self) -> int:
        """Pods that still run, or will."""
        return self.phases["Pending"] + self.phases["Running"] + self.terminating

    def fields(self) -> dict[str, object]:
        """As in a Job's status."""
        found: dict[str, object] = {name: self.phases[phase] for phase, name in COUNTED.items() if self.phases[phase]}
        if self.terminating:
            found["terminating"] = self.terminating
        if self.by_task:
            found["taskStatusCount"] = {task: {"phase": dict(phases)} for task, phases in self.by_task.items()}
        return found


def count(pods: Iterable[Object]) -> Counts:
    """Count a Job's pods."""
    counts = Counts()
    for pod in pods:
        if fields.deleting(pod):
            counts.terminating += 1
            continue
        phase = fields.phase(pod) or "Pending"
        counts.phases[phase] += 1
        counts.by_task.setdefault(fields.labels(pod).get(words.TASK_KEY, ""), Counter())[phase] += 1
    return counts


def following(job: Object, phase: str, retries: int, counts: Counts) -> str:
    """The phase that follows, or the same."""
    if phase in ENDED:
        return phase if counts.alive else ENDED[phase]
    if phase == "Restarting":
        if retries >= int(fields.spec(job)["maxRetry"]):
            return "Failed"
        return "Pending" if spec.replicas(job) - counts.terminating >= spec.min_available(job) else phase
    if phase == "Pending":
        begun = counts.phases["Running"] + counts.phases["Succeeded"] + counts.phases["Failed"]
        return "Running" if begun >= spec.min_available(job) else phase
    return _from_running(job, counts) if phase == "Running" else phase


def _from_running(job: Object, counts: Counts) -> str:
    total = spec.replicas(job)
    succeeded, failed = counts.phases["Succeeded"], counts.phases["Failed"]
    enough = fields.spec(job).get("minSuccess")
    if total and enough is not None and succeeded >= enough:
        return "Completed"
    if total and succeeded + failed == total:
        return "Completed" if _succeeded(job, counts, enough) else "Failed"
    return "Pending" if total and counts.phases["Pending"] > total - spec.min_available(job) else "Running"


def _succeeded(job: Object, counts: Counts, enough: int | None) -> bool:
    asked = {task["name"]: int(task["minAvailable"]) for task in spec.tasks(job)}
    if spec.min_available(job) >= sum(asked.values()):
        short = any(counts.by_task.get(name, Counter())["Succeeded"] < least for name, least in asked.items())
        if short:
            return False
    least = spec.min_available(job) if enough is None else enough
    return counts.phases["Succeeded"] >= least
