"""Failures of pods that are not there, not placed or late: from a Job's events, the scheduler's words and the clocks.

Pure. It must not know nodes' state or measurements.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuproof.cluster import raw
from gpuproof.cluster.raw import Raw
from gpuproof.evidence import capped, event_text, failure, status_texts
from gpuproof.failure import JobFailure, Reason
from gpuproof.pod_outcome import Phase

_MAX_WARNINGS = 20
_TRANSIENT = (
    "error looking up service account",
    "timeout",
    "timed out",
    "deadline exceeded",
    "try again",
    "connection refused",
    "too many requests",
)
"""Words of a FailedCreate that the Job controller's next attempt may survive; a service account, say, comes late."""

_VOLUMES = ("Multi-Attach error", "AttachVolume", 'volume "claim-', 'volume "pvc-', "[claim-")
"""Words of a FailedMount that is about a claim: by our own name of its volume, or by its provisioned name."""
_PULL_TROUBLE = ("ErrImagePull", "ImagePullBackOff", "Failed: Failed to pull image", "Failed: Error: ErrImagePull")


class Warnings:
    """The Warning events of a namespace by the object they are about; the newest of each kept."""

    def __init__(self) -> None:
        self._events: dict[str, dict[str, Raw]] = {}

    def add(self, event: Raw) -> str:
        """Take an event in (a repeated one replaces its older self); the name of the object it is about."""
        about = raw.text(event, "involvedObject", "name")
        events = self._events.setdefault(about, {})
        name = raw.text(event, "metadata", "name")
        events.pop(name, None)
        if raw.text(event, "type") in ("Warning", ""):
            events[name] = event
        if len(events) > _MAX_WARNINGS:
            events.pop(next(iter(events)))
        return about

    def of(self, name: str) -> list[Raw]:
        """Events about an object, oldest first."""
        return list(self._events.get(name, {}).values())

    def refusal(self, job: str) -> JobFailure | None:
        """Why the Job's pods are not created, where the API server's answer is final."""
        texts = self._creation_errors(job)
        final = [text for text in texts if not _transient(text)]
        return _refused(final[-1], texts) if final else None

    def no_pods(self, job: str, limit_s: float) -> JobFailure:
        """No pod object appeared by the scheduling deadline."""
        texts = self._creation_errors(job)
        if texts:
            return _refused(texts[-1], texts)
        said = f"no pod of job {job} appeared within {limit_s:g} s, and no event says why; look at the Job controller"
        return JobFailure(Reason.NEVER_STARTED, said, capped([event_text(event) for event in self.of(job)]))

    def _creation_errors(self, job: str) -> list[str]:
        return [raw.text(event, "message") for event in self.of(job) if raw.text(event, "reason") == "FailedCreate"]


def not_placed(node: str, scheduler_said: str, limit_s: float, evidence: Sequence[str], held: int) -> JobFailure:
    """A pod that the scheduler did not place on the node by the deadline, although the node should fit.

    `held` is the number of nodes that pods of the same Job hold: the scheduler counts these as insufficient, too.
    """
    what = f"no pod could be placed on node {node} within {limit_s:g} s"
    if not scheduler_said:
        said = f"{what}, and the scheduler says nothing; look at the scheduler"
        return JobFailure(Reason.UNSCHEDULABLE, said, tuple(evidence))
    if _held_by_others(scheduler_said, held):
        said = f"{what}: {scheduler_said}; others hold its GPUs or memory: drain it or take it out of the scope"
        return JobFailure(Reason.NODE_BUSY, said, tuple(evidence))
    said = f"{what}: {scheduler_said}; check labels, taints and the profile's [pod]"
    return JobFailure(Reason.UNSCHEDULABLE, said, tuple(evidence))


def _held_by_others(scheduler_said: str, held: int) -> bool:
    """Whether more nodes lack resources than our own pods account for; what preemption would help is another matter."""
    counts = scheduler_said.partition("preemption:")[0]
    short = max(map(int, re.findall(r"(\d+) Insufficient", counts)), default=0)
    kept_apart = sum(map(int, re.findall(r"(\d+) node\(s\) didn't match pod anti-affinity rules", counts)))
    return short > max(0, held - kept_apart)


def overdue(pod: Raw, warnings: Sequence[Raw], phase: Phase, limit_s: float, trouble: str) -> JobFailure:
    """A pod that is on a node and spent longer in a phase than its deadline."""
    evidence = [*status_texts(pod), *(event_text(event) for event in warnings)]
    reasons = {raw.text(event, "reason") for event in warnings}
    late = f"still {phase.value} after {limit_s:g} s"
    said = f"{late}: {trouble}" if trouble else late
    if phase is Phase.RUNNING:
        return failure(Reason.DEADLINE_EXCEEDED, f"measure is {late}", evidence)
    if trouble.startswith(_PULL_TROUBLE):
        return failure(Reason.IMAGE_PULL, said, evidence)
    if "FailedCreatePodSandBox" in reasons:
        return failure(Reason.SANDBOX_FAILED, said, evidence)
    if any(_is_about_a_volume(event) for event in warnings):
        return failure(Reason.VOLUME_FAILED, said, evidence)
    if reasons & {"FailedMount", "FailedAttachVolume", "Failed"}:
        return failure(Reason.CREATE_ERROR, said, evidence)
    if phase is Phase.PULLING:
        return failure(Reason.IMAGE_PULL, said, evidence)
    why = trouble or "no event says why"
    text = f"the pod was bound to its node and did not start: {late}, {why}; look at the node's kubelet"
    return JobFailure(Reason.NEVER_STARTED, text, capped(evidence))


def _is_about_a_volume(event: Raw) -> bool:
    """Whether a claim's volume cannot be attached or mounted, and not one of the pod's own sources."""
    reason, message = raw.text(event, "reason"), raw.text(event, "message")
    if reason == "FailedAttachVolume":
        return True
    return reason == "FailedMount" and any(word in message for word in _VOLUMES)


def _transient(message: str) -> bool:
    lower = message.lower()
    return any(words in lower for words in _TRANSIENT)


def _refused(message: str, texts: Sequence[str]) -> JobFailure:
    if "exceeded quota" in message or "failed quota" in message:
        said = f"a quota keeps the pods from being created: {message}; raise it or run in a namespace without"
        return JobFailure(Reason.QUOTA_EXCEEDED, said, capped(texts))
    said = f"the API server refuses the pods: {message}; check pod security, webhooks, limits and the profile's [pod]"
    return JobFailure(Reason.FORBIDDEN, said, capped(texts))
