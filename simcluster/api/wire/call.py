"""One HTTP request after authentication and authorization, with what handlers need of it.

Owns reading the body within a limit, and answering with JSON. It must not know any verb.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from aiohttp import web

from simcluster.api import errors
from simcluster.api.auth.tokens import User
from simcluster.api.kinds import Kind
from simcluster.api.port import ApiError, Object
from simcluster.api.wire import codec, protobuf
from simcluster.api.wire.paths import Target

BODY_LIMIT = 3 * 1024 * 1024
PROTOBUF = "application/vnd.kubernetes.protobuf"

_UNKNOWN_FORMAT = (
    "the body of the request was in an unknown format - accepted media types include: "
    "application/json, application/yaml, application/vnd.kubernetes.protobuf"
)


@dataclass
class Call:
    """A request; `commands` are the values of the repeated parameter of exec."""

    request: web.BaseRequest
    target: Target
    query: Mapping[str, str]
    user: User
    commands: tuple[str, ...] = ()
    warnings: list[str] = field(default_factory=list)

    @property
    def agent(self) -> str:
        """The client's own name, by which its fields are managed."""
        return str(self.request.headers.get("User-Agent", "unknown"))

    @property
    def accept(self) -> str:
        """What the client can read."""
        return str(self.request.headers.get("Accept", ""))

    @property
    def content_type(self) -> str:
        """The body's type without parameters."""
        return str(self.request.headers.get("Content-Type", "")).partition(";")[0].strip()

    async def body(self) -> bytes:
        """The whole body. Raises ApiError 413 where it is too long."""
        length = self.request.content_length
        if length is not None and length > BODY_LIMIT:
            raise _too_large()
        chunks: list[bytes] = []
        size = 0
        async for chunk in self.request.content.iter_any():
            size += len(chunk)
            if size > BODY_LIMIT:
                raise _too_large()
            chunks.append(chunk)
        return b"".join(chunks)

    def headers(self) -> dict[str, str]:
        """Headers of an answer: none but the warnings."""
        if not self.warnings:
            return {}
        return {"Warning": ", ".join(f'299 - "{_quoted(text)}"' for text in self.warnings)}

    def json(self, obj: Any, status: int = 200) -> web.Response:
        """An answer made of a JSON value."""
        return self.raw(codec.dumps(obj), status)

    def raw(self, body: bytes, status: int = 200, content_type: str = codec.JSON) -> web.Response:
        """An answer made of bytes."""
        return web.Response(
            body=codec.finish(body, content_type), status=status, content_type=content_type, headers=self.headers()
        )


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _too_large() -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {BODY_LIMIT}", {"causes": []})


def decode(kind: Kind, body: bytes, content_type: str) -> Object:
    """An object out of a body, before any check of its fields. Raises ApiError 400, 415."""
    if content_type == PROTOBUF:
        return protobuf.decode(body)
    if content_type not in ("", codec.JSON, codec.YAML):
        raise ApiError(415, "UnsupportedMediaType", _UNKNOWN_FORMAT)
    try:
        obj = yaml.safe_load(body) if content_type == codec.YAML else json.loads(body)
    except (ValueError, yaml.YAMLError) as error:
        raise _unrecognized(kind, body, str(error)) from error
    except RecursionError as error:
        raise _unrecognized(kind, body, "exceeded max depth") from error
    if not isinstance(obj, dict):
        raise _unrecognized(kind, body, "json: cannot unmarshal into Go value")
    _check_type(kind, obj)
    metadata = obj.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise errors.bad_request(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: json: cannot unmarshal '
            f"{'array' if isinstance(metadata, list) else 'string'} into Go struct field {kind.kind}.metadata of type "
            "v1.ObjectMeta"
        )
    return obj


def _unrecognized(kind: Kind, body: bytes, why: str) -> ApiError:
    text = body.decode(errors="replace")
    shown = "<empty>" if not text else text if len(text) <= 30 else f"{text[:30]} ..."
    if not text or "Expecting" in why or "Unterminated" in why:
        why = "unexpected end of JSON input"
    return errors.bad_request(
        f"the object provided is unrecognized (must be of type {kind.kind}): couldn't get version/kind; "
        f"json parse error: {why} ({shown})"
    )


def _check_type(kind: Kind, obj: Object) -> None:
    given, version = obj.get("kind"), obj.get("apiVersion")
    if given not in (None, "", kind.kind):
        raise errors.bad_request(
            f'{given} in version "{str(version).rpartition("/")[2]}" cannot be handled as a {kind.kind}: '
            f"converting (v1.{given}) to ({kind.group.partition('.')[0] or 'core'}.{kind.kind}): unknown conversion"
        )
    if version not in (None, "", kind.api_version):
        raise errors.bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
        )


def duplicates(body: bytes) -> list[str]:
    """Names of fields that a JSON body gives twice, as dotted paths."""
    found: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, value in items:
            if key in made:
                found.append(key)
            made[key] = value
        return made

    try:
        top = json.loads(body, object_pairs_hook=pairs)
    except ValueError:
        return []
    return [_path_to(top, name) for name in found]


def _path_to(obj: Any, name: str) -> str:
    if isinstance(obj, dict):
        if name in obj:
            return name
        for key, value in obj.items():
            if inner := _path_to(value, name):
                return f"{key}.{inner}"
    return ""
