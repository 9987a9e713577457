"""How objects leave the server: whole, as metadata only, or as rows of a table.

Owns the three representations. It must not know how objects are found.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

import yaml

from simcluster.api.events import view
from simcluster.api.kinds import Kind
from simcluster.api.port import ApiError, EventType, Object
from simcluster.api.store import Entry
from simcluster.api.wire import podcells, tables
from simcluster.api.wire.columns import Column

JSON = "application/json"
YAML = "application/yaml"
_TABLE_GROUP = "meta.k8s.io/v1"


def dumps(obj: Any) -> bytes:
    """Compact JSON."""
    return json.dumps(obj, ensure_ascii=False, separators=(",", ":")).encode()


class Encoder(Protocol):
    """Turns entries of one kind into bytes."""

    def one(self, entry: Entry) -> bytes:
        """The answer to a read of one object."""
        ...

    def many(self, entries: Sequence[Entry], metadata: Object) -> bytes:
        """The answer to a list."""
        ...

    def line(self, event: EventType, entry: Entry) -> bytes:
        """One line of a watch."""
        ...


def event_line(event: EventType, obj: Object) -> bytes:
    """A watch line of something that is no stored entry: a bookmark, an error."""
    return b'{"type":"' + event.encode() + b'","object":' + dumps(obj) + b"}\n"


class Whole:
    """Objects as they are stored, from the bytes made at their write."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._prefix = b'{"kind":"' + kind.kind.encode() + b'","apiVersion":"' + kind.api_version.encode() + b'",'
        self._viewed = kind.name == "events.events.k8s.io"

    def one(self, entry: Entry) -> bytes:
        """The stored bytes."""
        return dumps(view(entry.obj)) if self._viewed else entry.raw

    def many(self, entries: Sequence[Entry], metadata: Object) -> bytes:
        """Items carry neither kind nor apiVersion: the list says them once."""
        kind = self._kind
        head = {"kind": kind.list_kind_name, "apiVersion": kind.api_version, "metadata": metadata}
        cut, prefix = len(self._prefix), self._prefix
        raws = (self.one(entry) for entry in entries)
        if kind.custom:
            items = b",".join(raws)
        else:
            items = b",".join(b"{" + raw[cut:] if raw.startswith(prefix) else raw for raw in raws)
        return dumps(head)[:-1] + b',"items":[' + items + b"]}"

    def line(self, event: EventType, entry: Entry) -> bytes:
        """The stored line."""
        return event_line(event, view(entry.obj)) if self._viewed else entry.line(event)


def _partial(obj: Object, *, kind: str = "PartialObjectMetadata") -> Object:
    return {"kind": kind, "apiVersion": _TABLE_GROUP, "metadata": obj["metadata"]}


class MetadataOnly:
    """PartialObjectMetadata."""

    def one(self, entry: Entry) -> bytes:
        """Only the metadata."""
        return dumps(_partial(entry.obj))

    def many(self, entries: Sequence[Entry], metadata: Object) -> bytes:
        """A list of metadata."""
        head = {"kind": "PartialObjectMetadataList", "apiVersion": _TABLE_GROUP, "metadata": metadata}
        return dumps({**head, "items": [_partial(entry.obj) for entry in entries]})

    def line(self, event: EventType, entry: Entry) -> bytes:
        """A watch line of metadata."""
        return event_line(event, _partial(entry.obj))


class Rows:
    """Tables, as kubectl get prints them."""

    def __init__(self, kind: Kind, include: str, extra: Sequence[Column] = ()) -> None:
        self._table = tables.table_of(kind, extra)
        self._pods = kind.name == "pods"
        self._include = include
        self._headed = False

    def one(self, entry: Entry) -> bytes:
        """A table with one row."""
        return dumps(self._answer([entry], {"resourceVersion": entry.obj["metadata"].get("resourceVersion", "")}))

    def many(self, entries: Sequence[Entry], metadata: Object) -> bytes:
        """A table with a row an object."""
        return dumps(self._answer(entries, metadata))

    def line(self, event: EventType, entry: Entry) -> bytes:
        """A table with one row; only the first line of a watch carries the columns."""
        answer = self._answer([entry], {"resourceVersion": entry.obj["metadata"].get("resourceVersion", "")})
        if self._headed:
            answer["columnDefinitions"] = None
        self._headed = True
        return event_line(event, answer)

    def _answer(self, entries: Sequence[Entry], metadata: Object) -> Object:
        rows = [self._row(entry.obj) for entry in entries]
        return {
            "kind": "Table",
            "apiVersion": _TABLE_GROUP,
            "metadata": metadata,
            "columnDefinitions": self._table.definitions(),
            "rows": rows,
        }

    def _row(self, obj: Object) -> Object:
        row: Object = {"cells": self._table.cells(obj)}
        if self._pods and (ended := podcells.row_conditions(obj)):
            row["conditions"] = ended
        return {**row, "object": self._object(obj)}

    def _object(self, obj: Object) -> Object | None:
        match self._include:
            case "None":
                return None
            case "Object":
                return obj
        return _partial(obj)


def choose(kind: Kind, accept: str, include: str, extra: Sequence[Column] = ()) -> tuple[Encoder, str]:
    """The encoder and content type for an Accept header. Raises ApiError 406."""
    if not accept or accept == JSON:
        return Whole(kind), JSON
    for offer in accept.split(","):
        media, *parameters = (part.strip() for part in offer.split(";"))
        wanted = dict(part.split("=", 1) for part in parameters if "=" in part)
        if media not in (JSON, "*/*", "application/*", YAML):
            continue
        match wanted.get("as", ""):
            case "Table" if wanted.get("v") == "v1":
                return Rows(kind, include, extra), JSON
            case "PartialObjectMetadataList" | "PartialObjectMetadata":
                return MetadataOnly(), JSON
            case "":
                return Whole(kind), YAML if media == YAML else JSON
    raise not_acceptable()


def not_acceptable() -> ApiError:
    """406."""
    text = (
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
        "application/vnd.kubernetes.protobuf, application/json;stream=watch, "
        "application/vnd.kubernetes.protobuf;stream=watch"
    )
    return ApiError(406, "NotAcceptable", text, {})


def finish(body: bytes, content_type: str) -> bytes:
    """The body in the content type agreed on."""
    if content_type != YAML:
        return body
    return str(yaml.safe_dump(json.loads(body), sort_keys=False)).encode()
