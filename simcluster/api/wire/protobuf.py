"""Reads the few protobuf bodies that kubectl's typed commands send instead of JSON.

Owns the field numbers of those messages. It must not know what is done with them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from simcluster.api.port import ApiError, Object

_MAGIC = b"k8s\x00"
_BYTES, _VARINT = 2, 0

Shape = Mapping[int, tuple[str, str]]
"""Field number -> (JSON name, form): str, int, bool, bytes, strings, {str}, {bytes}, or a shape as NAME or [NAME]."""

SHAPES: Mapping[str, Shape] = {
    "ObjectMeta": {
        1: ("name", "str"),
        2: ("generateName", "str"),
        3: ("namespace", "str"),
        5: ("uid", "str"),
        6: ("resourceVersion", "str"),
        11: ("labels", "{str}"),
        12: ("annotations", "{str}"),
        13: ("ownerReferences", "[OwnerReference]"),
        14: ("finalizers", "strings"),
    },
    "OwnerReference": {
        1: ("kind", "str"),
        3: ("name", "str"),
        4: ("uid", "str"),
        5: ("apiVersion", "str"),
        6: ("controller", "bool"),
        7: ("blockOwnerDeletion", "bool"),
    },
    "Namespace": {1: ("metadata", "ObjectMeta")},
    "ConfigMap": {
        1: ("metadata", "ObjectMeta"),
        2: ("data", "{str}"),
        3: ("binaryData", "{bytes}"),
        4: ("immutable", "bool"),
    },
    "Secret": {
        1: ("metadata", "ObjectMeta"),
        2: ("data", "{bytes}"),
        3: ("type", "str"),
        4: ("stringData", "{str}"),
        5: ("immutable", "bool"),
    },
    "ServiceAccount": {1: ("metadata", "ObjectMeta"), 4: ("automountServiceAccountToken", "bool")},
    "DeleteOptions": {
        1: ("gracePeriodSeconds", "int"),
        2: ("preconditions", "Preconditions"),
        3: ("orphanDependents", "bool"),
        4: ("propagationPolicy", "str"),
        5: ("dryRun", "strings"),
    },
    "Preconditions": {1: ("uid", "str"), 2: ("resourceVersion", "str")},
    "Eviction": {1: ("metadata", "ObjectMeta"), 2: ("deleteOptions", "DeleteOptions")},
    "SelfSubjectAccessReview": {1: ("metadata", "ObjectMeta"), 2: ("spec", "SelfSubjectAccessReviewSpec")},
    "SelfSubjectAccessReviewSpec": {
        1: ("resourceAttributes", "ResourceAttributes"),
        2: ("nonResourceAttributes", "NonResourceAttributes"),
    },
    "SubjectAccessReview": {1: ("metadata", "ObjectMeta"), 2: ("spec", "SubjectAccessReviewSpec")},
    "SubjectAccessReviewSpec": {
        1: ("resourceAttributes", "ResourceAttributes"),
        2: ("nonResourceAttributes", "NonResourceAttributes"),
        3: ("user", "str"),
        4: ("groups", "strings"),
    },
    "ResourceAttributes": {
        1: ("namespace", "str"),
        2: ("verb", "str"),
        3: ("group", "str"),
        4: ("version", "str"),
        5: ("resource", "str"),
        6: ("subresource", "str"),
        7: ("name", "str"),
    },
    "NonResourceAttributes": {1: ("path", "str"), 2: ("verb", "str")},
    "SelfSubjectRulesReview": {1: ("metadata", "ObjectMeta"), 2: ("spec", "SelfSubjectRulesReviewSpec")},
    "SelfSubjectRulesReviewSpec": {1: ("namespace", "str")},
    "SelfSubjectReview": {1: ("metadata", "ObjectMeta")},
    "TokenRequest": {1: ("metadata", "ObjectMeta"), 2: ("spec", "TokenRequestSpec")},
    "TokenRequestSpec": {1: ("audiences", "strings"), 4: ("expirationSeconds", "int")},
    "PodDisruptionBudget": {1: ("metadata", "ObjectMeta"), 2: ("spec", "PodDisruptionBudgetSpec")},
    "PodDisruptionBudgetSpec": {
        1: ("minAvailable", "IntOrString"),
        2: ("selector", "LabelSelector"),
        3: ("maxUnavailable", "IntOrString"),
    },
    "IntOrString": {1: ("type", "int"), 2: ("intVal", "int"), 3: ("strVal", "str")},
    "LabelSelector": {1: ("matchLabels", "{str}"), 2: ("matchExpressions", "[LabelSelectorRequirement]")},
    "LabelSelectorRequirement": {1: ("key", "str"), 2: ("operator", "str"), 3: ("values", "strings")},
    "Role": {1: ("metadata", "ObjectMeta"), 2: ("rules", "[PolicyRule]")},
    "ClusterRole": {1: ("metadata", "ObjectMeta"), 2: ("rules", "[PolicyRule]")},
    "PolicyRule": {
        1: ("verbs", "strings"),
        2: ("apiGroups", "strings"),
        3: ("resources", "strings"),
        4: ("resourceNames", "strings"),
        5: ("nonResourceURLs", "strings"),
    },
    "RoleBinding": {1: ("metadata", "ObjectMeta"), 2: ("subjects", "[Subject]"), 3: ("roleRef", "RoleRef")},
    "ClusterRoleBinding": {1: ("metadata", "ObjectMeta"), 2: ("subjects", "[Subject]"), 3: ("roleRef", "RoleRef")},
    "Subject": {1: ("kind", "str"), 2: ("apiGroup", "str"), 3: ("name", "str"), 4: ("namespace", "str")},
    "RoleRef": {1: ("apiGroup", "str"), 2: ("kind", "str"), 3: ("name", "str")},
    "ResourceQuota": {1: ("metadata", "ObjectMeta"), 2: ("spec", "ResourceQuotaSpec")},
    "ResourceQuotaSpec": {1: ("hard", "{Quantity}"), 2: ("scopes", "strings")},
    "Quantity": {1: ("string", "str")},
    "PriorityClass": {
        1: ("metadata", "ObjectMeta"),
        2: ("value", "int"),
        3: ("globalDefault", "bool"),
        4: ("description", "str"),
        5: ("preemptionPolicy", "str"),
    },
}
_TYPE_META: Shape = {1: ("apiVersion", "str"), 2: ("kind", "str")}


def _malformed() -> ApiError:
    return ApiError(400, "BadRequest", "the protobuf body of the request is malformed")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise _malformed()
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
        elif wire == _BYTES:
            length, at = _varint(data, at)
            if at + length > len(data):
                raise _malformed()
            yield key >> 3, data[at : at + length]
            at += length
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        else:
            raise _malformed()


def _scalar(form: str, value: int | bytes) -> Any:
    if form == "bool":
        return bool(value)
    if isinstance(value, int):
        return value - (1 << 64) if value >= 1 << 63 else value
    match form:
        case "str" | "strings" | "{str}":
            return value.decode(errors="replace")
        case "bytes" | "{bytes}":
            return base64.b64encode(value).decode()
        case "IntOrString":
            inner = _message(SHAPES[form], value)
            return inner.get("strVal") if inner.get("type") else inner.get("intVal", 0)
        case "{Quantity}":
            return _message(SHAPES["Quantity"], value).get("string", "0")
    return _message(SHAPES[form.strip("[]{}")], value)


def _message(shape: Shape, data: bytes) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for number, value in _fields(data):
        if number not in shape:
            continue
        name, form = shape[number]
        if form.startswith("{") and isinstance(value, bytes):
            pair = dict(_fields(value))
            key, inner = pair.get(1, b""), pair.get(2, b"")
            if isinstance(key, bytes):
                made.setdefault(name, {})[key.decode()] = _scalar(form, inner)
        elif form == "strings" or form.startswith("["):
            made.setdefault(name, []).append(_scalar(form, value))
        else:
            made[name] = _scalar(form, value)
    return made


def decode(body: bytes) -> Object:
    """The object in a Kubernetes protobuf envelope. Raises ApiError 400, or 415 for a kind not read this way."""
    if not body.startswith(_MAGIC):
        raise _malformed()
    meta: dict[str, Any] = {}
    raw = b""
    for number, value in _fields(body[len(_MAGIC) :]):
        if number == 1 and isinstance(value, bytes):
            meta = _message(_TYPE_META, value)
        elif number == 2 and isinstance(value, bytes):
            raw = value
    shape = SHAPES.get(meta.get("kind", ""))
    if shape is None:
        text = f"this server reads {meta.get('kind')} as JSON only; send application/json"
        raise ApiError(415, "UnsupportedMediaType", text)
    made = _message(shape, raw)
    metadata = {key: value for key, value in made.get("metadata", {}).items() if value != ""}
    return {"kind": meta["kind"], "apiVersion": meta["apiVersion"], **made, "metadata": metadata}
