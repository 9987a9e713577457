"""Holds custom resources against the schema of their definition: unknown fields go, defaults come, wrong values are
refused.

Owns that and its words. It must not know any kind. Of the rules in CEL it knows one, `self == oldSelf`; others are
not evaluated.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simcluster.api import errors
from simcluster.api.errors import Cause, invalid_value, required, unsupported
from simcluster.api.kinds import Kind
from simcluster.api.port import Object
from simcluster.api.resources import Request

Schema = Mapping[str, Any]
_ALWAYS = ("apiVersion", "kind", "metadata")
_OPEN = "x-kubernetes-preserve-unknown-fields"
_IMMUTABLE = "self == oldSelf"
_PYTHON: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


class CustomSchemas:
    """The schemas of all custom kinds that are served right now; a step of admission."""

    def __init__(self, schemas: Mapping[Kind, Schema]) -> None:
        self._schemas = schemas

    def fit(self, kind: Kind, obj: Object) -> tuple[Object, list[str]]:
        """The object with what its schema knows and with its defaults, and the paths of what was left out."""
        schema = self._schemas.get(kind)
        if not schema:
            return obj, []
        unknown: list[str] = []
        known = {name: inner for name, inner in obj.items() if name not in _ALWAYS}
        body = _fitted(schema, known, "", unknown)
        return {**{name: obj[name] for name in _ALWAYS if name in obj}, **body}, unknown

    def __call__(self, request: Request) -> Object:
        """The fitting object. Raises ApiError 422 with all that is wrong."""
        schema = self._schemas.get(request.kind)
        if not schema:
            return request.obj
        obj, _ = self.fit(request.kind, request.obj)
        body = {name: inner for name, inner in obj.items() if name not in _ALWAYS}
        causes = list(_wrong(schema, body, request.old, ""))
        if causes:
            raise errors.invalid(request.kind, obj["metadata"].get("name") or "", causes)
        return obj


def _fitted(schema: Schema, value: Any, path: str, unknown: list[str]) -> Any:
    if isinstance(value, dict):
        return _fitted_object(schema, value, path, unknown)
    if isinstance(value, list) and "items" in schema:
        return [_fitted(schema["items"], one, f"{path}[{at}]", unknown) for at, one in enumerate(value)]
    return value


def _fitted_object(schema: Schema, value: dict[str, Any], path: str, unknown: list[str]) -> dict[str, Any]:
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    fitted = {}
    for name, inner in value.items():
        at = f"{path}.{name}".lstrip(".")
        known = properties.get(name, others if isinstance(others, Mapping) else None)
        if known is None:
            if schema.get(_OPEN) or others is True:
                fitted[name] = inner
            else:
                unknown.append(at)
        elif inner is not None or known.get("nullable"):
            fitted[name] = _fitted(known, inner, at, unknown)
    for name, known in properties.items():
        if name not in fitted and "default" in known:
            fitted[name] = _fitted(known, copy.deepcopy(known["default"]), f"{path}.{name}", unknown)
    return fitted


def _wrong(schema: Schema, value: Any, old: Any, path: str) -> Iterator[Cause]:
    if schema.get("x-kubernetes-int-or-string"):
        if not isinstance(value, int | str) or isinstance(value, bool):
            yield _not_of_type(path, "integer,string", value)
        return
    kind = schema.get("type", "")
    fits = isinstance(value, _PYTHON.get(kind, (object,))) and (kind in ("", "boolean") or not isinstance(value, bool))
    if not fits:
        yield _not_of_type(path, kind, value)
        return
    yield from _wrong_itself(schema, value, path)
    if old is not None and old != value:
        for rule in schema.get("x-kubernetes-validations") or ():
            if rule.get("rule") == _IMMUTABLE:
                yield invalid_value(path, f'"{kind}"', rule.get("message", f"failed rule: {_IMMUTABLE}"))
    if isinstance(value, dict):
        yield from _wrong_inside(schema, value, old if isinstance(old, dict) else {}, path)
    elif isinstance(value, list):
        yield from _wrong_items(schema, value, old if isinstance(old, list) else [], path)


def _wrong_inside(schema: Schema, value: dict[str, Any], old: dict[str, Any], path: str) -> Iterator[Cause]:
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    for name in schema.get("required") or ():
        if name not in value:
            yield required(f"{path}.{name}".lstrip("."))
    for name, inner in value.items():
        known = properties.get(name, others if isinstance(others, Mapping) else None)
        if known is not None:
            yield from _wrong(known, inner, old.get(name), f"{path}.{name}".lstrip("."))


def _wrong_items(schema: Schema, value: list[Any], old: list[Any], path: str) -> Iterator[Cause]:
    keys: Sequence[str] = schema.get("x-kubernetes-list-map-keys") or ()

    def key_of(item: Any) -> tuple[Any, ...]:
        return tuple(item.get(key) for key in keys) if isinstance(item, dict) else ()

    before = {key_of(item): item for item in old} if keys else {}
    seen: set[tuple[Any, ...]] = set()
    for at, item in enumerate(value):
        yield from _wrong(schema.get("items") or {}, item, before.get(key_of(item)), f"{path}[{at}]")
        if keys and key_of(item) in seen:
            shown = json.dumps(dict(zip(keys, key_of(item), strict=True)), separators=(",", ":"))
            yield Cause("FieldValueDuplicate", f"Duplicate value: {shown}", f"{path}[{at}]")
        seen.add(key_of(item))


def _wrong_itself(schema: Schema, value: Any, path: str) -> Iterator[Cause]:
    shown = json.dumps(value) if isinstance(value, str | int | float) else f'"{schema.get("type")}"'
    if "enum" in schema and value not in schema["enum"]:
        yield unsupported(path, shown, schema["enum"])
    if "minimum" in schema and value < schema["minimum"]:
        yield invalid_value(path, shown, f"{path} in body should be greater than or equal to {schema['minimum']}")
    if "maximum" in schema and value > schema["maximum"]:
        yield invalid_value(path, shown, f"{path} in body should be less than or equal to {schema['maximum']}")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield invalid_value(path, shown, f"{path} in body should match '{schema['pattern']}'")
    for least, most, unit in (("minLength", "maxLength", "chars long"), ("minItems", "maxItems", "items")):
        if least in schema and len(value) < schema[least]:
            yield invalid_value(path, shown, f"{path} in body should have at least {schema[least]} {unit}")
        if most in schema and len(value) > schema[most]:
            yield invalid_value(path, shown, f"{path} in body should have at most {schema[most]} {unit}")


def _not_of_type(path: str, kind: str, value: Any) -> Cause:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    seen = names.get(type(value), "null")
    return invalid_value(path, f'"{seen}"', f'{path} in body must be of type {kind}: "{seen}"')
