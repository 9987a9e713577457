"""What a kubelet does first after its node has lost power: own up to the pods that did not survive.

Owns their last status. It must not know how the node went down.
"""

from __future__ import annotations

from typing import Any

from simcluster.api.port import ApiError, Client, Object

_LOST: dict[str, Any] = {
    "exitCode": 137,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was terminated",
    "startedAt": None,
    "finishedAt": None,
}


async def fail_lost_pods(client: Client, node: str) -> None:
    """Fail every pod of the node that ran and may not be started again. Raises `ApiError`."""
    listed = await client.list("pods", field_selector=f"spec.nodeName={node}")
    for pod in listed.items:
        status = pod.get("status") or {}
        if pod["spec"].get("restartPolicy") != "Never" or status.get("phase") != "Running":
            continue
        metadata = pod["metadata"]
        body = {"metadata": {"uid": metadata["uid"]}, "status": _lost_status(status)}
        try:
            await client.patch("pods", metadata["name"], body, metadata["namespace"], subresource="status")
        except ApiError as error:
            if error.code not in (404, 409):
                raise


def _lost_status(status: Object) -> Object:
    containers = []
    for each in status.get("containerStatuses") or []:
        ended = "terminated" in (each.get("state") or {})
        changed = {} if ended else {"state": {"running": None, "waiting": None, "terminated": _LOST}}
        containers.append({**each, **changed, "ready": False, "started": False})
    conditions = [
        {**each, "status": "False"} if each["type"] in ("Ready", "ContainersReady") else each
        for each in status.get("conditions") or []
    ]
    return {"phase": "Failed", "containerStatuses": containers, "conditions": conditions}
