"""What the Ready, Status and Restarts columns of a pod say: computed by the server, and not the phase.

Owns that computation. It must not know tables or HTTP.
"""

from __future__ import annotations

from typing import Any

from simcluster.api.port import Object
from simcluster.api.wire.durations import age


def _statuses(obj: Object, field: str) -> list[dict[str, Any]]:
    return list((obj.get("status") or {}).get(field) or [])


def _sidecars(obj: Object) -> set[str]:
    return {c["name"] for c in obj["spec"].get("initContainers") or [] if c.get("restartPolicy") == "Always"}


def ready(obj: Object) -> str:
    """Ready containers of all, sidecars counted."""
    sidecars = _sidecars(obj)
    total = len(obj["spec"].get("containers") or ()) + len(sidecars)
    done = sum(
        1 for status in _statuses(obj, "containerStatuses") if status.get("ready") and "running" in status["state"]
    )
    done += sum(
        1
        for s in _statuses(obj, "initContainerStatuses")
        if s["name"] in sidecars and s.get("started") and s.get("ready")
    )
    return f"{done}/{total}"


def _ended(state: dict[str, Any]) -> str:
    if reason := state.get("reason"):
        return str(reason)
    return f"Signal:{state['signal']}" if state.get("signal") else f"ExitCode:{state.get('exitCode', 0)}"


def _initializing(obj: Object) -> str | None:
    specs = obj["spec"].get("initContainers") or []
    sidecars = _sidecars(obj)
    for index, status in enumerate(_statuses(obj, "initContainerStatuses")):
        state = status.get("state") or {}
        ended = state.get("terminated")
        if ended is not None and ended.get("exitCode") == 0:
            continue
        if status["name"] in sidecars and status.get("started"):
            continue
        if ended is not None:
            return f"Init:{_ended(ended)}"
        reason = (state.get("waiting") or {}).get("reason", "")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{index}/{len(specs)}"
    return None


def _from_containers(obj: Object, shown: str) -> str:
    running = False
    for status in reversed(_statuses(obj, "containerStatuses")):
        state = status.get("state") or {}
        if (waiting := state.get("waiting")) and waiting.get("reason"):
            shown = str(waiting["reason"])
        elif ended := state.get("terminated"):
            shown = _ended(ended)
        elif status.get("ready") and "running" in state:
            running = True
    if shown == "Completed" and running:
        is_ready = any(c["type"] == "Ready" and c["status"] == "True" for c in _statuses(obj, "conditions"))
        return "Running" if is_ready else "NotReady"
    return shown


def status(obj: Object) -> str:
    """The word a person reads: Init:0/1, ContainerCreating, CrashLoopBackOff, Completed, Terminating …"""
    state = obj.get("status") or {}
    shown = str(state.get("reason") or state.get("phase") or "Unknown")
    for condition in state.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            shown = "SchedulingGated"
    initializing = _initializing(obj)
    shown = _from_containers(obj, shown) if initializing is None else initializing
    if "deletionTimestamp" in obj["metadata"]:
        if state.get("reason") == "NodeLost":
            return "Unknown"
        if state.get("phase") not in ("Succeeded", "Failed"):
            return "Terminating"
    return shown


def restarts(obj: Object) -> str:
    """Number of restarts, with the age of the last where there is one."""
    statuses = _statuses(obj, "containerStatuses")
    total = sum(status.get("restartCount", 0) for status in statuses)
    last = [
        status["lastState"]["terminated"]["finishedAt"]
        for status in statuses
        if (status.get("lastState") or {}).get("terminated", {}).get("finishedAt")
    ]
    return f"{total} ({age(max(last))} ago)" if total and last else str(total)


_ENDS = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def row_conditions(obj: Object) -> list[Object]:
    """What a table row says of a pod that has ended; clients print such rows dimmed."""
    phase = (obj.get("status") or {}).get("phase")
    if phase not in _ENDS:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDS[phase]}]
