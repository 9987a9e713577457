"""A pod's status from what the node knows, in the shapes recorded on a real kubelet (golden 01b, 13, 18).

Owns conditions, container states and the phase rule. Pure: it must not know time, processes or the API.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from simcluster.api.port import Object

EPOCH = "1970-01-01T00:00:00Z"
Role = Literal["init", "sidecar", "app"]


@dataclass
class ContainerRecord:
    """One container as the node sees it; `state` and `last_state` are the wire shapes."""

    name: str
    image: str
    role: Role
    state: dict[str, Any]
    last_state: dict[str, Any] = field(default_factory=dict)
    restart_count: int = 0
    container_id: str = ""
    image_id: str = ""
    mounts: Sequence[Object] = ()
    ready: bool = False
    finished: bool = False
    """Ended for good: it will not be restarted."""

    @property
    def running(self) -> bool:
        """The container's process is there."""
        return "running" in self.state

    @property
    def exit_code(self) -> int | None:
        """Of the present state, where terminated."""
        terminated = self.state.get("terminated")
        return None if terminated is None else int(terminated["exitCode"])

    def wire(self) -> Object:
        """As an element of containerStatuses."""
        status: Object = {
            "name": self.name,
            "state": self.state,
            "lastState": self.last_state,
            "ready": self.ready,
            "restartCount": self.restart_count,
            "image": self.image,
            "imageID": self.image_id,
            "started": self.running,
            "resources": {},
        }
        if self.container_id:
            status["containerID"] = self.container_id
        if self.mounts:
            status["volumeMounts"] = list(self.mounts)
        return status


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    """A waiting state."""
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def outcome(records: Sequence[ContainerRecord]) -> Literal["Succeeded", "Failed"] | None:
    """How the pod has ended, or None while it has not: sidecars do not count; a failed init container ends it."""
    if any(record.role == "init" and record.finished and record.exit_code not in (0, None) for record in records):
        return "Failed"
    apps = [record for record in records if record.role == "app"]
    if not all(record.finished for record in apps):
        return None
    return "Succeeded" if all(record.exit_code == 0 for record in apps) else "Failed"


@dataclass(frozen=True)
class PodView:
    """All that a status is made from."""

    pod: Object
    records: Sequence[ContainerRecord]
    host_ip: str
    start_time: str
    pod_ip: str = ""
    sandbox_ready: bool = False
    final: bool = False
    """The phase may follow its containers (a real kubelet lags by about a second)."""
    doomed: bool = False
    """Over its active deadline: not ready, though its containers still run."""
    reason: str = ""
    message: str = ""


def pod_status(view: PodView, now: str) -> Object:
    """The whole status to write; `now` is the time for conditions that change."""
    ended = outcome(view.records)
    if any(record.role == "sidecar" and record.running for record in view.records):
        ended = None
    if view.final and view.reason:
        ended = "Failed"
    status: Object = {
        "observedGeneration": view.pod["metadata"].get("generation", 1),
        "phase": _phase(view, ended),
        "conditions": _conditions(view, ended, now),
        "hostIP": view.host_ip,
        "hostIPs": [{"ip": view.host_ip}],
        "startTime": view.start_time,
        "containerStatuses": _statuses(view.records, ("app",)),
        "qosClass": view.pod.get("status", {}).get("qosClass", "BestEffort"),
        "resources": {},
    }
    inits = _statuses(view.records, ("init", "sidecar"), ordered=False)
    if inits:
        status["initContainerStatuses"] = inits
    if view.pod_ip:
        status["podIP"] = view.pod_ip
        status["podIPs"] = [{"ip": view.pod_ip}]
    if view.final and view.reason:
        status["reason"] = view.reason
        status["message"] = view.message
    return status


def _statuses(records: Sequence[ContainerRecord], roles: Sequence[Role], *, ordered: bool = True) -> list[Object]:
    chosen = [record for record in records if record.role in roles]
    if ordered:
        chosen.sort(key=lambda record: record.name)
    return [record.wire() for record in chosen]


def _phase(view: PodView, ended: str | None) -> str:
    if view.final and ended:
        return ended
    apps = [record for record in view.records if record.role == "app"]
    if any(_has_run(record) for record in apps):
        return "Running"
    return "Pending"


def _has_run(record: ContainerRecord) -> bool:
    if record.running or record.last_state:
        return True
    terminated = record.state.get("terminated")
    return terminated is not None and terminated["startedAt"] != EPOCH


def _conditions(view: PodView, ended: str | None, now: str) -> list[Object]:
    existing = {condition["type"]: condition for condition in view.pod.get("status", {}).get("conditions", [])}
    failed_reason = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}
    wanted: list[tuple[str, bool, str, str]] = [
        ("PodReadyToStartContainers", view.sandbox_ready and not view.final, "", ""),
        _initialized(view.records, ended),
    ]
    if ended or view.doomed:
        reason = failed_reason[ended or "Failed"]
        wanted += [("Ready", False, reason, ""), ("ContainersReady", False, reason, "")]
    else:
        unready = [record.name for record in view.records if record.role != "init" and not record.ready]
        message = f"containers with unready status: [{' '.join(unready)}]" if unready else ""
        reason = "ContainersNotReady" if unready else ""
        wanted += [("Ready", not unready, reason, message), ("ContainersReady", not unready, reason, message)]
    # The kubelet tells it too, for pods that never met the scheduler.
    wanted.append(("PodScheduled", True, "", ""))
    generation = view.pod["metadata"].get("generation", 1)
    made = [
        _condition(existing.get(kind), kind, is_true, reason, message, generation, now)
        for kind, is_true, reason, message in wanted
    ]
    names = {condition["type"] for condition in made}
    return made + [condition for kind, condition in existing.items() if kind not in names]


def _initialized(records: Sequence[ContainerRecord], ended: str | None) -> tuple[str, bool, str, str]:
    missing = [record.name for record in records if record.role != "app" and not _initialised(record)]
    if missing and ended != "Succeeded":
        return (
            "Initialized",
            False,
            "ContainersNotInitialized",
            f"containers with incomplete status: [{' '.join(missing)}]",
        )
    return ("Initialized", True, "PodCompleted" if ended == "Succeeded" else "", "")


def _initialised(record: ContainerRecord) -> bool:
    if record.role == "init":
        return record.exit_code == 0
    return record.running or bool(record.last_state) or record.exit_code is not None


def _condition(
    before: Object | None, kind: str, is_true: bool, reason: str, message: str, generation: int, now: str
) -> Object:
    value = "True" if is_true else "False"
    unchanged = before is not None and before.get("status") == value
    condition: Object = {
        "type": kind,
        "observedGeneration": generation,
        "status": value,
        "lastProbeTime": None,
        "lastTransitionTime": before["lastTransitionTime"] if before is not None and unchanged else now,
    }
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    return condition
