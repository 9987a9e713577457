"""Discovery: which groups, versions and resources are served, in the legacy and the aggregated form.

Owns those documents, made from the table of kinds. It must not know objects.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from typing import Any

from simcluster.api.kinds import Kind, KindTable
from simcluster.api.port import Object

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

VERSION: Object = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2+simcluster",
    "gitCommit": "0" * 40,
    "gitTreeState": "archive",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "linux/simulated",
}

_SUBRESOURCES: dict[str, tuple[str, tuple[str, ...]]] = {
    "status": ("", ("get", "patch", "update")),
    "scale": ("autoscaling/v1 Scale", ("get", "patch", "update")),
    "finalize": ("", ("update",)),
    "log": ("", ("get",)),
    "exec": ("v1 PodExecOptions", ("create", "get")),
    "attach": ("v1 PodAttachOptions", ("create", "get")),
    "proxy": ("", ("create", "delete", "get", "patch", "update")),
    "eviction": ("policy/v1 Eviction", ("create",)),
    "binding": ("v1 Binding", ("create",)),
    "token": ("authentication.k8s.io/v1 TokenRequest", ("create",)),
    "ephemeralcontainers": ("", ("get", "patch", "update")),
    "resize": ("", ("get", "patch", "update")),
}
_PROXY_KINDS = {"pods": "PodProxyOptions", "nodes": "NodeProxyOptions", "services": "ServiceProxyOptions"}


def _served_as(kind: Kind, sub: str) -> tuple[str, str, str]:
    if sub == "proxy":
        return "", "v1", _PROXY_KINDS[kind.plural]
    where, _, name = _SUBRESOURCES[sub][0].partition(" ")
    if not name:
        return kind.group, kind.version, kind.kind
    group, _, version = where.rpartition("/")
    return group, version, name


def _hash(kind: Kind) -> str:
    digest = hashlib.sha256(f"{kind.group}/{kind.version}/{kind.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _resources(kind: Kind) -> Iterable[Object]:
    top: Object = {
        "name": kind.plural,
        "singularName": kind.singular_name,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short:
        top["shortNames"] = list(kind.short)
    if kind.categories:
        top["categories"] = list(kind.categories)
    if "list" in kind.verbs:
        top["storageVersionHash"] = _hash(kind)
    yield top
    for sub in sorted(kind.subresources):
        group, version, name = _served_as(kind, sub)
        made: Object = {
            "name": f"{kind.plural}/{sub}",
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": name,
            "verbs": list(_SUBRESOURCES[sub][1]),
        }
        if (group, version) != (kind.group, kind.version):
            made |= {"group": group, "version": version}
        yield made


class Discovery:
    """The discovery documents of the kinds served right now."""

    def __init__(self, kinds: KindTable) -> None:
        self._kinds = kinds

    def _in(self, group: str) -> dict[str, list[Kind]]:
        versions: dict[str, list[Kind]] = {}
        for kind in self._kinds:
            if kind.group == group:
                versions.setdefault(kind.version, []).append(kind)
        return versions

    def _groups(self) -> list[str]:
        return list(dict.fromkeys(kind.group for kind in self._kinds if kind.group))

    def has(self, group: str, version: str) -> bool:
        """Whether anything is served there."""
        return version in self._in(group)

    def resources(self, group: str, version: str) -> Object | None:
        """/api/v1 or /apis/GROUP/VERSION."""
        kinds = self._in(group).get(version)
        if kinds is None:
            return None
        listed = [made for kind in sorted(kinds, key=lambda found: found.plural) for made in _resources(kind)]
        head: Object = {"kind": "APIResourceList"}
        if group:
            head["apiVersion"] = "v1"
        return {**head, "groupVersion": f"{group}/{version}" if group else version, "resources": listed}

    def group(self, name: str) -> Object | None:
        """/apis/GROUP."""
        versions = self._in(name)
        if not versions or not name:
            return None
        return {"kind": "APIGroup", "apiVersion": "v1", **self._group(name)}

    def _group(self, name: str) -> Object:
        offered = [{"groupVersion": f"{name}/{version}", "version": version} for version in self._in(name)]
        return {"name": name, "versions": offered, "preferredVersion": offered[0]}

    def groups(self) -> Object:
        """/apis."""
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [self._group(name) for name in self._groups()]}

    @staticmethod
    def versions(server: str) -> Object:
        """/api."""
        address = {"clientCIDR": "0.0.0.0/0", "serverAddress": server}
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]}

    def aggregated(self, *, core: bool) -> Object:
        """/api or /apis for clients that ask for everything at once."""
        names = [""] if core else self._groups()
        items = [self._aggregated_group(name) for name in names]
        return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}

    def _aggregated_group(self, group: str) -> Object:
        versions = [
            {
                "version": version,
                "resources": [_aggregated(kind) for kind in sorted(kinds, key=lambda found: found.plural)],
                "freshness": "Current",
            }
            for version, kinds in self._in(group).items()
        ]
        metadata = {"name": group} if group else {}
        return {"metadata": metadata, "versions": versions}

    def paths(self) -> Object:
        """/."""
        listed = ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/readyz", "/openapi/v2", "/openapi/v3", "/version"]
        for group in self._groups():
            listed.append(f"/apis/{group}")
            listed += [f"/apis/{group}/{version}" for version in self._in(group)]
        return {"paths": sorted(listed)}


def _aggregated(kind: Kind) -> Object:
    made: dict[str, Any] = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular_name,
        "verbs": list(kind.verbs),
    }
    if kind.short:
        made["shortNames"] = list(kind.short)
    if kind.categories:
        made["categories"] = list(kind.categories)
    if kind.subresources:
        made["subresources"] = [_aggregated_sub(kind, sub) for sub in sorted(kind.subresources)]
    return made


def _aggregated_sub(kind: Kind, sub: str) -> Object:
    group, version, name = _served_as(kind, sub)
    response = {"group": group, "version": version, "kind": name}
    return {"subresource": sub, "responseKind": response, "verbs": list(_SUBRESOURCES[sub][1])}
