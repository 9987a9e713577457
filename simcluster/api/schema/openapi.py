"""OpenAPI documents of the served kinds, for `kubectl explain` and for clients that ask what a parameter may be.

Owns those documents. It must not know objects or HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from simcluster.api.kinds import Kind, KindTable
from simcluster.api.patches import MERGE_KEYS
from simcluster.api.port import Object
from simcluster.api.schema.models import Model, Type, class_of, model

_PREFIX = "io.k8s.api"
_META = frozenset(
    {"ObjectMeta", "ListMeta", "LabelSelector", "LabelSelectorRequirement", "OwnerReference"}
) | frozenset({"ManagedFieldsEntry", "Status", "Condition", "DeleteOptions", "Preconditions"})
_SCALARS: Mapping[str, Object] = {
    "str": {"type": "string"},
    "int": {"type": "integer", "format": "int32"},
    "float": {"type": "number", "format": "double"},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "quantity": {"type": "string"},
    "int-or-string": {"type": "string", "format": "int-or-string"},
    "any": {"type": "object"},
}


def _component(group: str, version: str, name: str) -> str:
    if name in _META:
        return f"io.k8s.apimachinery.pkg.apis.meta.v1.{name}"
    return f"{_PREFIX}.{group.partition('.')[0] or 'core'}.{version}.{name}"


class _Schemas:
    """Schemas of one group version, with all they refer to."""

    def __init__(self, group: str, version: str, reference: str) -> None:
        self._group = group
        self._version = version
        self._reference = reference
        self.made: dict[str, Object] = {}

    def add(self, cls: str) -> str | None:
        """Make the schema of a class and of what it contains; its component's name."""
        shape = model(cls)
        if shape is None:
            return None
        name = _component(self._group, self._version, shape.name)
        if name not in self.made:
            self.made[name] = {}
            self.made[name] = self._schema(shape)
        return name

    def _schema(self, shape: Model) -> Object:
        properties = {
            field.name: self._property(field.name, field.type, field.description) for field in shape.fields.values()
        }
        made: Object = {"type": "object", "description": shape.description, "properties": properties}
        required = [field.name for field in shape.fields.values() if field.required]
        if required:
            made["required"] = required
        return made

    def _property(self, name: str, kind: Type, description: str) -> Object:
        made = self._typed(kind)
        if "$ref" in made and self._reference.startswith("#/components"):
            made = {"allOf": [made]}
        if description and "$ref" not in made:
            made = {**made, "description": description}
        keys = MERGE_KEYS.get(name)
        if kind.form == "list" and keys:
            made |= {"x-kubernetes-patch-merge-key": keys[0], "x-kubernetes-patch-strategy": "merge"}
        return made

    def _typed(self, kind: Type) -> Object:
        if kind.form == "list" and kind.item is not None:
            return {"type": "array", "items": self._typed(kind.item)}
        if kind.form == "map" and kind.item is not None:
            return {"type": "object", "additionalProperties": self._typed(kind.item)}
        if kind.form == "model":
            name = self.add(kind.model)
            return {"type": "object"} if name is None else {"$ref": f"{self._reference}{name}"}
        return dict(_SCALARS[kind.form])


def _gvk(kind: Kind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


_VALIDATION_PARAMETER = {
    "name": "fieldValidation",
    "in": "query",
    "description": "what becomes of unknown and duplicate fields: Ignore, Warn or Strict",
    "schema": {"type": "string", "uniqueItems": True},
}
_DRY_RUN = {"name": "dryRun", "in": "query", "description": "All: nothing is stored", "schema": {"type": "string"}}


def _operations(kind: Kind, methods: Mapping[str, str], parameter: Callable[[Object], Object]) -> Object:
    made: Object = {}
    for method, action in methods.items():
        operation: Object = {
            "operationId": f"{action}{kind.kind}",
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _gvk(kind),
            "responses": {"200": {"description": "OK"}},
        }
        if method in ("post", "put", "patch"):
            operation["parameters"] = [parameter(_VALIDATION_PARAMETER), parameter(_DRY_RUN)]
        made[method] = operation
    return made


def _paths(kind: Kind, parameter: Callable[[Object], Object]) -> Object:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    where = f"{root}/namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"
    many = {"get": "list", "post": "post", "delete": "deletecollection"}
    one = {"get": "get", "put": "put", "patch": "patch", "delete": "delete"}
    return {
        where: _operations(kind, many, parameter),
        f"{where}/{{name}}": _operations(kind, one, parameter),
    }


class OpenApi:
    """The documents of the kinds served right now."""

    def __init__(self, kinds: KindTable, custom: Mapping[Kind, Mapping[str, Any]]) -> None:
        self._kinds = kinds
        self._custom = custom
        self._cache: dict[tuple[str, str], Object] = {}

    def index(self) -> Object:
        """/openapi/v3."""
        paths: Object = {}
        for kind in self._kinds:
            key = f"apis/{kind.group}/{kind.version}" if kind.group else f"api/{kind.version}"
            paths[key] = {"serverRelativeURL": f"/openapi/v3/{key}"}
        return {"paths": paths}

    def v3(self, group: str, version: str) -> Object | None:
        """/openapi/v3/api/v1 or /openapi/v3/apis/GROUP/VERSION."""
        kinds = [kind for kind in self._kinds if (kind.group, kind.version) == (group, version)]
        if not kinds:
            return None
        custom = any(kind.custom for kind in kinds)
        if not custom and (group, version) in self._cache:
            return self._cache[group, version]
        schemas = _Schemas(group, version, "#/components/schemas/")
        paths = self._fill(kinds, schemas, lambda given: given)
        made: Object = {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes (simulated)", "version": "v1.36.2"},
            "paths": paths,
            "components": {"schemas": schemas.made},
        }
        if not custom:
            self._cache[group, version] = made
        return made

    def _fill(self, kinds: list[Kind], schemas: _Schemas, parameter: Callable[[Object], Object]) -> Object:
        paths: Object = {}
        for kind in kinds:
            component = _component(kind.group, kind.version, kind.kind)
            if kind.custom:
                schemas.made[component] = _custom_schema(self._custom.get(kind, {}))
            else:
                schemas.add(class_of(kind.group, kind.version, kind.kind))
            schemas.made.setdefault(component, {"type": "object"})
            schemas.made[component]["x-kubernetes-group-version-kind"] = [_gvk(kind)]
            paths |= _paths(kind, parameter)
        return paths

    def v2(self) -> Object:
        """/openapi/v2: all groups in one document."""
        definitions: Object = {}
        paths: Object = {}
        for group, version in dict.fromkeys((kind.group, kind.version) for kind in self._kinds):
            schemas = _Schemas(group, version, "#/definitions/")
            kinds = [kind for kind in self._kinds if (kind.group, kind.version) == (group, version)]
            paths |= self._fill(kinds, schemas, lambda given: {**given, "type": "string"})
            definitions |= schemas.made
        info = {"title": "Kubernetes (simulated)", "version": "v1.36.2"}
        return {"swagger": "2.0", "info": info, "paths": paths, "definitions": definitions}


def _custom_schema(schema: Mapping[str, Any]) -> Object:
    made = dict(schema) or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    reference = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    properties = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"$ref": reference}}
    made["properties"] = {**properties, **(made.get("properties") or {})}
    return made
