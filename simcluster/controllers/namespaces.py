"""Empties namespaces that are being deleted, pods first, and lets them go when nothing is left.

Owns the order of the deletion and the conditions that tell of it; must not know what the deleted objects are for.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from simcluster.api.port import ApiError, Client, Object
from simcluster.controllers import fields
from simcluster.controllers.informers import Informers
from simcluster.controllers.kinds import CONTENT
from simcluster.controllers.requests import condition, delete_if_there, merge_conditions
from simcluster.controllers.workqueue import TryAgainError, WorkQueue
from simcluster.timing import Timing

NAMESPACES = "namespaces"
YIELD_EVERY = 16


@dataclass
class _Left:
    """What a sweep could not remove yet: objects by resource, and objects by finalizer."""

    objects: Counter[str] = field(default_factory=Counter)
    finalizers: Counter[str] = field(default_factory=Counter)
    fresh: bool = False
    """Some of it was deleted only now."""

    def note(self, resource: str, obj: Object) -> None:
        """One object is still there."""
        self.objects[resource] += 1
        self.finalizers.update(fields.finalizers(obj))


class NamespaceController:
    """Sweeps a terminating namespace some seconds after its deletion, then with growing delays."""

    def __init__(self, client: Client, timing: Timing, informers: Informers) -> None:
        self._client = client
        self._first_s = timing.namespace_first_sweep_s
        self._queue: WorkQueue[str] = WorkQueue(
            self._sweep, title="namespace", retry_first_s=timing.s(4.0), retry_max_s=timing.s(60.0), workers=2
        )
        self._namespaces = informers.of(NAMESPACES)
        self._seen: set[str] = set()
        self._namespaces.on_change(self._on_namespace)

    def start(self) -> None:
        """Start after the informers."""
        self._queue.start()

    async def stop(self) -> None:
        """Stop sweeping."""
        await self._queue.stop()

    def _on_namespace(self, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None:
            self._seen.discard(fields.uid(old))
        elif new is not None and fields.deleting(new) and fields.uid(new) not in self._seen:
            # Later changes are this controller's own conditions; the sweeps have their own clock.
            self._seen.add(fields.uid(new))
            self._queue.add_after(fields.name(new), self._first_s)

    async def _sweep(self, name: str) -> None:
        namespace = self._namespaces.items.get(("", name))
        if namespace is None or not fields.deleting(namespace):
            return
        left = await self._delete_all("pods", name)
        if left.objects["pods"]:
            # Of pods a real controller tells only those that it finds again in a later sweep, and never how many (19).
            await self._report(namespace, _Left(), pods_left=not left.fresh)
            raise TryAgainError
        left = await self._delete_content(name)
        await self._report(namespace, left, pods_left=False)
        if left.objects:
            raise TryAgainError
        await self._finalize(name)

    async def _delete_content(self, name: str) -> _Left:
        left = _Left()
        for resource in (*CONTENT, *await self._custom()):
            found = await self._delete_all(resource, name)
            left.objects.update(found.objects)
            left.finalizers.update(found.finalizers)
        return left

    async def _custom(self) -> list[str]:
        definitions = await self._client.list("customresourcedefinitions.apiextensions.k8s.io")
        return [fields.name(each) for each in definitions.items if fields.spec(each).get("scope") == "Namespaced"]

    async def _delete_all(self, resource: str, namespace: str) -> _Left:
        left = _Left()
        try:
            found = await self._client.list(resource, namespace)
            for position, obj in enumerate(found.items):
                if not fields.deleting(obj):
                    left.fresh = True
                    await delete_if_there(self._client, resource, obj, propagation="Background")
                if position % YIELD_EVERY == YIELD_EVERY - 1:
                    await asyncio.sleep(0)
            for obj in (await self._client.list(resource, namespace)).items:
                left.note(resource, obj)
        except ApiError as error:
            if error.code != 404:
                raise
        return left

    async def _report(self, namespace: Object, left: _Left, *, pods_left: bool) -> None:
        present = fields.status(namespace).get("conditions") or []
        wanted = merge_conditions(present, _conditions(fields.name(namespace), left, pods_left=pods_left))
        if wanted == present:
            return
        status = {"status": {**fields.status(namespace), "conditions": wanted}}
        await self._client.patch(NAMESPACES, fields.name(namespace), status, subresource="status")

    async def _finalize(self, name: str) -> None:
        try:
            current = await self._client.get(NAMESPACES, name)
            spec = {**fields.spec(current), "finalizers": []}
            await self._client.update(NAMESPACES, {**current, "spec": spec}, subresource="finalize")
        except ApiError as error:
            if error.code != 404:
                raise


def _conditions(name: str, left: _Left, *, pods_left: bool) -> list[Object]:
    failure = condition(
        "NamespaceDeletionContentFailure",
        "False",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    )
    objects, finalizers = left.objects, left.finalizers
    if pods_left:
        failure = condition(
            "NamespaceDeletionContentFailure",
            "True",
            "ContentDeletionFailed",
            f"Failed to delete all resource types, 1 remaining: unexpected items still remain in namespace: {name}"
            " for gvr: /v1, Resource=pods",
        )
    remaining = ", ".join(f"{_dotted(resource)} has {count} resource instances" for resource, count in objects.items())
    holding = ", ".join(f"{finalizer} in {count} resource instances" for finalizer, count in finalizers.items())
    return [
        condition(
            "NamespaceDeletionDiscoveryFailure",
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        condition(
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        failure,
        condition(
            "NamespaceContentRemaining",
            "True" if remaining else "False",
            "SomeResourcesRemain" if remaining else "ContentRemoved",
            f"Some resources are remaining: {remaining}" if remaining else "All content successfully removed",
        ),
        condition(
            "NamespaceFinalizersRemaining",
            "True" if holding else "False",
            "SomeFinalizersRemain" if holding else "ContentHasNoFinalizers",
            f"Some content in the namespace has finalizers remaining: {holding}"
            if holding
            else "All content-preserving finalizers finished",
        ),
    ]


def _dotted(resource: str) -> str:
    """The core group's resources are written with a full stop and nothing behind it."""
    return resource if "." in resource else f"{resource}."
