"""A stand-in for what a site runs beside Kubernetes: somebody declares nodes that stay silent out of service.

Kubernetes itself never does: it cannot know whether such a node is dead. Only where the topology asks for it. Owns the
patience and its own taints; must not know what a taint does. It takes them off again where the node is back.
"""

from __future__ import annotations

import asyncio
import logging

from simcluster.api.port import ApiError, Client, Object
from simcluster.controllers import fields
from simcluster.controllers.informers import Informers
from simcluster.timing import Timing

log = logging.getLogger(__name__)
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_TAINT = {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"}


class Remediation:
    """Looks once a (scaled) second; a node is given up `after_s` (a real cluster's) after it became unknown."""

    def __init__(self, client: Client, timing: Timing, informers: Informers, after_s: float) -> None:
        self._client = client
        self._after_s = timing.s(after_s)
        self._tick_s = timing.s(1.0)
        self._nodes = informers.of("nodes")
        self._silent_since: dict[str, float] = {}
        self._declared: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start after the informers."""
        self._task = asyncio.create_task(self._run(), name="remediation")

    async def stop(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._tick_s)
            try:
                await self._look()
            except ApiError as error:
                log.info("remediation: %s", error.message)

    async def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        silent = {fields.name(node): node for node in self._nodes.items.values() if _unknown(node)}
        self._silent_since = {name: self._silent_since.get(name, now) for name in silent}
        due = {name for name, since in self._silent_since.items() if now - since >= self._after_s}
        for name in due - self._declared:
            await self._declare(name, gone=True)
            self._declared.add(name)
        for name in self._declared - silent.keys():
            if ("", name) in self._nodes.items:
                await self._declare(name, gone=False)
            self._declared.discard(name)

    async def _declare(self, name: str, *, gone: bool) -> None:
        node = await self._client.get("nodes", name)
        kept = [taint for taint in fields.spec(node).get("taints") or [] if taint["key"] != OUT_OF_SERVICE]
        taints = [*kept, _TAINT] if gone else kept
        version = fields.meta(node)["resourceVersion"]
        await self._client.patch(
            "nodes", name, {"metadata": {"resourceVersion": version}, "spec": {"taints": taints or None}}
        )


def out_of_service(node: Object) -> bool:
    """Whether somebody has declared so."""
    return any(taint["key"] == OUT_OF_SERVICE for taint in fields.spec(node).get("taints") or ())


def _unknown(node: Object) -> bool:
    return (fields.condition(node, "Ready") or {}).get("status") == "Unknown"
