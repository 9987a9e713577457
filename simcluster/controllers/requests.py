"""Small requests that several controllers make in the same way.

Owns their bodies and which refusals mean that the work is already done; must not know why they are made.
"""

from __future__ import annotations

from simcluster.api.port import ApiError, Client, Object, Propagation
from simcluster.controllers import clock, fields


async def delete_if_there(
    client: Client,
    resource: str,
    obj: Object,
    *,
    grace_period_s: int | None = None,
    propagation: Propagation | None = None,
) -> None:
    """Delete exactly this object; that it is gone, or another one has its name, is no error."""
    try:
        await client.delete(
            resource,
            fields.name(obj),
            fields.namespace(obj) or None,
            grace_period_s=grace_period_s,
            propagation=propagation,
            uid=fields.uid(obj),
        )
    except ApiError as error:
        if error.code not in {404, 409}:
            raise


async def remove_finalizer(client: Client, resource: str, obj: Object, finalizer: str) -> None:
    """Take one finalizer off; that the object is gone is no error."""
    kept = [each for each in fields.finalizers(obj) if each != finalizer]
    body = {"metadata": {"uid": fields.uid(obj), "finalizers": kept or None}}
    try:
        await client.patch(resource, fields.name(obj), body, fields.namespace(obj) or None)
    except ApiError as error:
        if error.code not in {404, 409}:
            raise


async def set_pod_status(client: Client, pod: Object, change: Object) -> bool:
    """Merge a change into a pod's status, conditions by type; False where the pod is gone."""
    try:
        await client.patch(
            "pods",
            fields.name(pod),
            {"metadata": {"uid": fields.uid(pod)}, "status": change},
            fields.namespace(pod),
            kind="strategic",
            subresource="status",
        )
    except ApiError as error:
        if error.code not in {404, 409}:
            raise
        return False
    return True


def condition(kind: str, value: str, reason: str, message: str) -> Object:
    """A condition of now, as most kinds have it."""
    return {
        "type": kind,
        "status": value,
        "lastTransitionTime": clock.stamp(),
        "reason": reason,
        "message": message,
    }


def pod_condition(kind: str, value: str, reason: str, message: str) -> Object:
    """A pod condition of now."""
    return {**condition(kind, value, reason, message), "lastProbeTime": None}


def merge_conditions(present: list[Object], wanted: list[Object]) -> list[Object]:
    """`wanted`, each keeping its transition time where its status is unchanged, then the other present ones."""
    known = {each["type"]: each for each in present}
    merged = []
    for each in wanted:
        before = known.pop(each["type"], None)
        if before is not None and before["status"] == each["status"]:
            each = {**each, "lastTransitionTime": before.get("lastTransitionTime")}  # noqa: PLW2901
        merged.append(each)
    return merged + list(known.values())
