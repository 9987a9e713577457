"""Label and field selectors: text in, a predicate over objects out.

Owns the selector grammar and which fields each kind can be selected by. It must not know how objects are stored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from simcluster.api.kinds import Kind
from simcluster.api.port import ApiError, Object

Labels = Mapping[str, str]

_SET = re.compile(r"^\s*(?P<key>[^\s=!,()]+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)\s*$")
_EQUAL = re.compile(r"^\s*(?P<key>[^\s=!,()]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s=!,()]*)\s*$")
_EXISTS = re.compile(r"^\s*(?P<absent>!?)\s*(?P<key>[^\s=!,()<>]+)\s*$")
_COMPARE = re.compile(r"^\s*(?P<key>[^\s=!,()<>]+)\s*(?P<op>[<>])\s*(?P<value>-?\d+)\s*$")
_COMMA = re.compile(r",(?![^(]*\))")


@dataclass(frozen=True)
class Requirement:
    """One term of a label selector."""

    key: str
    op: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Labels) -> bool:
        """Whether a set of labels fulfils the term."""
        value = labels.get(self.key)
        match self.op:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        if value is None or not value.lstrip("-").isdigit():
            return False
        bound = int(next(iter(self.values)))
        return int(value) > bound if self.op == ">" else int(value) < bound


def _requirement(term: str) -> Requirement:
    if found := _SET.match(term):
        values = frozenset(value.strip() for value in found["values"].split(","))
        return Requirement(found["key"], found["op"], values)
    if found := _EQUAL.match(term):
        op = "notin" if found["op"] == "!=" else "in"
        return Requirement(found["key"], op, frozenset({found["value"]}))
    if found := _COMPARE.match(term):
        return Requirement(found["key"], found["op"], frozenset({found["value"]}))
    if found := _EXISTS.match(term):
        return Requirement(found["key"], "!" if found["absent"] else "exists")
    if "==" in term or term.count("=") > 1:
        raise ApiError(400, "BadRequest", "found '==', expected: ',' or 'end of string'")
    raise ApiError(400, "BadRequest", f"unable to parse requirement: found '{term}', expected: identifier")


@lru_cache(maxsize=4096)
def parse_labels(text: str) -> tuple[Requirement, ...]:
    """The terms of a label selector; empty text selects everything. Raises ApiError 400."""
    if not text.strip():
        return ()
    return tuple(_requirement(term) for term in _COMMA.split(text))


def labels_match(selector: str, labels: Labels) -> bool:
    """Whether labels fulfil a selector given as text."""
    return all(term.matches(labels) for term in parse_labels(selector))


def label_selector_text(selector: Mapping[str, Any] | None) -> str:
    """The text form of a `metav1.LabelSelector` (matchLabels and matchExpressions)."""
    if not selector:
        return ""
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or []:
        key, op, values = expression["key"], expression["operator"], ",".join(expression.get("values") or [])
        terms.append(
            {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}.get(op, f"!{key}")
        )
    return ",".join(terms)


_POD = "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName spec.hostNetwork"
_EVENT = "kind namespace name uid apiVersion resourceVersion fieldPath"
_EXTRA: Mapping[str, frozenset[str]] = {
    "pods": frozenset([*_POD.split(), "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName"]),
    "nodes": frozenset({"spec.unschedulable"}),
    "namespaces": frozenset({"status.phase"}),
    "secrets": frozenset({"type"}),
    "services": frozenset({"spec.clusterIP", "spec.type"}),
    "jobs.batch": frozenset({"status.successful"}),
    "replicasets.apps": frozenset({"status.replicas"}),
    "events": frozenset(
        [f"involvedObject.{name}" for name in _EVENT.split()] + ["reason", "reportingComponent", "source", "type"]
    ),
    "events.events.k8s.io": frozenset(
        [f"regarding.{name}" for name in _EVENT.split()] + ["reason", "reportingController", "type"]
    ),
}
_ALIASES = {
    "status.successful": "status.succeeded",
    "source": "source.component",
    "reportingController": "reportingComponent",
    **{f"regarding.{name}": f"involvedObject.{name}" for name in _EVENT.split()},
}
_ZERO = {
    "spec.unschedulable": "false",
    "spec.hostNetwork": "false",
    "status.successful": "0",
    "status.replicas": "0",
    "spec.schedulerName": "default-scheduler",
}


def field_value(obj: Object, path: str) -> str:
    """A selectable field as the text that selectors compare with; "" where it is unset."""
    current: Any = obj
    for part in _ALIASES.get(path, path).split("."):
        current = current.get(part) if isinstance(current, dict) else None
        if current is None:
            return _ZERO.get(path, "")
    return ("true" if current else "false") if isinstance(current, bool) else str(current)


@lru_cache(maxsize=4096)
def parse_fields(text: str, kind: Kind) -> tuple[tuple[str, bool, str], ...]:
    """Terms (path, equal, value) of a field selector. Raises ApiError 400 for a field the kind has no index of."""
    terms: list[tuple[str, bool, str]] = []
    for term in filter(None, (part.strip() for part in text.split(","))):
        found = re.match(r"^([^=!]+?)\s*(==|=|!=)\s*(.*)$", term)
        if found is None:
            raise ApiError(400, "BadRequest", f"invalid field selector: {term}")
        path = found[1]
        if path not in ("metadata.name", "metadata.namespace") and path not in _EXTRA.get(kind.name, frozenset()):
            raise ApiError(400, "BadRequest", _unknown_field(kind, path))
        terms.append((path, found[2] != "!=", found[3]))
    return tuple(terms)


def _unknown_field(kind: Kind, path: str) -> str:
    if kind.name in _EXTRA:
        return f"field label not supported: {path}"
    return f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'


@dataclass(frozen=True)
class Selection:
    """What a list or a watch asks for: scope and both selectors, parsed."""

    namespace: str | None = None
    labels: tuple[Requirement, ...] = ()
    fields: tuple[tuple[str, bool, str], ...] = ()

    @classmethod
    def parse(cls, kind: Kind, namespace: str | None, label_selector: str = "", field_selector: str = "") -> Selection:
        """From the text of a request. Raises ApiError 400."""
        return cls(namespace or None, parse_labels(label_selector), parse_fields(field_selector, kind))

    def wanted(self, path: str) -> str | None:
        """The value a field must have, where the field selector pins it."""
        for name, equal, value in self.fields:
            if equal and name == path:
                return value
        return None

    @property
    def everything(self) -> bool:
        """Whether only the namespace narrows the selection."""
        return not self.labels and not self.fields

    def matches(self, obj: Object) -> bool:
        """Whether an object is selected."""
        metadata = obj["metadata"]
        if self.namespace is not None and metadata.get("namespace") != self.namespace:
            return False
        if self.fields and not all((field_value(obj, path) == value) is equal for path, equal, value in self.fields):
            return False
        if not self.labels:
            return True
        labels = metadata.get("labels") or {}
        return all(term.matches(labels) for term in self.labels)
