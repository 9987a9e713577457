"""Fields, resources, ConfigMaps and Secrets as text: what env variables and volumes are filled from.

Owns the reading of downward-API paths and of keyed objects, with a real kubelet's error words. It must not know where
the text goes.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simcluster.api.port import ApiError, Client, Object
from simcluster.api.quantities import parse

_SUBSCRIPT = re.compile(r"^(metadata\.(?:labels|annotations))\['(.+)'\]$")


class SourceMissingError(Exception):
    """A source that a container or volume needs is not there (yet); the text is the kubelet's."""


@dataclass(frozen=True)
class PodFacts:
    """What only the node knows about a pod."""

    pod: Object
    node: str
    host_ip: str
    pod_ip: str
    allocatable: Mapping[str, str]


def field(facts: PodFacts, path: str) -> str:
    """A downward-API field as text; `SourceMissingError` where the path is not supported."""
    metadata: dict[str, Any] = facts.pod["metadata"]
    match = _SUBSCRIPT.match(path)
    if match:
        mapping: dict[str, str] = metadata.get(match.group(1).removeprefix("metadata."), {})
        return str(mapping.get(match.group(2), ""))
    simple = {
        "metadata.name": metadata.get("name", ""),
        "metadata.namespace": metadata.get("namespace", ""),
        "metadata.uid": metadata.get("uid", ""),
        "spec.nodeName": facts.node,
        "spec.serviceAccountName": facts.pod["spec"].get("serviceAccountName", "default"),
        "status.hostIP": facts.host_ip,
        "status.hostIPs": facts.host_ip,
        "status.podIP": facts.pod_ip,
        "status.podIPs": facts.pod_ip,
    }
    if path in simple:
        return str(simple[path])
    if path in ("metadata.labels", "metadata.annotations"):
        pairs: dict[str, str] = metadata.get(path.removeprefix("metadata."), {})
        return "\n".join(f"{key}={_quoted(value)}" for key, value in sorted(pairs.items()))
    raise SourceMissingError(f"unsupported fieldPath: {path}")


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def resource(facts: PodFacts, reference: Mapping[str, Any], container: Object) -> str:
    """A container's request or limit as text, in units of the divisor, rounded up; else the node's allocatable."""
    name = reference.get("containerName")
    for candidate in [*facts.pod["spec"].get("containers", []), *facts.pod["spec"].get("initContainers", [])]:
        if name and candidate["name"] == name:
            container = candidate
    kind, _, what = str(reference["resource"]).partition(".")
    resources: dict[str, dict[str, str]] = container.get("resources") or {}
    given = (resources.get(kind) or {}).get(what)
    if given is None and kind == "requests":
        given = (resources.get("limits") or {}).get(what, "0")
    value = parse(given if given is not None else facts.allocatable.get(what, "0"))
    divisor = parse(reference.get("divisor") or "1") or parse("1")
    return str(int(-(-value // divisor)))


async def keyed_object(client: Client, kind: str, namespace: str, name: str) -> dict[str, bytes] | None:
    """The data of a ConfigMap or Secret (`kind` "configmap" or "secret") by key; None where it is absent."""
    try:
        found = await client.get(f"{kind}s", name, namespace)
    except ApiError as error:
        if error.code == 404:
            return None
        raise
    data: dict[str, bytes] = {}
    for key, value in (found.get("data") or {}).items():
        data[key] = base64.b64decode(value) if kind == "secret" else str(value).encode()
    for key, value in (found.get("binaryData") or {}).items():
        data[key] = base64.b64decode(value)
    return data


async def key_of(client: Client, kind: str, namespace: str, reference: Mapping[str, Any]) -> bytes | None:
    """One key of a ConfigMap or Secret; None where it is absent and optional, else `SourceMissingError`."""
    name, key = str(reference.get("name", "")), str(reference["key"])
    data = await keyed_object(client, kind, namespace, name)
    if data is None:
        if reference.get("optional"):
            return None
        raise SourceMissingError(f'{kind} "{name}" not found')
    if key not in data:
        if reference.get("optional"):
            return None
        shown = "ConfigMap" if kind == "configmap" else "Secret"
        raise SourceMissingError(f"couldn't find key {key} in {shown} {namespace}/{name}")
    return data[key]
