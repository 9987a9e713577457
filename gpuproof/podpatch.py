"""Strategic-merge patches over a pod, as Kubernetes merges them: maps by key, lists by their merge key, else replaced.

It must not know what a profile or a workload is. Source: the patchMergeKey marks of the core/v1 API reference.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "resourceClaims": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
"""Which lists of a pod merge item by item, and by which key. Tolerations are replaced whole, as in Kubernetes."""

_DIRECTIVE = "$patch"


class PatchError(ValueError):
    """A patch that cannot be merged; the message names the place."""


def patch_template(template: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A pod template with the patch merged in.

    The patch is over the pod's spec; one with the key `spec` or `metadata` is over the whole template.
    """
    whole = patch if "spec" in patch or "metadata" in patch else {"spec": patch}
    return merge(template, whole)


def merge(base: Mapping[str, Any], patch: Mapping[str, Any], where: str = "patch") -> dict[str, Any]:
    """`base` with `patch` merged in; neither is changed. None deletes a key, `$patch: replace` replaces the map."""
    if patch.get(_DIRECTIVE) == "replace":
        return {key: copy.deepcopy(value) for key, value in patch.items() if key != _DIRECTIVE}
    result = copy.deepcopy(dict(base))
    for key, value in patch.items():
        here = f"{where}.{key}"
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            old = result.get(key)
            result[key] = merge(old if isinstance(old, Mapping) else {}, value, here)
        elif isinstance(value, list) and key in MERGE_KEYS:
            result[key] = _merge_list(result.get(key), value, MERGE_KEYS[key], here)
        else:
            result[key] = copy.deepcopy(value)
    return result


def _merge_list(base: object, patch: list[Any], merge_key: str, where: str) -> list[Any]:
    result = list(base) if isinstance(base, list) else []
    for entry in patch:
        if not isinstance(entry, Mapping) or merge_key not in entry:
            raise PatchError(f"{where}: each entry must be a table with the key {merge_key!r}, got {entry!r}")
        place = next((i for i, old in enumerate(result) if old.get(merge_key) == entry[merge_key]), None)
        if entry.get(_DIRECTIVE) == "delete":
            result = [old for i, old in enumerate(result) if i != place]
        elif place is None:
            result.append(merge({}, entry, where))
        else:
            result[place] = merge(result[place], entry, f"{where}[{entry[merge_key]}]")
    return result
