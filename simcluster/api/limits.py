"""LimitRange admission: defaults for containers that say nothing, refusals for those that ask too much or too little.

Owns those rules. It must not know HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simcluster.api import errors
from simcluster.api.port import Object
from simcluster.api.quantities import parse
from simcluster.api.resources import Request, Resources
from simcluster.api.selectors import Selection

_ANNOTATION = "kubernetes.io/limit-ranger"


class LimitRanger:
    """Applies every LimitRange of the namespace to a new pod."""

    def __init__(self, resources: Resources) -> None:
        self._ranges = resources.store.collection("limitranges")

    def __call__(self, request: Request) -> Object:
        """The pod with defaults. Raises ApiError 403."""
        obj = request.obj
        if request.operation != "CREATE" or request.kind.name != "pods":
            return obj
        for entry in sorted(self._ranges.candidates(Selection(obj["metadata"]["namespace"])), key=lambda e: e.key):
            for item in entry.obj["spec"].get("limits") or []:
                if item.get("type") == "Container":
                    obj = _with_defaults(obj, item)
                    self._hold(request, obj, item)
        return obj

    @staticmethod
    def _hold(request: Request, pod: Object, item: Mapping[str, Any]) -> None:
        complaints: list[str] = []
        for container in pod["spec"].get("containers") or []:
            complaints += _complaints(container.get("resources") or {}, item)
        if complaints:
            why = complaints[0] if len(complaints) == 1 else f"[{', '.join(complaints)}]"
            raise errors.forbidden(request.kind, pod["metadata"]["name"], why)


def _complaints(resources: Mapping[str, Any], item: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, bound in (item.get("min") or {}).items():
        if name not in requests and name not in limits:
            found.append(f"minimum {name} usage per Container is {bound}.  No request is specified")
        elif name in requests and parse(requests[name]) < parse(bound):
            found.append(f"minimum {name} usage per Container is {bound}, but request is {requests[name]}")
        elif name in limits and parse(limits[name]) < parse(bound):
            found.append(f"minimum {name} usage per Container is {bound}, but limit is {limits[name]}")
    for name, bound in (item.get("max") or {}).items():
        if name not in limits:
            found.append(f"maximum {name} usage per Container is {bound}.  No limit is specified")
        elif parse(limits[name]) > parse(bound):
            found.append(f"maximum {name} usage per Container is {bound}, but limit is {limits[name]}")
        elif name in requests and parse(requests[name]) > parse(bound):
            found.append(f"maximum {name} usage per Container is {bound}, but request is {requests[name]}")
    return found


def _with_defaults(pod: Object, item: Mapping[str, Any]) -> Object:
    default_limits = item.get("default") or item.get("max") or {}
    default_requests = item.get("defaultRequest") or item.get("min") or default_limits
    said: list[str] = []
    containers = []
    for container in pod["spec"].get("containers") or []:
        resources = container.get("resources") or {}
        requests, limits = dict(resources.get("requests") or {}), dict(resources.get("limits") or {})
        added = {name: value for name, value in default_requests.items() if name not in requests}
        capped = {name: value for name, value in default_limits.items() if name not in limits}
        said += [f"{name} request for container {container['name']}" for name in sorted(added)]
        said += [f"{name} limit for container {container['name']}" for name in sorted(capped)]
        filled = {**resources, "requests": {**requests, **added}, "limits": {**limits, **capped}}
        containers.append({**container, "resources": {key: value for key, value in filled.items() if value}})
    if not said:
        return pod
    metadata = dict(pod["metadata"])
    text = f"LimitRanger plugin set: {'; '.join(said)}"
    metadata["annotations"] = {**(metadata.get("annotations") or {}), _ANNOTATION: text}
    status = {**pod["status"], "qosClass": "Burstable"}
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "containers": containers}, "status": status}
