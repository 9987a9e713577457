"""Fields without which an object of the smaller kinds makes no sense.

Owns those rules. It must not know HTTP.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from simcluster.api.errors import Cause, invalid_value, required
from simcluster.api.port import Object

_NEEDED: Mapping[str, tuple[str, ...]] = {
    "rolebindings.rbac.authorization.k8s.io": ("roleRef.kind", "roleRef.name"),
    "clusterrolebindings.rbac.authorization.k8s.io": ("roleRef.kind", "roleRef.name"),
    "storageclasses.storage.k8s.io": ("provisioner",),
    "runtimeclasses.node.k8s.io": ("handler",),
    "endpointslices.discovery.k8s.io": ("addressType",),
    "persistentvolumeclaims": ("spec.accessModes", "spec.resources.requests.storage"),
    "persistentvolumes": ("spec.accessModes", "spec.capacity"),
    "daemonsets.apps": ("spec.selector", "spec.template.spec.containers"),
    "deployments.apps": ("spec.selector", "spec.template.spec.containers"),
    "replicasets.apps": ("spec.selector", "spec.template.spec.containers"),
    "statefulsets.apps": ("spec.selector", "spec.template.spec.containers"),
    "cronjobs.batch": ("spec.schedule", "spec.jobTemplate"),
    "customresourcedefinitions.apiextensions.k8s.io": (
        "spec.group",
        "spec.scope",
        "spec.versions",
        "spec.names.plural",
        "spec.names.kind",
    ),
}
_WITH_TEMPLATE = frozenset({"daemonsets.apps", "deployments.apps", "replicasets.apps", "statefulsets.apps"})
_CRDS = "customresourcedefinitions.apiextensions.k8s.io"


def _at(obj: Any, path: str) -> Any:
    for part in path.split("."):
        obj = obj.get(part) if isinstance(obj, Mapping) else None
    return obj


def check_other(resource: str, obj: Object) -> list[Cause]:
    """Causes of an object of a kind that has no rules of its own elsewhere."""
    causes = [required(path) for path in _NEEDED.get(resource, ()) if not _at(obj, path)]
    if causes:
        return causes
    if resource in _WITH_TEMPLATE:
        return _selector(obj)
    if resource == _CRDS:
        return _definition(obj)
    return []


def _selector(obj: Object) -> list[Cause]:
    labels = _at(obj, "spec.template.metadata.labels") or {}
    wanted = _at(obj, "spec.selector.matchLabels") or {}
    if all(labels.get(key) == value for key, value in wanted.items()):
        return []
    shown = json.dumps(labels, separators=(",", ":"))
    text = "`selector` does not match template `labels`"
    return [invalid_value("spec.template.metadata.labels", shown, text)]


def _definition(obj: Object) -> list[Cause]:
    name = obj["metadata"].get("name") or ""
    expected = f"{obj['spec']['names']['plural']}.{obj['spec']['group']}"
    if name == expected:
        return []
    return [invalid_value("metadata.name", json.dumps(name), 'must be spec.names.plural+"."+spec.group')]
