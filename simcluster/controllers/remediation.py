"""A stand-in for what a site runs beside Kubernetes: somebody declares nodes that stay silent out of service.

Kubernetes itself never does: it cannot know whether such a node is dead. Only where the topology asks for it. Owns the
patience and its own taints; must not know what a taint does. It takes them off again where the node is back.
"""

from __future__ import annotations

import asyncio

from simcluster.api.port import Client, Object
from simcluster.controllers import fields
from simcluster.controllers.informers import Informers
from simcluster.controllers.rounds import Rounds
from simcluster.timing import Timing

OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
"""The taint by which somebody says so."""


class Remediation:
    """Looks once a (scaled) second; a node is given up `after_s` (a real cluster's) after it became unknown."""

    def __init__(self, client: Client, timing: Timing, informers: Informers, after_s: float) -> None:
        self._client = client
        self._after_s = timing.s(after_s)
        self._nodes = informers.of("nodes")
        self._silent_since: dict[str, float] = {}
        self._declared: set[str] = set()
        self._rounds = Rounds(self._look, timing.s(1.0), "remediation")

    def start(self) -> None:
        """Start after the informers."""
        self._rounds.start()

    async def stop(self) -> None:
        """Stop looking."""
        await self._rounds.stop()

    async def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        silent = {fields.name(node) for node in self._nodes.items.values() if _unknown(node)}
        self._silent_since = {name: self._silent_since.get(name, now) for name in silent}
        due = {name for name, since in self._silent_since.items() if now - since >= self._after_s}
        for name in due - self._declared:
            await self._declare(name, gone=True)
            self._declared.add(name)
        for name in self._declared - silent:
            if ("", name) in self._nodes.items:
                await self._declare(name, gone=False)
            self._declared.discard(name)

    async def _declare(self, name: str, *, gone: bool) -> None:
        node = await self._client.get("nodes", name)
        kept = others(fields.spec(node).get("taints"))
        taints = [*kept, OUT_OF_SERVICE] if gone else kept
        version = fields.meta(node)["resourceVersion"]
        await self._client.patch(
            "nodes", name, {"metadata": {"resourceVersion": version}, "spec": {"taints": taints or None}}
        )


def out_of_service(node: Object) -> bool:
    """Whether somebody has declared so."""
    taints = fields.spec(node).get("taints") or []
    return len(others(taints)) < len(taints)


def others(taints: list[Object] | None) -> list[Object]:
    """A node's taints without this one."""
    return [taint for taint in taints or [] if taint["key"] != OUT_OF_SERVICE["key"]]


def _unknown(node: Object) -> bool:
    return (fields.condition(node, "Ready") or {}).get("status") == "Unknown"
