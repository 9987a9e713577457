"""Pods (and ReplicaSets) of a workload: made from its template, found by owner, deleted with an event.

Owns these shapes and requests; must not know how many there should be.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from simcluster.api.port import ApiError, Client, Object
from simcluster.controllers import fields
from simcluster.controllers.events import EventRecorder, Severity
from simcluster.controllers.informers import Informers
from simcluster.controllers.requests import delete_if_there

Key = tuple[str, str]
LONGEST_PREFIX = 58


def template_hash(template: Object) -> str:
    """Ten characters that differ where two templates differ."""
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]


def owner_reference(owner: Object) -> Object:
    """The reference that makes an object the owner's."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": fields.name(owner),
        "uid": fields.uid(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_of(owner: Object, extra_labels: Mapping[str, str], spec: Mapping[str, Any] | None = None) -> Object:
    """A new pod from spec.template; `spec` replaces fields of the template's spec."""
    template = fields.spec(owner)["template"]
    meta = template.get("metadata") or {}
    made: Object = {
        "generateName": f"{fields.name(owner)[:LONGEST_PREFIX]}-",
        "namespace": fields.namespace(owner),
        "labels": {**(meta.get("labels") or {}), **extra_labels},
        "ownerReferences": [owner_reference(owner)],
    }
    if meta.get("annotations"):
        made["annotations"] = meta["annotations"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": made, "spec": {**template["spec"], **(spec or {})}}


class Children:
    """Objects of one resource by the uid of the controller that owns them; `wake` is told the owner's key on changes.

    What this process made itself is known at once, before the watch tells of it.
    """

    def __init__(self, informers: Informers, resource: str, kind: str, wake: Callable[[Key], None]) -> None:
        self._kind = kind
        self._wake = wake
        self._by_owner: dict[str, dict[str, Object]] = {}
        self._gone: dict[str, None] = {}
        informers.of(resource).on_change(self._on_change)

    def of(self, owner: Object) -> list[Object]:
        """The owner's objects, oldest first."""
        return list(self._by_owner.get(fields.uid(owner), {}).values())

    def put(self, obj: Object) -> None:
        """Take an object's version unless a newer one is known."""
        ref = fields.controller_of(obj)
        if ref is None or ref["kind"] != self._kind or fields.uid(obj) in self._gone:
            return
        siblings = self._by_owner.setdefault(ref["uid"], {})
        known = siblings.get(fields.uid(obj))
        if known is None or fields.version(known) < fields.version(obj):
            siblings[fields.uid(obj)] = obj

    def _on_change(self, old: Object | None, new: Object | None) -> None:
        for obj in (old, new):
            ref = fields.controller_of(obj) if obj is not None else None
            if obj is None or ref is None or ref["kind"] != self._kind:
                continue
            if new is None:
                self._by_owner.get(ref["uid"], {}).pop(fields.uid(obj), None)
                self._gone[fields.uid(obj)] = None
                while len(self._gone) > 1024:
                    del self._gone[next(iter(self._gone))]
            self._wake((fields.namespace(obj), ref["name"]))
        if new is not None:
            self.put(new)


class PodHands:
    """Creates and deletes pods for one controller, with the events that tell of it."""

    def __init__(self, client: Client, recorder: EventRecorder, component: str, children: Children) -> None:
        self._client = client
        self._recorder = recorder
        self._component = component
        self._children = children

    async def create(self, owner: Object, pod: Object) -> None:
        """Raises ApiError where the pod is refused, after the FailedCreate event."""
        try:
            made = await self._client.create("pods", pod, fields.namespace(owner))
        except ApiError as error:
            self._tell(owner, "Warning", "FailedCreate", f"Error creating: {error.message}")
            raise
        self._children.put(made)
        self._tell(owner, "Normal", "SuccessfulCreate", f"Created pod: {fields.name(made)}")

    async def delete(self, owner: Object, pod: Object) -> None:
        """Delete with the pod's own grace."""
        await delete_if_there(self._client, "pods", pod)
        self._tell(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {fields.name(pod)}")

    def _tell(self, owner: Object, severity: Severity, reason: str, message: str) -> None:
        self._recorder.record(self._component, owner, severity, reason, message)


async def write_status(client: Client, resource: str, obj: Object, status: Object) -> None:
    """Write a status that differs from the stored one; that the object is gone is no error."""
    if status == fields.status(obj):
        return
    try:
        await client.update(resource, {**obj, "status": status}, subresource="status")
    except ApiError as error:
        if error.code != 404:
            raise
