"""Sets of fields in the FieldsV1 notation of managedFields, and operations on them.

Owns the notation. It must not know managers, conflicts or storage.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

Path = tuple[str, ...]
"""Elements "f:name" for a field, 'k:{"name":"c"}' for a list item by key, 'v:"x"' for a member of a set."""

LIST_KEYS: Mapping[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "ephemeralContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    "imagePullSecrets": ("name",),
    "conditions": ("type",),
    "ownerReferences": ("uid",),
    "addresses": ("type",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
_SETS = frozenset({"finalizers"})
_MAPS = frozenset(
    {"data", "binaryData", "stringData", "labels", "annotations", "matchLabels", "nodeSelector", "limits", "requests"}
    | {"hard", "capacity", "allocatable", "parameters", "selector"}
)
_UNOWNED = frozenset({"apiVersion", "kind", "status"})
_META_OWNED = frozenset({"labels", "annotations", "finalizers", "ownerReferences"})


def keys_of(field: str, items: list[Any]) -> tuple[str, ...] | None:
    """The fields by which items of a list are told apart; None where the list is one value."""
    if field == "ports":
        for number in ("containerPort", "port"):
            if items and all(isinstance(item, dict) and number in item for item in items):
                return (number, "protocol")
        return None
    keys = LIST_KEYS.get(field, ())
    return keys if keys and all(isinstance(item, dict) and keys[0] in item for item in items) else None


def item_element(keys: tuple[str, ...], item: Mapping[str, Any]) -> str:
    """The path element of a list item."""
    shown = {key: item.get(key, "TCP") if key == "protocol" else item.get(key) for key in keys}
    return "k:" + json.dumps(shown, separators=(",", ":"), sort_keys=True)


def fields_of(obj: Mapping[str, Any], *, maps: bool, status: bool = False) -> dict[Path, Any]:
    """Owned fields of an object with their values; `maps` counts a map itself too, as an update does."""
    found: dict[Path, Any] = {}
    for name, value in obj.items():
        if name == "metadata":
            for inner, content in value.items():
                if inner in _META_OWNED:
                    _walk(content, inner, ("f:metadata", f"f:{inner}"), found, maps=maps)
        elif name not in _UNOWNED or (status and name == "status"):
            _walk(value, name, (f"f:{name}",), found, maps=maps)
    return found


def _walk(value: Any, field: str, path: Path, found: dict[Path, Any], *, maps: bool) -> None:
    if isinstance(value, dict):
        if not value or (maps and field in _MAPS):
            found[path] = None if value else {}
        for name, inner in value.items():
            _walk(inner, name, (*path, f"f:{name}"), found, maps=maps)
        return
    if isinstance(value, list) and field in _SETS:
        for item in value:
            found[(*path, "v:" + json.dumps(item))] = item
        return
    keys = keys_of(field, value) if isinstance(value, list) else None
    if keys is None:
        found[path] = value
        return
    for item in value:
        at = (*path, item_element(keys, item))
        found[at] = None
        for name, inner in item.items():
            _walk(inner, name, (*at, f"f:{name}"), found, maps=maps)


def to_v1(paths: Iterable[Path]) -> dict[str, Any]:
    """FieldsV1 of a set of paths."""
    chosen = set(paths)
    tree: dict[str, Any] = {}
    for path in sorted(chosen):
        node = tree
        for element in path:
            node = node.setdefault(element, {})
    for path in chosen:
        node = tree
        for element in path:
            node = node[element]
        if node:
            node["."] = {}
    return tree


def from_v1(tree: Mapping[str, Any], prefix: Path = ()) -> set[Path]:
    """The set of paths that a FieldsV1 says."""
    found: set[Path] = set()
    if not tree and prefix:
        return {prefix}
    for element, inner in tree.items():
        if element == ".":
            found.add(prefix)
        else:
            found |= from_v1(inner, (*prefix, element))
    return found


def shown(path: Path) -> str:
    """A path as conflict messages write it: .spec.containers[name="c"].image."""
    text = ""
    for element in path:
        kind, _, rest = element.partition(":")
        if kind == "f":
            text += f".{rest}"
        elif kind == "k":
            inner = ",".join(f"{key}={json.dumps(value)}" for key, value in json.loads(rest).items())
            text += f"[{inner}]"
        else:
            text += f"[={rest}]"
    return text


def merge(live: Any, applied: Any, field: str = "") -> Any:
    """`live` with everything that `applied` says."""
    if isinstance(applied, dict) and isinstance(live, dict):
        merged = dict(live)
        for name, value in applied.items():
            merged[name] = merge(live.get(name), value, name)
        return merged
    if isinstance(applied, list) and isinstance(live, list):
        if field in _SETS:
            return [*live, *(item for item in applied if item not in live)]
        keys = keys_of(field, applied)
        if keys is not None and keys_of(field, live) == keys:
            return _merge_items(live, applied, keys)
    return applied


def _merge_items(live: list[Any], applied: list[Any], keys: tuple[str, ...]) -> list[Any]:
    wanted = {item_element(keys, item): item for item in applied}
    merged = [merge(item, wanted.pop(item_element(keys, item), {})) for item in live]
    return [*merged, *wanted.values()]


def remove(obj: Any, path: Path) -> None:
    """Take one field out of an object (in place), where it is there."""
    *parents, last = path
    node = obj
    for element in parents:
        node = _child(node, element)
        if node is None:
            return
    if isinstance(node, dict):
        node.pop(last[2:], None)
    elif isinstance(node, list):
        target = _child(node, last)
        if target is not None:
            node[:] = [item for item in node if item is not target]


def _child(node: Any, element: str) -> Any:
    kind, _, rest = element.partition(":")
    if kind == "f":
        return node.get(rest) if isinstance(node, dict) else None
    if not isinstance(node, list):
        return None
    wanted = json.loads(rest)
    for item in node:
        if kind == "v" and item == wanted:
            return item
        if kind == "k" and isinstance(item, dict) and _has(item, wanted):
            return item
    return None


def _has(item: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(item.get(key, "TCP" if key == "protocol" else None) == value for key, value in wanted.items())
