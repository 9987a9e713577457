"""The in-process client: `port.Client` over the same verbs that the HTTP server offers.

Owns the translation of the port's calls into verbs. It must not know HTTP; it acts as a user whom nothing is forbidden.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

from simcluster.api import errors, patches
from simcluster.api.kinds import Kind
from simcluster.api.metadata import DeleteOptions
from simcluster.api.port import ApiError, Object, ObjectList, PatchKind, Propagation, WatchEvent
from simcluster.api.resources import Resources
from simcluster.api.selectors import Selection


class InProcessClient:
    """Implements `port.Client`."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    def _kind(self, resource: str) -> Kind:
        kind = self._resources.kinds.named(resource)
        if kind is None:
            raise errors.unknown_resource()
        return kind

    async def get(self, resource: str, name: str, namespace: str | None = None) -> Object:
        """One object. Raises ApiError 404."""
        return self._resources.find(self._kind(resource), name, namespace).obj

    async def list(
        self, resource: str, namespace: str | None = None, *, label_selector: str = "", field_selector: str = ""
    ) -> ObjectList:
        """All selected objects, by namespace and name."""
        kind = self._kind(resource)
        selection = Selection.parse(kind, namespace, label_selector, field_selector)
        entries = self._resources.collection(kind).select(selection)
        return ObjectList([entry.obj for entry in entries], str(self._resources.store.revision.current))

    async def watch(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
    ) -> AsyncIterator[WatchEvent]:
        """Changes after a version, until the server closes. Raises ApiError 410 where that is too old."""
        kind = self._kind(resource)
        selection = Selection.parse(kind, namespace, label_selector, field_selector)
        after = int(resource_version) if resource_version not in ("", "0") else None
        watcher = self._resources.collection(kind).watch(selection, after)
        try:
            while (batch := await watcher.batch()) is not None:
                for event, entry in batch:
                    yield WatchEvent(event, entry.obj)
            if watcher.overflowed:
                raise errors.expired("too old resource version: the watcher read too slowly")
        finally:
            watcher.close()

    async def create(self, resource: str, obj: Object, namespace: str | None = None) -> Object:
        """The object as stored. Raises ApiError 403, 404, 409, 422."""
        return self._resources.create(self._kind(resource), obj, namespace).obj

    async def update(self, resource: str, obj: Object, *, subresource: str = "") -> Object:
        """The object as stored. Raises ApiError 404, 409, 422."""
        namespace = obj["metadata"].get("namespace")
        return self._resources.update(self._kind(resource), obj, namespace, subresource).obj

    async def patch(
        self,
        resource: str,
        name: str,
        body: Any,
        namespace: str | None = None,
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
    ) -> Object:
        """The object as stored. Raises ApiError 404, 409, 422."""
        target = self._kind(resource)
        change = _CHANGES.get(kind)
        if change is None:
            raise ApiError(415, "UnsupportedMediaType", "server-side apply needs a field manager: use HTTP")
        entry = self._resources.modify(target, name, namespace, lambda obj: change(obj, body), subresource=subresource)
        return entry.obj

    async def delete(
        self,
        resource: str,
        name: str,
        namespace: str | None = None,
        *,
        grace_period_s: int | None = None,
        propagation: Propagation | None = None,
        uid: str | None = None,
    ) -> Object:
        """The object while something keeps it, else a Status. Raises ApiError 404, 409."""
        options = DeleteOptions(grace_period_s, propagation, uid)
        return self._resources.delete(self._kind(resource), name, namespace, options)[0]

    async def bind(self, namespace: str, pod: str, node: str) -> None:
        """Give a pod its node. Raises ApiError 404, 409."""
        self._resources.bind(namespace, pod, node)


_CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "json": patches.json_patch,
    "merge": patches.merge_patch,
    "strategic": patches.strategic_patch,
}
