"""The schema of a built-in structure (a pod template, a condition …) as definitions of custom kinds carry it: written
out, with no references.

Owns that writing. It must not know what the structures are for.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from simcluster.api.port import Object
from simcluster.api.schema.models import Type, model

_ANY: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TEXTS: Object = {"type": "object", "additionalProperties": {"type": "string"}}
_METADATA: Object = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "namespace": {"type": "string"},
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "finalizers": {"type": "array", "items": {"type": "string"}},
    },
}
"""What definitions keep of the metadata of a template."""
_SCALARS: Mapping[str, Object] = {
    "str": {"type": "string"},
    "bytes": {"type": "string"},
    "time": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "quantity": {"x-kubernetes-int-or-string": True},
    "int-or-string": {"x-kubernetes-int-or-string": True},
    "any": _ANY,
}


@cache
def inline(cls: str) -> Object:
    """The schema of a class of the official client, such as V1PodTemplateSpec; anything goes where it has none."""
    shape = model(cls)
    if cls == "V1ObjectMeta":
        return _METADATA
    if shape is None:
        return _ANY
    made: Object = {
        "type": "object",
        "properties": {name: _typed(field.type) for name, field in shape.fields.items()},
    }
    needed = [name for name, field in shape.fields.items() if field.required]
    return {**made, "required": needed} if needed else made


def _typed(kind: Type) -> Object:
    if kind.form == "list" and kind.item is not None:
        return {"type": "array", "items": _typed(kind.item)}
    if kind.form == "map" and kind.item is not None:
        return {"type": "object", "additionalProperties": _typed(kind.item)}
    return inline(kind.model) if kind.form == "model" else _SCALARS[kind.form]
