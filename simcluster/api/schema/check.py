"""Holds a body against its kind's fields: wrong types are refused, unknown fields are found, quantities become text.

Owns structural checking and its words. It must not know the meaning of any field.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from simcluster.api.kinds import Kind
from simcluster.api.port import ApiError, Object
from simcluster.api.quantities import canonical, parse
from simcluster.api.schema.models import Field, Model, Type, class_of, model

_QUANTITY = re.compile(r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$")
_SEEN_AS = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}
_GO = {"str": "string", "int": "int32", "float": "float64", "bool": "bool", "bytes": "[]uint8", "time": "time.Time"}
_NULLABLE = frozenset({"lastProbeTime", "lastTransitionTime"})
"""Fields of conditions that a real API server shows as null."""
_LONG = frozenset({"Seconds", "Generation", "generation", "runAsUser", "runAsGroup", "fsGroup"})


class _WrongTypeError(Exception):
    pass


@dataclass
class _Walk:
    """Where the walk is and what it found; the path is made into text only where somebody has to read it."""

    path: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def at(self, name: str) -> str:
        """The dotted path of a field of the structure the walk is in."""
        return ".".join([*self.path, name]).replace(".[", "[")


def check(kind: Kind, obj: Object) -> tuple[Object, list[str]]:
    """The object with quantities in canonical text and absent nulls, and the paths of fields the kind does not have.

    Raises ApiError 400 for a value of another JSON type than its field's.
    """
    top = model(class_of(kind.group, kind.version, kind.kind))
    if top is None or kind.custom:
        return obj, []
    walk = _Walk()
    try:
        checked = _model(top, obj, walk)
    except _WrongTypeError as error:
        where = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise ApiError(400, "BadRequest", f"{where}: {error}") from error
    return checked, walk.unknown


def _model(shape: Model, value: dict[str, Any], walk: _Walk) -> dict[str, Any]:
    checked: dict[str, Any] = {}
    fields = shape.fields
    for name, inner in value.items():
        known = fields.get(name)
        if known is None:
            walk.unknown.append(walk.at(name))
        elif type(inner) is str and known.type.form == "str":
            checked[name] = inner
        elif inner is None:
            if name in _NULLABLE:
                checked[name] = None
        else:
            walk.path.append(name)
            checked[name] = _value(shape, known, known.type, inner, walk)
            walk.path.pop()
    return checked


def _value(shape: Model, known: Field, kind: Type, value: Any, walk: _Walk) -> Any:
    match kind.form:
        case "model" if isinstance(value, dict):
            inner = model(kind.model)
            return value if inner is None else _model(inner, value, walk)
        case "list" if isinstance(value, list) and kind.item is not None:
            if kind.item.form == "str" and all(type(one) is str for one in value):
                return value
            return _items(shape, known, kind.item, value, walk)
        case "map" if isinstance(value, dict) and kind.item is not None:
            item = kind.item
            if item.form == "str" and all(type(one) is str for one in value.values()):
                return value
            return {key: _value(shape, known, item, one, walk) for key, one in value.items() if one is not None}
        case "quantity" if isinstance(value, str | int | float) and not isinstance(value, bool):
            return _quantity(value)
    if kind.form == "any" or _fits(kind.form, value):
        return value
    raise _wrong(shape, known, kind, value, walk)


def _items(shape: Model, known: Field, item: Type, value: list[Any], walk: _Walk) -> list[Any]:
    checked = []
    for index, one in enumerate(value):
        walk.path.append(f"[{index}]")
        checked.append(_value(shape, known, item, one, walk))
        walk.path.pop()
    return checked


_ACCEPTED: dict[str, tuple[type, ...]] = {
    "int-or-string": (str, int),
    "str": (str,),
    "time": (str,),
    "bytes": (str,),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
}


def _fits(form: str, value: Any) -> bool:
    if isinstance(value, bool):
        return form == "bool"
    return isinstance(value, _ACCEPTED.get(form, ()))


def _quantity(value: str | float) -> str:
    text = str(value)
    if not _QUANTITY.match(text):
        raise _WrongTypeError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    try:
        parse(text)
    except ValueError as error:
        raise _WrongTypeError("unable to parse quantity's suffix") from error
    return canonical(text)


def _wrong(shape: Model, known: Field, kind: Type, value: Any, walk: _Walk) -> _WrongTypeError:
    seen = _SEEN_AS.get(type(value), "null")
    dotted = ".".join(part for part in walk.path if not part.startswith("["))
    target = _go_type(kind, known.name)
    return _WrongTypeError(f"json: cannot unmarshal {seen} into Go struct field {shape.name}.{dotted} of type {target}")


def _go_type(kind: Type, name: str) -> str:
    if kind.form == "list" and kind.item is not None:
        return f"[]{_go_type(kind.item, name)}"
    if kind.form == "map" and kind.item is not None:
        return f"map[string]{_go_type(kind.item, name)}"
    if kind.form == "model":
        inner = model(kind.model)
        return f"v1.{inner.name}" if inner is not None else "v1.Object"
    if kind.form == "int" and any(word in name for word in _LONG):
        return "int64"
    return _GO.get(kind.form, "string")
