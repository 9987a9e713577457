"""Reads the fields of a kind from the sources of the installed official client, without importing it.

Owns that reading and its cache. It must not know what the fields are used for.

Importing the client's hundreds of models takes longer than the whole cluster may take to start; their sources say the
same in two dictionaries a model, and only the few models in use are ever read.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_TYPES = re.compile(r"^    openapi_types(?::[^=\n]*)? = (\{.*?\n    \})", re.MULTILINE | re.DOTALL)
_NAMES = re.compile(r"^    attribute_map(?::[^=\n]*)? = (\{.*?\n    \})", re.MULTILINE | re.DOTALL)
_DESCRIPTION = re.compile(r'description="((?:[^"\\]|\\.)*)"')
_CLASS = re.compile(r'^class (\w+)\(?.*?:\n    """\n?(.*?)(?:\n\n|""")', re.MULTILINE | re.DOTALL)

_QUANTITIES = frozenset(
    {"limits", "requests", "capacity", "allocatable", "hard", "used", "default", "defaultRequest", "max", "min"}
    | {"maxLimitRequestRatio", "overhead"}
)


@dataclass(frozen=True)
class Type:
    """`form` is one of str, int, float, bool, bytes, time, any, quantity, int-or-string, list, map, model."""

    form: str
    item: Type | None = None
    model: str = ""


@dataclass(frozen=True)
class Field:
    """One field of a model as JSON knows it."""

    name: str
    type: Type
    required: bool
    description: str


@dataclass(frozen=True)
class Model:
    """One structure: its Kubernetes name (PodSpec), its class (V1PodSpec) and its fields by JSON name."""

    name: str
    cls: str
    description: str
    fields: dict[str, Field]


@cache
def _folder() -> Path:
    spec = find_spec("kubernetes")
    if spec is None or spec.origin is None:
        raise RuntimeError("the official Kubernetes client is not installed; gpuproof needs it: pip install kubernetes")
    return Path(spec.origin).parent / "client" / "models"


@cache
def _files() -> dict[str, Path]:
    return {path.stem.replace("_", ""): path for path in _folder().glob("*.py")}


def _type(text: str, name: str, annotation: str) -> Type:
    if text.startswith(("List[", "list[")):
        return Type("list", _type(text[5:-1], "", ""))
    if text.startswith(("Dict[", "dict(")):
        inner = text[5:-1].partition(",")[2].strip()
        return Type("map", Type("quantity") if name in _QUANTITIES else _type(inner, "", ""))
    plain = {"str": "str", "int": "int", "float": "float", "bool": "bool", "bytes": "bytes", "datetime": "time"}
    if text in plain:
        return Type("quantity" if name in ("sizeLimit", "divisor") else plain[text])
    if text == "object":
        return Type("int-or-string" if "StrictInt" in annotation and "StrictStr" in annotation else "any")
    return Type("model", model=text)


@cache
def model(cls: str) -> Model | None:
    """The model of a class such as V1PodSpec; None where the client has none."""
    path = _files().get(cls.lower())
    if path is None:
        return None
    source = path.read_text()
    types, names = _TYPES.search(source), _NAMES.search(source)
    if types is None or names is None:
        return None
    annotations, descriptions = _annotations(source)
    json_names: dict[str, str] = ast.literal_eval(names[1])
    fields: dict[str, Field] = {}
    for attribute, text in ast.literal_eval(types[1]).items():
        name = json_names[attribute]
        annotation = annotations.get(attribute, "Optional")
        fields[name] = Field(
            name, _type(text, name, annotation), "Optional" not in annotation, descriptions.get(attribute, "")
        )
    found = _CLASS.search(source)
    text = " ".join(found[2].split()) if found else ""
    return Model(short_name(cls), cls, text, fields)


def _annotations(source: str) -> tuple[dict[str, str], dict[str, str]]:
    annotations: dict[str, str] = {}
    descriptions: dict[str, str] = {}
    for line in source.splitlines():
        found = re.match(r"^    (\w+): (.*?) = Field\((.*)\)$", line)
        if found is None:
            continue
        annotations[found[1]] = found[2]
        text = _DESCRIPTION.search(found[3])
        if text is not None:
            descriptions[found[1]] = ast.literal_eval(f'"{text[1]}"')
    return annotations, descriptions


def short_name(cls: str) -> str:
    """PodSpec of V1PodSpec, EventSeries of EventsV1EventSeries."""
    return re.sub(r"^(?:[A-Z][a-z]+)?V\d+(?:(?:alpha|beta)\d+)?(?=[A-Z])", "", cls)


def class_of(group: str, version: str, kind: str) -> str:
    """The client's class of a kind; events have one a group."""
    prefix = version[0].upper() + version[1:]
    if kind == "Event":
        return f"{'Events' if group else 'Core'}{prefix}Event"
    return f"{prefix}{kind}"
