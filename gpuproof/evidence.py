"""Failures with evidence: what statuses and events say, one line each and capped, and what to do next by reason.

It must not know how an outcome is decided.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuproof.cluster import raw
from gpuproof.cluster.raw import Raw
from gpuproof.failure import JobFailure, Reason

MEASURE = "measure"
MAX_EVIDENCE = 8
MAX_EVIDENCE_CHARS = 1500

_NEXT = {
    Reason.IMAGE_PULL: "check the image reference, the registry and the pull secret",
    Reason.GPU_RUNTIME_FAILED: "look at the node's driver and container toolkit, which must be of one version",
    Reason.CREATE_ERROR: "check the image, the command and the profile's [pod] patch",
    Reason.SANDBOX_FAILED: "check the node's container runtime, runtime class and network plug-in",
    Reason.VOLUME_FAILED: "look at the storage driver on the node, and whether the volume may be on several nodes",
    Reason.ADMISSION_REFUSED: "check the node's device plug-in and what the kubelet has allocated",
    Reason.OOM_KILLED: "raise the memory limit in the profile's [pod] patch, or drop it",
    Reason.EVICTED: "look for pressure on the node and for who evicts pods there",
    Reason.PREEMPTED: "give the run's pods a priority class or free the nodes first",
    Reason.DEADLINE_EXCEEDED: "raise the deadline in the profile, or look why the workload is slow",
    Reason.NODE_LOST: "look at the node's kubelet, power and network",
    Reason.POD_DELETED: "find out who deletes the run's pods",
    Reason.NONZERO_EXIT: "read the container's log",
}


def failure(reason: Reason, what: str, evidence: Sequence[str] = ()) -> JobFailure:
    """A JobFailure whose message ends with what to do next and whose evidence is capped."""
    hint = _NEXT.get(reason)
    return JobFailure(reason, f"{what.rstrip('. ')}; {hint}" if hint else what, capped(evidence))


def capped(texts: Sequence[str]) -> tuple[str, ...]:
    """At most `MAX_EVIDENCE` texts of `MAX_EVIDENCE_CHARS` each, head and tail kept, repeats left out."""
    unique = list(dict.fromkeys(text for text in texts if text))
    kept = unique if len(unique) <= MAX_EVIDENCE else [*unique[: MAX_EVIDENCE - 1], unique[-1]]
    return tuple(shortened(text, MAX_EVIDENCE_CHARS) for text in kept)


def status_texts(pod: Raw) -> list[str]:
    """What a pod's status says, one line for the pod and one for each container that is not simply running."""
    status = raw.mapping(pod, "status")
    if not status:
        return []
    line = " ".join(raw.text(status, key) for key in ("phase", "reason", "message") if raw.text(status, key))
    texts = [f"pod: {line}"] if line else []
    for kind in ("PodScheduled", "DisruptionTarget"):
        entry = raw.condition(pod, kind)
        if raw.text(entry, "reason"):
            said = f"{raw.text(entry, 'status')} {raw.text(entry, 'reason')} {raw.text(entry, 'message')}"
            texts.append(f"condition {kind}={said.strip()}")
    for container in all_containers(pod):
        for state in ("waiting", "terminated"):
            seen = raw.mapping(container, "state", state)
            if seen:
                parts = [
                    f"{key}={raw.text(seen, key)}" for key in ("reason", "exitCode", "message") if raw.text(seen, key)
                ]
                texts.append(f"container {raw.text(container, 'name')}: {state} {' '.join(parts)}".rstrip())
    return texts


def event_text(event: Raw) -> str:
    """An event in one line: reason, how often, message."""
    count = event_count(event)
    times = f" (x{count})" if count > 1 else ""
    return f"event {raw.text(event, 'reason')}{times}: {raw.text(event, 'message')}"


def event_count(event: Raw) -> int:
    """How often an event was seen: `count`, or `series.count` of newer reporters; at least 1."""
    return max(raw.whole(event, "count") or 1, raw.whole(event, "series", "count") or 1)


def all_containers(pod: Raw) -> list[Raw]:
    """Container statuses in the order of what to blame: containers that come before, measure, the others."""
    own = sorted(
        raw.objects(pod, "status", "containerStatuses"), key=lambda status: raw.text(status, "name") != MEASURE
    )
    return raw.objects(pod, "status", "initContainerStatuses") + own


def shortened(text: str, limit: int = 400) -> str:
    """Head and tail of a text that is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]} … {text[-half:]}"
