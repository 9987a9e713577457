"""From a URL path to what is meant: a resource, an object, a subresource, or something that is no resource.

Owns the path grammar. It must not know which kinds exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from simcluster.api.auth.rbac import Attributes

_NAMESPACE_SUBRESOURCES = ("status", "finalize")
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get", "HEAD": "get"}


class BadPathError(ValueError):
    """A path with segments that are empty, dots, or hide a separator."""


@dataclass(frozen=True)
class Target:
    """A parsed path. `resource` is empty for what is no resource; `rest` is what follows a proxy subresource."""

    path: str
    group: str = ""
    version: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    forced_watch: bool = False

    def attributes(self, method: str, *, watch: bool) -> Attributes:
        """What the request wants, as authorization sees it."""
        verb = _VERBS.get(method, method.lower())
        if not self.resource:
            return Attributes(verb, path=self.path)
        if not self.name:
            verb = {"get": "watch" if watch else "list", "delete": "deletecollection"}.get(verb, verb)
        return Attributes(verb, self.group, self.resource, self.subresource, self.namespace, self.name)


def split(raw_path: str) -> list[str]:
    """Decoded segments of a path. Raises BadPathError for tricks with dots, slashes and encodings."""
    parts = raw_path.split("/")[1:]
    if parts and parts[-1] == "":
        parts.pop()
    segments = [unquote(part) for part in parts]
    for segment in segments:
        if segment in ("", ".", "..") or "/" in segment or "\\" in segment or "\x00" in segment:
            raise BadPathError(raw_path)
    return segments


def parse(raw_path: str) -> Target:
    """What a raw (still percent-encoded) path means. Raises BadPathError."""
    if "/proxy" in raw_path:
        return _parse_proxy(raw_path)
    return _parse(raw_path, split(raw_path))


def _parse_proxy(raw_path: str) -> Target:
    head, _, tail = raw_path.partition("/proxy")
    if tail and not tail.startswith("/"):
        return _parse(raw_path, split(raw_path))
    target = _parse(head + "/proxy", split(head + "/proxy"))
    if target.subresource != "proxy":
        return _parse(raw_path, split(raw_path))
    return Target(raw_path, target.group, target.version, target.resource, target.namespace, target.name, "proxy", tail)


def _parse(path: str, segments: list[str]) -> Target:
    if len(segments) > 2 and segments[0] == "api":
        group, version, rest = "", segments[1], segments[2:]
    elif len(segments) > 3 and segments[0] == "apis":
        group, version, rest = segments[1], segments[2], segments[3:]
    else:
        return Target(path)
    watch = rest[0] == "watch" and len(rest) > 1
    if watch:
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    elif rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
    resource, name, sub = (*rest, "", "")[:3]
    if len(rest) > 3:
        return Target(path, group, version, "", namespace)
    return Target(path, group, version, resource, namespace, name, sub, forced_watch=watch)
