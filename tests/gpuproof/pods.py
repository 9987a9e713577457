"""Builds pods and events in the shapes that a real API server and kubelet were seen to send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuproof.manifests import JOB_LABEL, SWEEP_LABEL
from workloads.contract import Measurement, Sample, encode

Json = dict[str, Any]


def waiting(reason: str, message: str = "") -> Json:
    """A container state."""
    return {"waiting": {"reason": reason} | ({"message": message} if message else {})}


def running() -> Json:
    """A container state."""
    return {"running": {"startedAt": "2026-01-01T00:00:01Z"}}


def terminated(code: int, message: str | None = None, reason: str | None = None) -> Json:
    """A container state; the field message is absent when nothing was written."""
    state: Json = {"exitCode": code, "reason": reason or ("Completed" if code == 0 else "Error")}
    return {"terminated": state | ({} if message is None else {"message": message})}


def condition(kind: str, status: str, reason: str = "", message: str = "") -> Json:
    """An entry of status.conditions."""
    return {"type": kind, "status": status} | ({"reason": reason, "message": message} if reason else {})


def pod(
    name: str = "j-0-aaaaa",
    *,
    node: str | None = "n1",
    phase: str = "Pending",
    containers: Mapping[str, Json] | None = None,
    init: Mapping[str, Json] | None = None,
    conditions: list[Json] | None = None,
    job: str = "j",
    sweep: str = "s",
    index: int = 0,
    deleting: bool = False,
    **status: Any,
) -> Json:
    """A pod; container statuses come sorted by name and are absent where there is none."""
    metadata: Json = {
        "name": name,
        "namespace": "ns",
        "labels": {JOB_LABEL: job, SWEEP_LABEL: sweep},
        "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
    }
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:09Z"
    full: Json = {"phase": phase, **status}
    if conditions is not None:
        full["conditions"] = conditions
    if containers:
        full["containerStatuses"] = _statuses(containers)
    if init:
        full["initContainerStatuses"] = _statuses(init)
    return {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": full}


def event(about: str, reason: str, message: str, *, count: int = 1, name: str = "", kind: str = "Pod") -> Json:
    """A Warning event."""
    return {
        "kind": "Event",
        "type": "Warning",
        "reason": reason,
        "message": message,
        "count": count,
        "metadata": {"name": name or f"{about}.{reason}", "namespace": "ns"},
        "involvedObject": {"kind": kind, "name": about},
    }


def measurement(node: str, pod_name: str, **changed: Any) -> Measurement:
    """A small measurement of workload `probe` in run `r1`."""
    fields: Json = {
        "workload": "probe",
        "run_id": "r1",
        "node": node,
        "pod": pod_name,
        "world_size": 1,
        "hosts": 1,
        "samples": (Sample("answer", 42.0, "count"),),
    }
    return Measurement(**(fields | changed))


def message(node: str, pod_name: str, **changed: Any) -> str:
    """Its termination message."""
    return encode(measurement(node, pod_name, **changed))


def _statuses(containers: Mapping[str, Json]) -> list[Json]:
    return [
        {"name": name, "state": state, "lastState": {}, "restartCount": 0, "image": "registry.example/team:1"}
        for name, state in sorted(containers.items())
    ]
