"""The volume by which a pod finds its service account's token, the cluster's CA and its namespace.

Owns its shape. It must not know who issues tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simcluster.api.metadata import random_suffix

PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_PREFIX = "kube-api-access-"
_TOKEN_S = 3607


def with_account_volume(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A pod's spec whose containers find the account at its usual path, where they mount nothing else there."""
    missing = [
        container["name"]
        for group in ("initContainers", "containers")
        for container in spec.get(group) or []
        if "name" in container and not _mounted(container)
    ]
    if not missing:
        return dict(spec)
    volume = _volume(_PREFIX + random_suffix())
    filled = {**spec, "volumes": [*(spec.get("volumes") or []), volume]}
    for group in ("initContainers", "containers"):
        if spec.get(group):
            filled[group] = [
                _with_mount(container, volume["name"]) if container.get("name") in missing else container
                for container in spec[group]
            ]
    return filled


def _mounted(container: Mapping[str, Any]) -> bool:
    return any(mount.get("mountPath") == PATH for mount in container.get("volumeMounts") or [])


def _with_mount(container: Mapping[str, Any], volume: str) -> dict[str, Any]:
    mount = {"name": volume, "readOnly": True, "mountPath": PATH}
    return {**container, "volumeMounts": [*(container.get("volumeMounts") or []), mount]}


def _volume(name: str) -> dict[str, Any]:
    certificate = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": _TOKEN_S, "path": "token"}},
        {"configMap": certificate},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": name, "projected": {"sources": sources, "defaultMode": 420}}
