"""Admission of claims that ask for more (Kubernetes' plugin PersistentVolumeClaimResize).

Owns who may grow. It must not know HTTP, or who makes a volume larger.
"""

from __future__ import annotations

from decimal import Decimal

from simcluster.api import errors
from simcluster.api.port import Object
from simcluster.api.quantities import parse
from simcluster.api.resources import Request, Resources


class ClaimResize:
    """Lets only bound claims grow, and only where their storage class allows it."""

    def __init__(self, resources: Resources) -> None:
        self._classes = resources.store.collection("storageclasses.storage.k8s.io")

    def __call__(self, request: Request) -> Object:
        """The claim unchanged. Raises ApiError 403."""
        obj, old = request.obj, request.old
        if request.kind.name != "persistentvolumeclaims" or old is None or request.subresource:
            return obj
        if _asked(obj) <= _asked(old):
            return obj
        why = ""
        if (old.get("status") or {}).get("phase") != "Bound":
            why = "Only bound persistent volume claims can be expanded"
        elif not self._allowed(old):
            why = (
                "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
                "support resize"
            )
        if why:
            raise errors.forbidden(request.kind, obj["metadata"]["name"], why)
        return obj

    def _allowed(self, claim: Object) -> bool:
        name = claim["spec"].get("storageClassName")
        entry = self._classes.get("", name) if name else None
        return entry is not None and entry.obj.get("allowVolumeExpansion") is True


def _asked(claim: Object) -> Decimal:
    return parse(((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "0"))
