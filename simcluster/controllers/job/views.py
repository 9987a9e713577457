"""What the Job controller needs of a pod and of a Job's spec, read once an object changes.

Owns the reading; decides nothing. So a sync over hundreds of pods looks at small values, not at their JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from simcluster.api.port import Object
from simcluster.controllers import fields
from simcluster.controllers.job import words


@dataclass(frozen=True)
class PodView:
    """One pod of a Job. `index` is None for a NonIndexed Job; `ended` tells that all its containers have terminated."""

    namespace: str
    name: str
    uid: str
    job_uid: str
    version: int
    index: int | None
    phase: str
    deleting: bool
    tracked: bool
    ready: bool
    ended: bool
    failures: int
    ignored_failures: int
    restarts: int
    raw: Object = field(repr=False, compare=False)

    @property
    def terminal(self) -> bool:
        """Succeeded or Failed."""
        return self.phase in fields.TERMINAL_PHASES

    @property
    def active(self) -> bool:
        """Runs or will run: neither terminal nor about to be deleted."""
        return not self.terminal and not self.deleting

    @property
    def terminating(self) -> bool:
        """About to be deleted, containers not all gone."""
        return self.deleting and not self.terminal

    def failed(self, *, only_terminal: bool) -> bool:
        """Counts as a failure: phase Failed, or (unless only terminal pods are judged) being deleted."""
        if self.phase == "Failed":
            return True
        return not only_terminal and self.deleting and self.phase != "Succeeded"


def view_pod(pod: Object, job_uid: str) -> PodView:
    """Read one pod."""
    status = fields.status(pod)
    notes = fields.notes(pod)
    containers = status.get("containerStatuses") or []
    return PodView(
        namespace=fields.namespace(pod),
        name=fields.name(pod),
        uid=fields.uid(pod),
        job_uid=job_uid,
        version=fields.version(pod),
        index=_number(notes.get(words.INDEX_KEY)),
        phase=fields.phase(pod),
        deleting=fields.deleting(pod),
        tracked=words.FINALIZER in fields.finalizers(pod),
        ready=fields.ready(pod),
        ended=bool(containers) and all("terminated" in (c.get("state") or {}) for c in containers),
        failures=_number(notes.get(words.FAILURE_COUNT_KEY)) or 0,
        ignored_failures=_number(notes.get(words.IGNORED_COUNT_KEY)) or 0,
        restarts=sum(int(c.get("restartCount") or 0) for c in containers),
        raw=pod,
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


@dataclass(frozen=True)
class JobSpec:
    """A Job's spec with its defaults."""

    parallelism: int
    completions: int | None
    indexed: bool
    backoff_limit: int
    per_index: int | None
    max_failed_indexes: int | None
    deadline_s: float | None
    suspended: bool
    only_replace_failed: bool
    failure_rules: tuple[Object, ...] | None
    restart_on_failure: bool


def view_spec(job: Object) -> JobSpec:
    """Read a Job's spec."""
    spec = job["spec"]
    policy = spec.get("podFailurePolicy")
    per_index = spec.get("backoffLimitPerIndex")
    replacement = spec.get("podReplacementPolicy") or ("Failed" if policy else "TerminatingOrFailed")
    unlimited = 2**31 - 1
    return JobSpec(
        parallelism=int(spec.get("parallelism", 1)),
        completions=spec.get("completions"),
        indexed=spec.get("completionMode") == "Indexed",
        backoff_limit=int(spec.get("backoffLimit", 6 if per_index is None else unlimited)),
        per_index=per_index,
        max_failed_indexes=spec.get("maxFailedIndexes"),
        deadline_s=spec.get("activeDeadlineSeconds"),
        suspended=bool(spec.get("suspend")),
        only_replace_failed=replacement == "Failed",
        failure_rules=tuple(policy.get("rules") or ()) if policy else None,
        restart_on_failure=spec["template"]["spec"].get("restartPolicy") == "OnFailure",
    )
