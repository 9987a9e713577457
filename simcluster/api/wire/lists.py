"""Lists in pages that show one snapshot, with Kubernetes' continue tokens.

Owns limit, continue and the meanings of resourceVersion in a list. It must not know how a list is encoded.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass

from simcluster.api import errors
from simcluster.api.port import ApiError, Object
from simcluster.api.selectors import Selection
from simcluster.api.store import Collection, Entry
from simcluster.api.wire.options import Query, integer

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
_NOW = -1


@dataclass(frozen=True)
class Page:
    """Entries of one answer and the list's metadata."""

    entries: Sequence[Entry]
    metadata: Object


def _encode(rv: int, start: str) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": rv, "start": start}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(token: str) -> tuple[int, str]:
    try:
        padded = token + "=" * (-len(token) % 4)
        fields = json.loads(base64.urlsafe_b64decode(padded))
        return int(fields["rv"]), str(fields["start"]).rstrip("\0").lstrip("/")
    except (binascii.Error, ValueError, KeyError, TypeError) as error:
        position = len(token) - len(token) % 4
        text = f"invalid continue token: continue key is not valid: illegal base64 data at input byte {position}"
        raise errors.bad_request(text) from error


def version(query: Query) -> int | None:
    """The resourceVersion asked for; None for none or 0. Raises ApiError 500 for what is no number."""
    text = query.get("resourceVersion", "")
    if text in ("", "0"):
        return None
    if not text.isdigit():
        cause = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise ApiError(500, "", cause)
    return int(text)


def _options_error(text: str) -> ApiError:
    cause = errors.forbidden_value("resourceVersionMatch", text)
    return errors.invalid_kind("ListOptions", "meta.k8s.io", "", [cause])


def too_large(asked: int, current: int) -> ApiError:
    """504 of a version that does not exist yet."""
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    text = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiError(504, "Timeout", text, details)


def page(collection: Collection, selection: Selection, query: Query, current: int) -> Page:
    """One page. Raises ApiError 400, 410, 422, 500, 504."""
    limit = max(integer(query, "limit") or 0, 0)
    asked = version(query)
    match = query.get("resourceVersionMatch", "")
    if match and not query.get("resourceVersion"):
        raise _options_error("resourceVersionMatch is forbidden unless resourceVersion is provided")
    token = query.get("continue", "")
    if token:
        return _continued(collection, selection, token, limit, current)
    if asked is not None and asked > current:
        raise too_large(asked, current)
    if asked is not None and (match == "Exact" or (limit and not match)):
        return _cut(selection, collection.select_at(selection, asked), limit, asked, "")
    if query.get("resourceVersion") == "0":
        limit = 0
    return _cut(selection, collection.select(selection), limit, current, "")


def _continued(collection: Collection, selection: Selection, token: str, limit: int, current: int) -> Page:
    rv, start = _decode(token)
    if rv == _NOW:
        return _cut(selection, collection.select(selection), limit, current, start)
    try:
        entries = collection.select_at(selection, rv)
    except ApiError as error:
        raise ExpiredTokenError(_encode(_NOW, f"{start}\0")) from error
    return _cut(selection, entries, limit, rv, start)


class ExpiredTokenError(ApiError):
    """410 whose Status carries a token that goes on at the present state."""

    def __init__(self, token: str) -> None:
        super().__init__(410, "Expired", _TOO_OLD)
        self._token = token

    def body(self) -> Object:
        """The Status with the fresh token."""
        return {**super().body(), "metadata": {"continue": self._token}}


def _cut(selection: Selection, entries: Sequence[Entry], limit: int, rv: int, start: str) -> Page:
    metadata: Object = {"resourceVersion": str(rv)}
    if start:
        entries = [entry for entry in entries if _after(entry, start)]
    if not limit or len(entries) <= limit:
        return Page(entries, metadata)
    shown = entries[:limit]
    namespace, name = shown[-1].key
    at = name if selection.namespace is not None or not namespace else f"{namespace}/{name}"
    metadata["continue"] = _encode(rv, f"/{at}\0")
    metadata["remainingItemCount"] = len(entries) - limit
    return Page(shown, metadata)


def _after(entry: Entry, start: str) -> bool:
    space, found, name = start.partition("/")
    return entry.key > (space, name) if found else entry.key[1] > start
