"""What makes an object invalid (422), kind by kind, in Kubernetes' own words."""

from __future__ import annotations

from simcluster.api import errors
from simcluster.api.port import Object
from simcluster.api.resources import Request
from simcluster.api.validation.changes import immutable
from simcluster.api.validation.jobs import check_job
from simcluster.api.validation.names import check_metadata
from simcluster.api.validation.others import check_other
from simcluster.api.validation.pods import check_pod
from simcluster.api.validation.sizes import check_size

__all__ = ["validate"]


def validate(request: Request) -> Object:
    """The object unchanged. Raises ApiError 422 with all causes at once."""
    kind, obj = request.kind, request.obj
    if request.subresource:
        return obj
    if request.operation == "UPDATE" and request.old is not None:
        causes = immutable(kind.name, request.old, obj)
    else:
        causes = []
        if kind.name == "jobs.batch":
            causes += check_job(obj)
        causes += check_metadata(kind, obj)
        if kind.name == "pods":
            causes += check_pod(obj)
        causes += check_other(kind.name, obj)
    causes += check_size(kind.name, obj)
    if causes:
        raise errors.invalid(kind, obj["metadata"].get("name") or "", causes)
    return obj
