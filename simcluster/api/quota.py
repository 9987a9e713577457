"""ResourceQuota admission: what a new object would use, and whether the namespace still has it.

Owns counting. It must not know HTTP; the quota's status is a controller's work.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from simcluster.api import errors
from simcluster.api.port import Object
from simcluster.api.quantities import canonical, parse, render
from simcluster.api.resources import Request, Resources
from simcluster.api.selectors import Selection

Usage = dict[str, Decimal]

_SHORT = {"cpu": "requests.cpu", "memory": "requests.memory", "ephemeral-storage": "requests.ephemeral-storage"}
_COMPUTE = ("cpu", "memory", "ephemeral-storage")


def _container_sum(spec: Mapping[str, Any], field: str) -> Usage:
    total: Usage = {}
    for container in spec.get("containers") or []:
        for name, value in ((container.get("resources") or {}).get(field) or {}).items():
            total[name] = total.get(name, Decimal(0)) + parse(str(value))
    for container in spec.get("initContainers") or []:
        for name, value in ((container.get("resources") or {}).get(field) or {}).items():
            total[name] = max(total.get(name, Decimal(0)), parse(str(value)))
    return total


def pod_usage(pod: Object) -> Usage:
    """What a pod counts against quotas; nothing once it is over."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return {}
    usage: Usage = {"pods": Decimal(1), "count/pods": Decimal(1)}
    for name, value in _container_sum(pod["spec"], "requests").items():
        usage[f"requests.{name}"] = value
        if name in _COMPUTE:
            usage[name] = value
    for name, value in _container_sum(pod["spec"], "limits").items():
        usage[f"limits.{name}"] = value
    return usage


def usage_of(resource: str, obj: Object) -> Usage:
    """What an object counts against quotas."""
    if resource == "pods":
        return pod_usage(obj)
    usage: Usage = {f"count/{resource}": Decimal(1)}
    if resource in ("services", "configmaps", "secrets", "persistentvolumeclaims", "resourcequotas"):
        usage[resource] = Decimal(1)
    if resource == "persistentvolumeclaims":
        asked = ((obj["spec"].get("resources") or {}).get("requests") or {}).get("storage", "0")
        usage["requests.storage"] = parse(str(asked))
    return usage


def namespace_usage(resources: Resources, namespace: str, names: frozenset[str]) -> Usage:
    """What a namespace uses of the named resources right now."""
    total: Usage = dict.fromkeys(names, Decimal(0))
    for resource in _counted(names):
        for entry in resources.store.collection(resource).candidates(Selection(namespace)):
            for name, value in usage_of(resource, entry.obj).items():
                if name in total:
                    total[name] += value
    return total


def _counted(names: frozenset[str]) -> set[str]:
    counted: set[str] = set()
    for name in names:
        if name.startswith("count/"):
            counted.add(name.removeprefix("count/"))
        elif name == "requests.storage":
            counted.add("persistentvolumeclaims")
        elif name in ("services", "configmaps", "secrets", "persistentvolumeclaims", "resourcequotas"):
            counted.add(name)
        else:
            counted.add("pods")
    return counted


def _in_scope(quota: Object, obj: Object, resource: str) -> bool:
    scopes = set(quota["spec"].get("scopes") or ())
    if not scopes:
        return True
    if resource != "pods":
        return False
    best = (obj.get("status") or {}).get("qosClass") == "BestEffort"
    terminating = obj["spec"].get("activeDeadlineSeconds") is not None
    held = {"BestEffort" if best else "NotBestEffort", "Terminating" if terminating else "NotTerminating"}
    return scopes <= held


class QuotaAdmission:
    """Refuses a create that would exceed a quota."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._quotas = resources.store.collection("resourcequotas")

    def __call__(self, request: Request) -> Object:
        """The object unchanged. Raises ApiError 403."""
        kind, obj = request.kind, request.obj
        if request.operation != "CREATE" or not kind.namespaced:
            return obj
        namespace = obj["metadata"]["namespace"]
        for entry in sorted(self._quotas.candidates(Selection(namespace)), key=lambda found: found.key):
            quota = entry.obj
            hard = quota["spec"].get("hard") or {}
            if hard and _in_scope(quota, obj, kind.name):
                self._hold(request, quota["metadata"]["name"], hard, namespace)
        return obj

    def _hold(self, request: Request, quota: str, hard: Mapping[str, str], namespace: str) -> None:
        kind, obj = request.kind, request.obj
        name = obj["metadata"]["name"]
        if kind.name == "pods" and (missing := _missing(obj, hard)):
            raise errors.forbidden(kind, name, f"failed quota: {quota}: must specify {missing}")
        asked = {key: value for key, value in usage_of(kind.name, obj).items() if key in hard and value > 0}
        if not asked:
            return
        used = namespace_usage(self._resources, namespace, frozenset(asked))
        over = sorted(key for key, value in asked.items() if used[key] + value > parse(str(hard[key])))
        if not over:
            return
        binary = {key: "memory" in key or "storage" in key for key in over}
        shown = [
            ",".join(f"{key}={text}" for key, text in items)
            for items in (
                [(key, render(asked[key], binary=binary[key])) for key in over],
                [(key, render(used[key], binary=binary[key])) for key in over],
                [(key, canonical(str(hard[key]))) for key in over],
            )
        ]
        why = f"exceeded quota: {quota}, requested: {shown[0]}, used: {shown[1]}, limited: {shown[2]}"
        raise errors.forbidden(kind, name, why)


def _missing(pod: Object, hard: Mapping[str, str]) -> str:
    lacking: dict[str, list[str]] = {}
    for key in sorted(hard):
        field, _, resource = _SHORT.get(key, key).partition(".")
        if field not in ("requests", "limits") or resource not in _COMPUTE:
            continue
        for container in pod["spec"].get("containers") or []:
            if resource not in ((container.get("resources") or {}).get(field) or {}):
                lacking.setdefault(key, []).append(container["name"])
    return "; ".join(f"{key} for: {','.join(names)}" for key, names in lacking.items())
