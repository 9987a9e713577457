"""One HTTP request from its path to its answer: who asks, may they, what is meant, who carries it out.

Owns that order. It must not know how any verb works.
"""

from __future__ import annotations

import logging
from urllib.parse import parse_qsl

from aiohttp import web

from simcluster.api import errors
from simcluster.api.auth.rbac import Attributes, Authorizer
from simcluster.api.auth.reviews import Reviews
from simcluster.api.auth.tokens import ANONYMOUS, TokenTable, User, impersonated
from simcluster.api.kinds import Kind, KindTable
from simcluster.api.port import ApiError, Object
from simcluster.api.schema.openapi import OpenApi
from simcluster.api.wire import codec
from simcluster.api.wire.call import Call, decode
from simcluster.api.wire.discovery import AGGREGATED, VERSION, Discovery
from simcluster.api.wire.exec import UnknownProtocolError
from simcluster.api.wire.options import flag
from simcluster.api.wire.paths import BadPathError, parse
from simcluster.api.wire.reads import Reads
from simcluster.api.wire.subresources import Subresources
from simcluster.api.wire.writes import Writes

_log = logging.getLogger(__name__)

_PARTS = frozenset({"", "status", "finalize", "ephemeralcontainers", "resize"})


class Handler:
    """The whole server, as aiohttp calls it."""

    def __init__(
        self,
        *,
        kinds: KindTable,
        tokens: TokenTable,
        authorizer: Authorizer,
        reads: Reads,
        writes: Writes,
        subresources: Subresources,
        openapi: OpenApi,
    ) -> None:
        self._kinds = kinds
        self._tokens = tokens
        self._authorizer = authorizer
        self._reviews = Reviews(authorizer, tokens)
        self._reads = reads
        self._writes = writes
        self._subresources = subresources
        self._discovery = Discovery(kinds)
        self._openapi = openapi

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer, with a Status whatever is wrong."""
        warnings: dict[str, str] = {}
        try:
            return await self._answer(request, warnings)
        except ApiError as error:
            return _refusal(error, warnings)
        except UnknownProtocolError:
            return web.Response(status=403)
        except BadPathError:
            return _not_found()
        except (ConnectionResetError, web.HTTPException):
            raise
        except Exception as error:  # noqa: BLE001  # the outermost boundary: a defect must be an answer, not a hang
            _log.exception("a defect while answering %s %s", request.method, request.path)
            text = f"Internal error occurred: {type(error).__name__}: {error}"
            return _refusal(ApiError(500, "InternalError", text), {})

    async def _answer(self, request: web.BaseRequest, warnings: dict[str, str]) -> web.StreamResponse:
        user = self._user(request)
        raw_path, _, raw_query = request.raw_path.partition("?")
        target = parse(raw_path)
        pairs = parse_qsl(raw_query, keep_blank_values=True) if raw_query else []
        query = dict(pairs)
        call = Call(request, target, query, user, tuple(value for key, value in pairs if key == "command"))
        watch = target.forced_watch or ("watch" in query and flag(query, "watch"))
        self._authorizer.check(user, target.attributes(request.method, watch=watch))
        try:
            return await self._dispatch(call)
        finally:
            warnings.update(call.headers())

    def _user(self, request: web.BaseRequest) -> User:
        header = request.headers.get("Authorization")
        if header is None:
            return ANONYMOUS
        scheme, _, token = header.partition(" ")
        user = self._tokens.user_of(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        if "Impersonate-User" not in request.headers:
            return user
        name = request.headers["Impersonate-User"]
        self._authorizer.check(user, Attributes("impersonate", resource="users", name=name))
        groups = request.headers.getall("Impersonate-Group", [])
        return impersonated(name, tuple(groups))

    async def _dispatch(self, call: Call) -> web.StreamResponse:
        target = call.target
        if not target.resource:
            return self._no_resource(call)
        kind = self._kinds.at(target.group, target.version, target.resource)
        if kind is None:
            if not self._discovery.has(target.group, target.version):
                return _not_found()
            raise errors.unknown_resource()
        if target.subresource not in _PARTS:
            handler = self._subresources.handler(target.subresource)
            if handler is None or target.subresource not in kind.subresources:
                raise errors.unknown_resource()
            return await handler(call, kind)
        if target.subresource and target.subresource not in kind.subresources:
            raise errors.unknown_resource()
        return await (self._object(call, kind) if target.name else self._collection(call, kind))

    async def _object(self, call: Call, kind: Kind) -> web.StreamResponse:
        match call.request.method:
            case "GET" | "HEAD" if not call.target.forced_watch:
                return self._reads.one(call, kind)
            case "PUT":
                return await self._writes.update(call, kind)
            case "PATCH":
                return await self._writes.patch(call, kind)
            case "DELETE" if not call.target.subresource:
                return await self._writes.delete(call, kind)
        raise errors.method_not_allowed()

    async def _collection(self, call: Call, kind: Kind) -> web.StreamResponse:
        method = call.request.method
        if kind.verbs == ("create",):
            return await self._review(call, kind)
        if kind.namespaced and not call.target.namespace and method != "GET":
            raise errors.method_not_allowed()
        match method:
            case "GET" | "HEAD":
                return await self._reads.many(call, kind)
            case "POST":
                return await self._writes.create(call, kind)
            case "DELETE":
                return await self._writes.delete_collection(call, kind)
        raise errors.method_not_allowed()

    async def _review(self, call: Call, kind: Kind) -> web.StreamResponse:
        if call.request.method != "POST":
            raise errors.method_not_allowed()
        obj = decode(kind, await call.body(), call.content_type)
        obj["apiVersion"] = kind.api_version
        return call.json(self._reviews.answer(kind.kind, call.user, obj, call.target.namespace), 201)

    def _no_resource(self, call: Call) -> web.StreamResponse:
        path = call.target.path.rstrip("/") or "/"
        if call.request.method not in ("GET", "HEAD"):
            raise errors.method_not_allowed()
        if path in ("/healthz", "/livez", "/readyz"):
            return web.Response(text="ok")
        if path == "/version":
            return call.json(VERSION)
        found = self._documents(call, path)
        return _not_found() if found is None else found

    def _documents(self, call: Call, path: str) -> web.StreamResponse | None:
        aggregated = "as=APIGroupDiscoveryList" in call.accept and "v=v2" in call.accept
        if path in ("/api", "/apis") and aggregated:
            body = self._discovery.aggregated(core=path == "/api")
            return web.Response(body=codec.dumps(body), headers={"Content-Type": AGGREGATED})
        found = self._document(path.strip("/").split("/"), call.request.host)
        return None if found is None else call.json(found)

    def _document(self, parts: list[str], host: str) -> Object | None:
        match parts:
            case [""]:
                return self._discovery.paths()
            case ["api"]:
                return self._discovery.versions(host)
            case ["apis"]:
                return self._discovery.groups()
            case ["api", version]:
                return self._discovery.resources("", version)
            case ["apis", group]:
                return self._discovery.group(group)
            case ["apis", group, version]:
                return self._discovery.resources(group, version)
            case ["openapi", *rest]:
                return self._specification(rest)
        return None

    def _specification(self, parts: list[str]) -> Object | None:
        match parts:
            case ["v2"]:
                return self._openapi.v2()
            case ["v3"]:
                return self._openapi.index()
            case ["v3", "api", version]:
                return self._openapi.v3("", version)
            case ["v3", "apis", group, version]:
                return self._openapi.v3(group, version)
        return None


def _refusal(error: ApiError, headers: dict[str, str]) -> web.Response:
    if wait_s := (error.details or {}).get("retryAfterSeconds"):
        headers = {**headers, "Retry-After": str(wait_s)}
    body = {key: value for key, value in error.body().items() if value != "" or key != "reason"}
    return web.Response(body=codec.dumps(body), status=error.code, content_type=codec.JSON, headers=headers)


def _not_found() -> web.Response:
    return web.Response(status=404, text="404 page not found\n")
