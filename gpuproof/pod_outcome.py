"""What became of a pod, by its status and its warning events: still on the way, has a message, or failed and why.

Pure. It must not know nodes' state, deadlines, limits, or what a message should say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpuproof.cluster import raw
from gpuproof.cluster.raw import Raw
from gpuproof.evidence import MEASURE, all_containers, event_count, event_text, failure, shortened, status_texts
from gpuproof.failure import JobFailure, Reason


class Phase(StrEnum):
    """Where a pod is on its way; each has a deadline of its own."""

    SCHEDULING = "scheduling"
    STARTING = "starting"
    """Bound to a node; volumes and the sandbox are not up yet."""
    PULLING = "pulling"
    """The sandbox is up, the container is not: an image is pulled or a container made."""
    RUNNING = "running"


@dataclass(frozen=True)
class OnTheWay:
    """No outcome yet. `trouble` is what already went wrong and may pass by itself ('' if nothing)."""

    phase: Phase
    trouble: str = ""


@dataclass(frozen=True)
class HasMessage:
    """`measure` ended with exit code 0 and this termination message (may be empty or cut)."""

    text: str


Outcome = OnTheWay | HasMessage | JobFailure

_CREATE_ERRORS = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError", "ContainerCannotRun",
     "PreStartHookError", "PostStartHookError", "PreCreateHookError", "CrashLoopBackOff"}
)  # fmt: skip
_GPU_RUNTIME = ("nvidia-container", "nvml", "libnvidia", "nvidia driver", "unresolvable cdi devices")
"""Words of the container runtime's GPU hook: what it says is about the node's driver, not about the image."""
_PULL_ERRORS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError",
     "RegistryUnavailable", "SignatureValidationFailed"}
)  # fmt: skip
_MAY_PASS = (
    "timeout", "timed out", "deadline exceeded", "context canceled", "connection reset", "unexpected eof",
    "too many requests", "503 service unavailable", "failed to sync", "pull qps exceeded",
)  # fmt: skip
"""Words of a pull or creation error that the kubelet's next attempt may well survive: the phase's clock decides."""

_DISRUPTIONS = {
    "PreemptionByScheduler": Reason.PREEMPTED,
    "DeletionByTaintManager": Reason.NODE_LOST,
    "DeletionByPodGC": Reason.NODE_LOST,
    "EvictionByEvictionAPI": Reason.EVICTED,
    "TerminationByKubelet": Reason.EVICTED,
}
_POD_REASONS = {
    "Evicted": Reason.EVICTED,
    "Preempting": Reason.PREEMPTED,
    "Preempted": Reason.PREEMPTED,
    "DeadlineExceeded": Reason.DEADLINE_EXCEEDED,
    "NodeLost": Reason.NODE_LOST,
    "Shutdown": Reason.EVICTED,
    "NodeShutdown": Reason.EVICTED,
    "Terminated": Reason.EVICTED,
}


def classify(pod: Raw, warnings: Sequence[Raw] = ()) -> Outcome:
    """The outcome of a pod as last seen, with the Warning events about it, oldest first."""
    evidence = [*status_texts(pod), *(event_text(event) for event in warnings)]
    measure = _container(pod, MEASURE)
    ended = raw.mapping(measure, "state", "terminated")
    if ended:
        return _ended(pod, ended, evidence)
    if raw.text(pod, "status", "phase") in ("Failed", "Succeeded"):
        return _terminal(pod, evidence)
    phase = _phase(pod, measure)
    found = _disruption(pod, evidence)
    if found is None and phase is not Phase.RUNNING:
        containers = (_not_starting(container, warnings, evidence) for container in all_containers(pod))
        found = next((entry for entry in containers if entry is not None), None)
    if found is None and phase is Phase.STARTING:
        found = _sandbox(warnings, evidence)
    return found or OnTheWay(phase, _trouble(pod, warnings))


def deleted(pod: Raw, warnings: Sequence[Raw] = ()) -> JobFailure:
    """The outcome of a pod whose object is gone and that had none before."""
    outcome = classify(pod, warnings)
    if isinstance(outcome, JobFailure):
        return outcome
    evidence = [*status_texts(pod), *(event_text(event) for event in warnings)]
    return failure(Reason.POD_DELETED, "the pod was deleted before it had measured", evidence)


def scheduling_message(pod: Raw) -> str:
    """Why the scheduler has not placed the pod, in its own words; '' where it has not said."""
    condition = raw.condition(pod, "PodScheduled")
    return raw.text(condition, "message") if raw.text(condition, "status") == "False" else ""


def _container(pod: Raw, name: str) -> Raw:
    # Statuses are sorted by name and not by the spec's order: never index by position.
    for status in raw.objects(pod, "status", "containerStatuses"):
        if raw.text(status, "name") == name:
            return status
    return {}


def _phase(pod: Raw, measure: Raw) -> Phase:
    if not raw.text(pod, "spec", "nodeName"):
        return Phase.SCHEDULING
    if raw.mapping(measure, "state", "running"):
        return Phase.RUNNING
    sandbox = raw.condition(pod, "PodReadyToStartContainers")
    if not raw.objects(pod, "status", "containerStatuses") or raw.text(sandbox, "status") == "False":
        return Phase.STARTING
    # Kubelets before 1.29 do not say when the sandbox is up: the longer clock is the fair one.
    return Phase.PULLING


def _not_created(said: str, message: str, evidence: Sequence[str]) -> JobFailure:
    gpu = any(word in message.lower() for word in _GPU_RUNTIME)
    return failure(Reason.GPU_RUNTIME_FAILED if gpu else Reason.CREATE_ERROR, said, evidence)


def _ended(pod: Raw, ended: Raw, evidence: Sequence[str]) -> Outcome:
    code, reason = raw.whole(ended, "exitCode"), raw.text(ended, "reason")
    message = raw.text(ended, "message")
    if reason == "OOMKilled":
        return failure(Reason.OOM_KILLED, f"measure was killed for lack of memory (exit code {code})", evidence)
    if reason in _CREATE_ERRORS:
        return _not_created(f"measure could not be started: {reason}: {shortened(message)}", message, evidence)
    if code == 0 and message:
        return HasMessage(message)
    disrupted = _disruption(pod, evidence)
    if disrupted is not None:
        return disrupted
    if code == 0:
        return HasMessage("")
    if reason == "ContainerStatusUnknown":
        return failure(Reason.NODE_LOST, "the kubelet lost track of the container", evidence)
    if raw.text(pod, "metadata", "deletionTimestamp"):
        return failure(Reason.POD_DELETED, f"the pod was deleted while it measured (exit code {code})", evidence)
    said = f": {shortened(message)}" if message else ""
    return failure(Reason.NONZERO_EXIT, f"measure could not measure, exit code {code}{said}", evidence)


def _terminal(pod: Raw, evidence: Sequence[str]) -> JobFailure:
    disrupted = _disruption(pod, evidence)
    if disrupted is not None:
        return disrupted
    reason, message = raw.text(pod, "status", "reason"), raw.text(pod, "status", "message")
    for container in all_containers(pod):
        ended = raw.mapping(container, "state", "terminated")
        name, code = raw.text(container, "name"), raw.whole(ended, "exitCode")
        if raw.text(ended, "reason") == "OOMKilled":
            return failure(Reason.OOM_KILLED, f"{name} was killed for lack of memory (exit code {code})", evidence)
        if raw.text(ended, "reason") in _CREATE_ERRORS:
            said = shortened(raw.text(ended, "message"))
            return _not_created(f"{name} could not be started: {said}", said, evidence)
        if ended and code:
            return failure(Reason.NONZERO_EXIT, f"{name} ended with exit code {code} before measure did", evidence)
    if reason:
        # No containerStatuses and no conditions: the kubelet refused the pod and will not try again.
        text = f"the kubelet refused the pod: {reason}: {shortened(message)}"
        return failure(Reason.ADMISSION_REFUSED, text, evidence)
    return failure(Reason.NO_MEASUREMENT, "the pod ended and its status tells of no container named measure", evidence)


def _disruption(pod: Raw, evidence: Sequence[str]) -> JobFailure | None:
    target = raw.condition(pod, "DisruptionTarget")
    reason, message = raw.text(pod, "status", "reason"), raw.text(pod, "status", "message")
    if raw.text(target, "status") == "True":
        why = _POD_REASONS.get(reason) or _DISRUPTIONS.get(raw.text(target, "reason"), Reason.EVICTED)
        said = raw.text(target, "message") or message or raw.text(target, "reason")
        return failure(why, f"the pod was disrupted ({raw.text(target, 'reason')}): {shortened(said)}", evidence)
    if reason in _POD_REASONS:
        return failure(_POD_REASONS[reason], f"the pod was ended: {reason}: {shortened(message)}", evidence)
    return None


def _not_starting(container: Raw, warnings: Sequence[Raw], evidence: Sequence[str]) -> JobFailure | None:
    name = raw.text(container, "name")
    waiting = raw.mapping(container, "state", "waiting")
    reason, message = raw.text(waiting, "reason"), raw.text(waiting, "message")
    if reason in _PULL_ERRORS:
        cause = _cause_of_pull_error(reason, message, warnings)
        if not cause or _may_pass(cause):
            return None
        image = raw.text(container, "image")
        return failure(Reason.IMAGE_PULL, f"{name}: {reason} for {image}: {shortened(cause)}", evidence)
    if reason in _CREATE_ERRORS and not _may_pass(message):
        return _not_created(f"{name}: {reason}: {shortened(message)}", message, evidence)
    ended = raw.mapping(container, "state", "terminated")
    is_init = raw.text(ended, "reason") and name not in (MEASURE, "hold")
    if is_init and raw.whole(ended, "exitCode"):
        code = raw.whole(ended, "exitCode")
        if raw.text(ended, "reason") == "OOMKilled":
            return failure(Reason.OOM_KILLED, f"{name} was killed for lack of memory (exit code {code})", evidence)
        return failure(Reason.NONZERO_EXIT, f"{name} ended with exit code {code} before measure started", evidence)
    return None


def _cause_of_pull_error(reason: str, message: str, warnings: Sequence[Raw]) -> str:
    """The registry's words. The reason alternates, and an older kubelet's back-off hides the cause: an event has it."""
    if reason not in ("ErrImagePull", "ImagePullBackOff"):
        return message or reason
    if message and (reason == "ErrImagePull" or "ErrImagePull" in message):
        return message
    pulls = [raw.text(event, "message") for event in warnings if raw.text(event, "reason") == "Failed"]
    return next((text for text in reversed(pulls) if text.startswith("Failed to pull image")), "")


def _may_pass(message: str) -> bool:
    lower = message.lower()
    return any(words in lower for words in _MAY_PASS)


def _sandbox(warnings: Sequence[Raw], evidence: Sequence[str]) -> JobFailure | None:
    """A sandbox that fails twice, or for a reason that no retry mends, is named before the deadline."""
    failed = [event for event in warnings if raw.text(event, "reason") == "FailedCreatePodSandBox"]
    if not failed:
        return None
    message = raw.text(failed[-1], "message")
    hopeless = "no runtime for" in message or "RuntimeHandler" in message
    if hopeless or sum(event_count(event) for event in failed) > 1:
        return failure(Reason.SANDBOX_FAILED, f"the pod's sandbox cannot be made: {shortened(message)}", evidence)
    return None


def _trouble(pod: Raw, warnings: Sequence[Raw]) -> str:
    for container in all_containers(pod):
        waiting = raw.mapping(container, "state", "waiting")
        if raw.text(waiting, "message"):
            return f"{raw.text(waiting, 'reason')}: {raw.text(waiting, 'message')}"
    if raw.text(pod, "spec", "nodeName"):
        # What kept the scheduler waiting is over.
        warnings = [event for event in warnings if raw.text(event, "reason") != "FailedScheduling"]
    if warnings:
        return f"{raw.text(warnings[-1], 'reason')}: {raw.text(warnings[-1], 'message')}"
    return scheduling_message(pod)
