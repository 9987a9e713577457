"""Server-side apply: who owns which field, what conflicts, what goes when its last owner lets go.

Owns managedFields. It must not know HTTP.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from simcluster.api import errors, fieldsets
from simcluster.api.fieldsets import Path
from simcluster.api.kinds import Kind
from simcluster.api.metadata import timestamp
from simcluster.api.port import ApiError, Object
from simcluster.api.resources import Request, Resources, WriteOptions
from simcluster.api.store import Entry

UNTRACKED = frozenset({"pods", "nodes", "events", "leases.coordination.k8s.io", "endpoints"})
"""Kinds written so often that plain updates of them are only tracked once somebody has applied them."""


@dataclass(frozen=True)
class Manager:
    """One entry of managedFields."""

    name: str
    operation: str
    api_version: str
    time: str
    paths: frozenset[Path]
    subresource: str = ""

    def entry(self) -> Object:
        """As it stands in metadata."""
        made: Object = {
            "manager": self.name,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": fieldsets.to_v1(self.paths),
        }
        if self.subresource:
            made["subresource"] = self.subresource
        return made


def managers(obj: Object) -> list[Manager]:
    """The managers an object names."""
    return [
        Manager(
            item.get("manager", ""),
            item.get("operation", "Update"),
            item.get("apiVersion", ""),
            item.get("time", ""),
            frozenset(fieldsets.from_v1(item.get("fieldsV1") or {})),
            item.get("subresource", ""),
        )
        for item in obj["metadata"].get("managedFields") or []
    ]


def with_managers(obj: Object, found: list[Manager]) -> Object:
    """The object naming these managers; those that own nothing any more are left out, unless they applied nothing."""
    kept = [manager.entry() for manager in found if manager.paths]
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    if kept:
        metadata["managedFields"] = kept
    return {**obj, "metadata": metadata}


class FieldTracking:
    """Admission step that keeps managedFields for plain creates and updates over HTTP."""

    def __call__(self, request: Request) -> Object:
        """The object with its managers brought up to date."""
        obj, old, manager = request.obj, request.old, request.options.manager
        given = (old or {}).get("metadata", {}).get("managedFields")
        if request.options.applying:
            return obj
        if not manager or (request.kind.name in UNTRACKED and not given):
            return _keep(obj, given)
        before = {} if old is None else fieldsets.fields_of(old, maps=True, status=True)
        after = fieldsets.fields_of(obj, maps=True, status=bool(request.subresource))
        if request.subresource == "status":
            before = {path: value for path, value in before.items() if path[0] == "f:status"}
            after = {path: value for path, value in after.items() if path[0] == "f:status"}
        elif old is not None:
            before = {path: value for path, value in before.items() if path[0] != "f:status"}
        changed = {path for path, value in after.items() if path not in before or before[path] != value}
        gone = before.keys() - after.keys()
        if not changed and not gone:
            return _keep(obj, given)
        return with_managers(obj, self._retell(request, old, changed, set(gone)))

    @staticmethod
    def _retell(request: Request, old: Object | None, changed: set[Path], gone: set[Path]) -> list[Manager]:
        told: list[Manager] = []
        name, sub = request.options.manager, request.subresource
        mine: frozenset[Path] = frozenset()
        for manager in managers(old) if old is not None else []:
            if (manager.name, manager.operation, manager.subresource) == (name, "Update", sub):
                mine = manager.paths
            else:
                told.append(replace(manager, paths=manager.paths - changed - gone))
        fresh = Manager(name, "Update", request.kind.api_version, timestamp(), (mine - gone) | changed, sub)
        return [*told, fresh]


def _keep(obj: Object, given: Any) -> Object:
    if obj["metadata"].get("managedFields") == given:
        return obj
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    if given:
        metadata["managedFields"] = given
    return {**obj, "metadata": metadata}


class ServerSideApply:
    """The apply patch."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    def apply(
        self, kind: Kind, name: str, namespace: str, config: Object, *, subresource: str, options: WriteOptions
    ) -> tuple[Entry, bool]:
        """The object after the apply, and whether it was created. Raises ApiError 400, 409 with the conflicts, 422."""
        config = _checked(kind, name, namespace, config)
        applying = replace(options, applying=True)
        owned = fieldsets.fields_of(config, maps=False, status=subresource == "status")
        present = self._resources.collection(kind).get(namespace if kind.namespaced else "", name)
        if present is None:
            fresh = Manager(options.manager, "Apply", kind.api_version, timestamp(), frozenset(owned), subresource)
            made = with_managers(config, [fresh])
            return self._resources.create(kind, made, namespace or None, applying), True
        live = present.obj
        mine, others = _split(live, options.manager, subresource)
        others = _without_conflicts(live, owned, others, options)
        merged = fieldsets.merge(live, copy.deepcopy(config))
        merged = _let_go(merged, mine, owned, others)
        time = mine.time if mine is not None and mine.paths == frozenset(owned) else timestamp()
        me = Manager(options.manager, "Apply", kind.api_version, time, frozenset(owned), subresource)
        merged = with_managers(merged, _in_place(live, me, others))
        metadata = {**merged["metadata"]}
        metadata.pop("resourceVersion", None)
        wanted = (config.get("metadata") or {}).get("resourceVersion")
        if wanted:
            metadata["resourceVersion"] = wanted
        merged["metadata"] = metadata
        return self._resources.update(kind, merged, namespace or None, subresource, applying), False


def _let_go(merged: Object, mine: Manager | None, owned: Mapping[Path, Any], others: list[Manager]) -> Object:
    """The object without what its manager owned alone and no longer applies."""
    elsewhere = {path for manager in others for path in manager.paths}
    gone = set() if mine is None else mine.paths - owned.keys() - elsewhere
    if not gone:
        return merged
    left = copy.deepcopy(merged)
    for path in sorted(gone, key=len):
        deeper = (other for other in (*owned, *elsewhere) if len(other) > len(path))
        if not any(other[: len(path)] == path for other in deeper):
            fieldsets.remove(left, path)
    return left


def _split(live: Object, name: str, subresource: str) -> tuple[Manager | None, list[Manager]]:
    mine: Manager | None = None
    others: list[Manager] = []
    for manager in managers(live):
        if (manager.name, manager.operation, manager.subresource) == (name, "Apply", subresource):
            mine = manager
        else:
            others.append(manager)
    return mine, others


def _in_place(live: Object, me: Manager, others: list[Manager]) -> list[Manager]:
    order = [(m.name, m.operation, m.subresource) for m in managers(live)]
    everyone = [me, *others]

    def rank(manager: Manager) -> int:
        identity = (manager.name, manager.operation, manager.subresource)
        return order.index(identity) if identity in order else len(order)

    return sorted(everyone, key=rank)


def _without_conflicts(
    live: Object, owned: Mapping[Path, Any], others: list[Manager], options: WriteOptions
) -> list[Manager]:
    values = fieldsets.fields_of(live, maps=False, status=True)
    differing = {path for path, value in owned.items() if value is not None and values.get(path) != value}
    conflicts = [(manager, path) for manager in others for path in sorted(manager.paths & differing)]
    if not conflicts:
        return others
    if not options.force:
        raise _conflict(conflicts)
    return [replace(manager, paths=manager.paths - differing) for manager in others]


def _conflict(conflicts: list[tuple[Manager, Path]]) -> ApiError:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f'conflict with "{manager.name}"{_using(manager)}',
            "field": fieldsets.shown(path),
        }
        for manager, path in conflicts
    ]
    if len(causes) == 1:
        text = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        by_message: dict[str, list[str]] = {}
        for cause in causes:
            by_message.setdefault(cause["message"], []).append(cause["field"])
        shown = [f"{said}:\n" + "\n".join(f"- {where}" for where in fields) for said, fields in by_message.items()]
        text = f"Apply failed with {len(causes)} conflicts: " + "\n".join(shown)
    return ApiError(409, "Conflict", text, {"causes": causes})


def _using(manager: Manager) -> str:
    return "" if manager.operation == "Apply" else f" using {manager.api_version}"


def _checked(kind: Kind, name: str, namespace: str, config: Object) -> Object:
    metadata = dict(config.get("metadata") or {})
    if metadata.get("managedFields"):
        raise errors.bad_request("metadata.managedFields must be nil")
    if not config.get("kind") or not config.get("apiVersion"):
        raise errors.bad_request("error decoding YAML: Object 'Kind' is missing")
    if metadata.setdefault("name", name) != name:
        raise errors.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
        )
    if kind.namespaced:
        metadata.setdefault("namespace", namespace)
    for unset in [key for key in ("creationTimestamp", "uid") if metadata.get(key) is None]:
        metadata.pop(unset, None)
    return {**config, "metadata": metadata}
