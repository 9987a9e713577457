"""Reads the few protobuf bodies that kubectl's typed commands send instead of JSON.

Owns the wire format. It must not know what is done with them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from simcluster.api.port import ApiError, Object
from simcluster.api.wire.protoshapes import SHAPES, Shape

_MAGIC = b"k8s\x00"
_BYTES, _VARINT = 2, 0

_TYPE_META: Shape = {1: ("apiVersion", "str"), 2: ("kind", "str")}


_DROPPED_EMPTY = ("str", "num")
"""Go writes these even when they are unset."""


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
            found = _scalar(form, value)
            if found or form not in _DROPPED_EMPTY:
                made[name] = found
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
    return {"kind": meta["kind"], "apiVersion": meta["apiVersion"], "metadata": {}, **made}
