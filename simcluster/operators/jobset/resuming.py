"""A suspended child Job that may run now: with what was decided about its pods while it was suspended.

Owns the merging. Pure.
"""

from __future__ import annotations

from typing import Any

from simcluster.api.port import Object
from simcluster.controllers import fields


def resumed(job: Object, template: Object) -> Object:
    """The Job, not suspended, its pods' marks and placing completed from the JobSet's template."""
    own = fields.spec(job)["template"]
    meta, pod = dict(own.get("metadata") or {}), dict(own["spec"])
    given, wanted = template.get("metadata") or {}, template.get("spec") or {}
    for name in ("labels", "annotations"):
        _merge(meta, name, given.get(name))
    _merge(pod, "nodeSelector", wanted.get("nodeSelector"))
    for name in ("tolerations", "schedulingGates"):
        more = [each for each in wanted.get(name) or [] if each not in (pod.get(name) or [])]
        if more:
            pod[name] = [*(pod.get(name) or []), *more]
    changed = {**own, "metadata": meta, "spec": pod}
    return {**job, "spec": {**fields.spec(job), "template": changed, "suspend": False}}


def _merge(target: dict[str, Any], name: str, more: dict[str, str] | None) -> None:
    if more:
        target[name] = {**(target.get(name) or {}), **more}
