"""Admission that every cluster has: namespaces that must exist and must not be going away.

Owns namespace lifecycle rules. It must not know HTTP or the other admission steps.
"""

from __future__ import annotations

from simcluster.api import errors
from simcluster.api.port import ApiError, Object
from simcluster.api.resources import Request, Resources

STANDING_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class NamespaceLifecycle:
    """Refuses new content in namespaces that are absent or terminating."""

    def __init__(self, resources: Resources) -> None:
        self._namespaces = resources.store.collection("namespaces")

    def __call__(self, request: Request) -> Object:
        """The object unchanged. Raises ApiError 404, 403."""
        kind, obj = request.kind, request.obj
        if request.operation != "CREATE" or not kind.namespaced:
            return obj
        namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
        entry = self._namespaces.get("", namespace)
        if entry is None:
            details = {"name": namespace, "kind": "namespaces"}
            raise ApiError(404, "NotFound", f'namespaces "{namespace}" not found', details)
        if "deletionTimestamp" in entry.obj["metadata"]:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            details = errors.details_of(kind, name)
            details["causes"] = [
                {
                    "reason": "NamespaceTerminating",
                    "message": f"namespace {namespace} is being terminated",
                    "field": "metadata.namespace",
                }
            ]
            raise errors.forbidden(kind, name, why, details)
        return obj
