"""POST, PUT, PATCH and DELETE of objects and collections.

Owns how writes are read from a request and answered. It must not know who may write.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import yaml
from aiohttp import web

from simcluster.api import errors, events, patches
from simcluster.api.apply import ServerSideApply
from simcluster.api.auth.escalation import Escalation
from simcluster.api.kinds import Kind
from simcluster.api.port import ApiError, Object
from simcluster.api.resources import Resources
from simcluster.api.schema.check import check
from simcluster.api.schema.structural import CustomSchemas
from simcluster.api.selectors import Selection
from simcluster.api.store import Entry
from simcluster.api.wire import codec, options
from simcluster.api.wire.call import Call, decode, duplicates

_MERGES: dict[str, Callable[[Any, Any], Any]] = {
    "application/json-patch+json": patches.json_patch,
    "application/merge-patch+json": patches.merge_patch,
    "application/strategic-merge-patch+json": patches.strategic_patch,
}
_APPLY = ("application/apply-patch+yaml", "application/apply-patch+json")
_ORPHAN_WARNING = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


class Writes:
    """Carries out writes on the store."""

    def __init__(self, resources: Resources, escalation: Escalation, custom: CustomSchemas) -> None:
        self._resources = resources
        self._custom = custom
        self._escalation = escalation
        self._apply = ServerSideApply(resources)

    async def read(self, call: Call, kind: Kind) -> Object:
        """The object in the body, its fields checked as fieldValidation asks. Raises ApiError 400, 413, 415."""
        body = await call.body()
        obj = decode(kind, body, call.content_type)
        obj = self._checked(call, kind, obj, body)
        return events.to_core(obj) if kind.storage == "events" else obj

    def _checked(self, call: Call, kind: Kind, obj: Object, body: bytes) -> Object:
        checked, unknown = self._custom.fit(kind, obj) if kind.custom else check(kind, obj)
        validation = call.query.get("fieldValidation") or "Warn"
        if validation == "Ignore":
            return checked
        complaints = [f'unknown field "{path}"' for path in unknown]
        if "fieldValidation" in call.query:
            complaints += [f'duplicate field "{path}"' for path in duplicates(body)]
        if complaints and validation == "Strict":
            where = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
            raise errors.bad_request(f"{where}: strict decoding error: {', '.join(complaints)}")
        call.warnings.extend(complaints)
        return checked

    async def create(self, call: Call, kind: Kind) -> web.Response:
        """POST to a collection. Raises ApiError 400, 403, 404, 409, 422."""
        options.check_write(call.query, "CreateOptions")
        obj = await self.read(call, kind)
        self._escalation.check(kind, call.user, obj, call.target.namespace)
        entry = self._resources.create(
            kind, obj, call.target.namespace or None, options.write(call.query, call.agent, call.warnings)
        )
        return self._answer(call, kind, entry, 201)

    async def update(self, call: Call, kind: Kind) -> web.Response:
        """PUT of an object or subresource. Raises ApiError 400, 404, 409, 422."""
        options.check_write(call.query, "UpdateOptions")
        obj = await self.read(call, kind)
        target = call.target
        metadata = obj.setdefault("metadata", {})
        given = metadata.setdefault("name", target.name)
        if given != target.name:
            raise errors.bad_request(
                f"the name of the object ({given}) does not match the name on the URL ({target.name})"
            )
        space = metadata.get("namespace")
        if space and space != target.namespace and kind.namespaced:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        self._escalation.check(kind, call.user, obj, target.namespace)
        entry = self._resources.update(
            kind, obj, target.namespace, target.subresource, options.write(call.query, call.agent, call.warnings)
        )
        return self._answer(call, kind, entry)

    async def patch(self, call: Call, kind: Kind) -> web.Response:
        """PATCH of an object or subresource. Raises ApiError 400, 404, 409, 415, 422."""
        options.check_write(call.query, "PatchOptions")
        content_type = call.content_type
        if content_type in _APPLY:
            return await self._server_side(call, kind)
        merge = _MERGES.get(content_type)
        if merge is None or (kind.custom and merge is patches.strategic_patch):
            raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
        body = _patch_body(await call.body())
        target = call.target

        def change(obj: Object) -> Object:
            patched: Object = merge(obj, body)
            self._escalation.check(kind, call.user, patched, target.namespace)
            return self._recheck(call, kind, patched)

        entry = self._resources.modify(
            kind,
            target.name,
            target.namespace,
            change,
            subresource=target.subresource,
            options=options.write(call.query, call.agent, call.warnings),
        )
        return self._answer(call, kind, entry)

    def _recheck(self, call: Call, kind: Kind, patched: Object) -> Object:
        try:
            return self._checked(call, kind, patched, b"")
        except ApiError as error:
            if "cannot unmarshal" not in error.message:
                raise
            why = error.message.partition(": ")[2]
            shown = json.dumps(json.dumps(dict(sorted(patched.items())), separators=(",", ":")))
            cause = errors.invalid_value("patch", shown, why)
            raise errors.invalid_kind("", "", "", [cause]) from error

    async def _server_side(self, call: Call, kind: Kind) -> web.Response:
        if not call.query.get("fieldManager"):
            cause = errors.required("fieldManager", "is required for apply patch")
            raise errors.invalid_kind("PatchOptions", "meta.k8s.io", "", [cause])
        body = await call.body()
        try:
            config = yaml.safe_load(body) if not body.lstrip().startswith(b'{"') else json.loads(body)
        except (yaml.YAMLError, ValueError) as error:
            text = (
                "error decoding YAML: error converting YAML to JSON: yaml: line 1: did not find expected node content"
            )
            raise errors.bad_request(text) from error
        if not isinstance(config, dict):
            raise errors.bad_request("error decoding YAML: the body is not an object")
        config = self._checked(call, kind, config, b"")
        target = call.target
        self._escalation.check(kind, call.user, config, target.namespace)
        entry, created = self._apply.apply(
            kind,
            target.name,
            target.namespace,
            config,
            subresource=target.subresource,
            options=options.write(call.query, call.agent, call.warnings),
        )
        return self._answer(call, kind, entry, 201 if created else 200)

    async def delete(self, call: Call, kind: Kind) -> web.Response:
        """DELETE of one object. Raises ApiError 400, 404, 409, 422."""
        wanted = options.delete(call.query, await self._delete_body(call))
        if kind.name == "jobs.batch" and wanted.propagation is None:
            call.warnings.append(_ORPHAN_WARNING)
        obj, _gone = self._resources.delete(kind, call.target.name, call.target.namespace, wanted)
        return call.json(obj)

    @staticmethod
    async def _delete_body(call: Call) -> bytes:
        body = await call.body()
        if body and call.content_type == "application/vnd.kubernetes.protobuf":
            return codec.dumps(decode(_DELETE_OPTIONS, body, call.content_type))
        return body

    async def delete_collection(self, call: Call, kind: Kind) -> web.Response:
        """DELETE of all selected objects; answers the list of what was there."""
        wanted = options.delete(call.query, await self._delete_body(call))
        query = call.query
        selection = Selection.parse(
            kind, call.target.namespace or None, query.get("labelSelector", ""), query.get("fieldSelector", "")
        )
        entries = self._resources.collection(kind).select(selection)
        for entry in entries:
            self._resources.delete(kind, entry.key[1], entry.key[0] or None, wanted)
        metadata = {"resourceVersion": str(self._resources.store.revision.current)}
        return call.raw(codec.Whole(kind).many(entries, metadata))

    def _answer(self, call: Call, kind: Kind, entry: Entry, status: int = 200) -> web.Response:
        accept = call.accept
        if not accept or accept == codec.JSON:
            return call.raw(codec.Whole(kind).one(entry), status)
        encoder, content_type = codec.choose(kind, accept, call.query.get("includeObject", "Metadata"))
        return call.raw(encoder.one(entry), status, content_type)


_DELETE_OPTIONS = Kind("", "v1", "deleteoptions", "DeleteOptions", namespaced=False)


def _patch_body(body: bytes) -> Any:
    try:
        return json.loads(body)
    except RecursionError as error:
        raise errors.bad_request("error decoding patch: exceeded max depth") from error
    except ValueError as error:
        shown = body.lstrip(b"{ ")[:1].decode(errors="replace")
        text = f"error decoding patch: invalid character '{shown}' looking for beginning of object key string"
        raise errors.bad_request(text) from error
