"""A container's environment, command and arguments from its spec.

Owns the order of env sources and the expansion of references. It must not know processes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from simcluster.api.port import Client, Object
from simcluster.node.expand import expand
from simcluster.node.sources import PodFacts, SourceMissingError, field, key_of, keyed_object, resource

_ENV_NAME = re.compile(r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")


async def environment(client: Client, facts: PodFacts, container: Object, given: Mapping[str, str]) -> dict[str, str]:
    """The container's variables: `given` by the node first, then envFrom, then env, later ones winning.

    Raises `SourceMissingError` (waiting reason CreateContainerConfigError) where a source is absent.
    """
    result = dict(given)
    for source in container.get("envFrom") or []:
        result.update(await _from_object(client, facts, source))
    for entry in container.get("env") or []:
        value = await _value(client, facts, container, entry, result)
        if value is not None:
            result[entry["name"]] = value
    return result


async def _from_object(client: Client, facts: PodFacts, source: Mapping[str, Any]) -> dict[str, str]:
    kind = "configmap" if "configMapRef" in source else "secret"
    reference = source.get("configMapRef") or source.get("secretRef") or {}
    data = await keyed_object(client, kind, facts.pod["metadata"]["namespace"], reference.get("name", ""))
    if data is None:
        if reference.get("optional"):
            return {}
        raise SourceMissingError(f'{kind} "{reference.get("name", "")}" not found')
    prefix = source.get("prefix", "")
    return {
        prefix + key: value.decode(errors="replace") for key, value in data.items() if _ENV_NAME.match(prefix + key)
    }


async def _value(
    client: Client, facts: PodFacts, container: Object, entry: Mapping[str, Any], known: Mapping[str, str]
) -> str | None:
    origin = entry.get("valueFrom")
    if not origin:
        return expand(str(entry.get("value", "")), known)
    if "fieldRef" in origin:
        return field(facts, origin["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in origin:
        return resource(facts, origin["resourceFieldRef"], container)
    namespace = facts.pod["metadata"]["namespace"]
    if "configMapKeyRef" in origin:
        found = await key_of(client, "configmap", namespace, origin["configMapKeyRef"])
    else:
        found = await key_of(client, "secret", namespace, origin.get("secretKeyRef") or {"key": ""})
    return None if found is None else found.decode(errors="replace")


def command_line(container: Object, variables: Mapping[str, str]) -> list[str]:
    """command + args with references expanded; the simulator's images have no entry point and the command `python3`."""
    line = [*(container.get("command") or []), *(container.get("args") or [])] or ["python3"]
    return [expand(str(word), variables) for word in line]
