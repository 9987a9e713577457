"""JSON, merge and strategic-merge patches as pure functions over objects.

Owns the three patch languages and the merge keys of Kubernetes' lists. It must not know what is stored or who asks.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import jsonpatch

from simcluster.api.port import ApiError, Object

_REJECTED = "the server rejected our request due to an error in our request"

MERGE_KEYS: Mapping[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "ports": ("containerPort", "port", "name"),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "imagePullSecrets": ("name",),
    "secrets": ("name",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey",),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
    "conditions": ("type",),
    "addresses": ("type",),
    "podIPs": ("ip",),
    "hostIPs": ("ip",),
    "ownerReferences": ("uid",),
    "taints": (),
    "tolerations": (),
}
"""List field -> the key its elements are merged by (the first that the elements have); lists not named are replaced."""

_PRIMITIVE_MERGE = frozenset({"finalizers"})


def rejected() -> ApiError:
    """The 422 of a patch that cannot be carried out."""
    return ApiError(422, "Invalid", _REJECTED, {})


def json_patch(obj: Object, operations: Any) -> Object:
    """RFC 6902. Raises ApiError 422 where a test fails or a path is absent, 400 where it is no list of operations."""
    if not isinstance(operations, list):
        raise ApiError(400, "BadRequest", "error decoding patch: json: cannot unmarshal into jsonpatch.Patch")
    try:
        patched: Object = jsonpatch.JsonPatch(operations).apply(obj)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError, IndexError) as error:
        raise rejected() from error
    return patched


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def strategic_patch(target: Any, patch: Any) -> Any:
    """A strategic merge patch with its directives $patch, $retainKeys, $deleteFromPrimitiveList, $setElementOrder.

    Raises ApiError 400 where the patch is no object.
    """
    if not isinstance(patch, dict):
        raise ApiError(400, "BadRequest", "error decoding patch: the patch is not an object")
    return _merge_maps(target if isinstance(target, dict) else {}, patch)


def _merge_maps(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    merged = dict(target)
    if retained := patch.get("$retainKeys"):
        merged = {key: value for key, value in merged.items() if key in retained}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            field = key.partition("/")[2]
            merged[field] = [item for item in merged.get(field) or [] if item not in value]
        elif not key.startswith("$"):
            _merge_field(merged, key, value)
    return _put_in_order(merged, patch)


def _put_in_order(merged: dict[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    for key, order in patch.items():
        field = key.removeprefix("$setElementOrder/")
        if field != key and isinstance(merged.get(field), list):
            merged[field] = _ordered(field, merged[field], order)
    return merged


def _merge_field(merged: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        merged.pop(key, None)
    elif isinstance(value, dict):
        present = merged.get(key)
        result = _merge_maps(present if isinstance(present, dict) else {}, value)
        if result or value.get("$patch") != "delete":
            merged[key] = result
        else:
            merged.pop(key, None)
    elif isinstance(value, list):
        merged[key] = _merge_list(key, merged.get(key) or [], value)
    else:
        merged[key] = value


def merge_key(field: str, items: Sequence[Any]) -> str | None:
    """The key by which a list's elements are told apart, or None where the list is atomic."""
    for candidate in MERGE_KEYS.get(field, ()):
        if items and all(isinstance(item, dict) and (candidate in item or "$patch" in item) for item in items):
            return candidate
    return None


def _merge_list(field: str, present: list[Any], patch: list[Any]) -> list[Any]:
    if field in _PRIMITIVE_MERGE:
        return [*present, *(item for item in patch if item not in present)]
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if not (isinstance(item, dict) and "$patch" in item)]
    key = merge_key(field, patch)
    if key is None:
        return copy.deepcopy(patch)
    merged = list(present)
    fresh: list[Any] = []
    for item in patch:
        at = next((i for i, old in enumerate(merged) if isinstance(old, dict) and old.get(key) == item.get(key)), None)
        if item.get("$patch") == "delete":
            if at is not None:
                del merged[at]
        elif at is None:
            fresh.append({name: value for name, value in item.items() if not name.startswith("$")})
        else:
            merged[at] = _merge_maps(merged[at], item)
    return [*fresh, *merged]


def _ordered(field: str, items: list[Any], order: list[Any]) -> list[Any]:
    key = merge_key(field, [item for item in order if isinstance(item, dict)])

    def rank(item: Any) -> int:
        wanted = item.get(key) if key is not None and isinstance(item, dict) else item
        for index, place in enumerate(order):
            if (place.get(key) if key is not None and isinstance(place, dict) else place) == wanted:
                return index
        return len(order)

    return sorted(items, key=rank)
