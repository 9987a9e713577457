"""What Trainer's webhook refuses.

Owns these rules. Pure; it sees one TrainJob and not its runtime.
"""

from __future__ import annotations

import re

from simcluster.api.port import ApiError, Object
from simcluster.api.resources import Request
from simcluster.controllers import fields
from simcluster.operators.trainer import words

_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


def admit(request: Request) -> Object:
    """The object as it is. Raises ApiError 403 for a TrainJob that cannot be."""
    if request.kind.name != words.RESOURCE or request.subresource:
        return request.obj
    obj, old = request.obj, request.old
    why = ""
    if not _LABEL.fullmatch(fields.name(obj)):
        why = f"metadata.name: Invalid value: {fields.name(obj)!r}: must be a DNS-1035 label"
    if old is not None and not (fields.spec(old).get("suspend") or fields.spec(obj).get("suspend")):
        before, after = (fields.spec(each).get("podTemplateOverrides") for each in (old, obj))
        if before != after:
            why = "spec.podTemplateOverrides: Forbidden: can only be modified when the TrainJob is suspended"
    if why:
        webhook = "validator.trainjob.trainer.kubeflow.org"
        raise ApiError(403, "Forbidden", f'admission webhook "{webhook}" denied the request: {why}', {})
    return obj
