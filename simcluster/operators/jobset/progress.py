"""A JobSet's status while it is worked out, and what is to be told once it is written.

Owns conditions and counters. Pure.
"""

from __future__ import annotations

from simcluster.api.port import Object
from simcluster.controllers import fields
from simcluster.controllers.events import Severity
from simcluster.controllers.requests import condition
from simcluster.operators.jobset import spec, words
from simcluster.operators.jobset.family import Family
from simcluster.operators.jobset.verdict import Verdict


class Progress:
    """`status` is the new one; `told` the events of its changes; `finished` when the JobSet ended, or ''."""

    def __init__(self, jobset: Object, counts: list[Object]) -> None:
        before = fields.status(jobset)
        self.status: Object = {"restarts": 0, **before, "replicatedJobsStatus": counts}
        self.told: list[tuple[Severity, str, str]] = []
        ends = [fields.condition(jobset, kind) for kind in (words.COMPLETED, words.FAILED)]
        self.finished = next((str(end["lastTransitionTime"]) for end in ends if end and end["status"] == "True"), "")

    @classmethod
    def of(cls, jobset: Object, family: Family) -> Progress:
        """The status as it follows from the Jobs alone."""
        return cls(jobset, [family.status(replicated) for replicated in spec.replicated_jobs(jobset)])

    def end(self, kind: str, reason: str, message: str) -> None:
        """The JobSet has failed or is complete."""
        self._set(kind, "True", reason, message)
        self.status["terminalState"] = kind

    def restart(self, decided: Verdict) -> None:
        """All Jobs are to be made anew: those that are there belong to an earlier attempt from now on."""
        self.status["restarts"] += 1
        if decided.counts:
            self.status["restartsCountTowardsMax"] = self.status.get("restartsCountTowardsMax", 0) + 1
        self.told.append(("Warning", decided.reason, decided.message))

    def suspended(self) -> None:
        """All Jobs are suspended."""
        self._set(words.SUSPENDED, "True", "SuspendedJobs", "jobset is suspended")

    def resumed(self) -> None:
        """No Job is suspended any more; nothing where none ever was."""
        self._set(words.SUSPENDED, "False", "ResumeJobs", "jobset is resumed")

    def starting(self) -> None:
        """Replicated jobs wait for the one before them."""
        self._drop(words.STARTED)
        self._set(words.STARTING, "True", "InOrderStartupPolicyInProgress", "in order startup policy is in progress")

    def started(self) -> None:
        """All replicated jobs were started in their order."""
        self._drop(words.STARTING)
        self._set(words.STARTED, "True", "InOrderStartupPolicyCompleted", "in order startup policy has completed")

    def _drop(self, kind: str) -> None:
        for at, known in enumerate(self.status.get("conditions") or []):
            if known["type"] == kind and known["status"] == "True":
                self._replace(at, {**known, "status": "False"})

    def _set(self, kind: str, value: str, reason: str, message: str) -> None:
        present = self.status.get("conditions") or []
        at = next((at for at, known in enumerate(present) if known["type"] == kind), None)
        if at is not None and present[at]["status"] == value:
            return
        if at is None and value == "False":
            return
        new = condition(kind, value, reason, message)
        if at is None:
            self.status["conditions"] = [*present, new]
        else:
            self._replace(at, new)
        self.told.append(("Warning" if kind == words.FAILED else "Normal", reason, message))

    def _replace(self, at: int, new: Object) -> None:
        present = self.status["conditions"]
        self.status["conditions"] = [*present[:at], new, *present[at + 1 :]]
