"""Removes pods that are bound to nodes which do not exist (any more), or that end on nodes out of service.

Owns the patience with absent nodes; must not know why a node is absent, or who declared it out of service.
"""

from __future__ import annotations

import asyncio

from simcluster.api.port import Client, Object
from simcluster.controllers import fields
from simcluster.controllers.informers import Informers
from simcluster.controllers.podsbynode import PodsByNode
from simcluster.controllers.remediation import out_of_service
from simcluster.controllers.requests import delete_if_there, pod_condition, set_pod_status
from simcluster.controllers.rounds import Rounds
from simcluster.timing import Timing


class PodGarbageCollector:
    """Looks around twice per `pod_gc_s`; a node must have been absent for that long."""

    def __init__(self, client: Client, timing: Timing, informers: Informers) -> None:
        self._client = client
        self._patience_s = timing.pod_gc_s
        self._nodes = informers.of("nodes")
        self._pods = PodsByNode(informers)
        self._absent_since: dict[str, float] = {}
        # A twelfth keeps the removal close to the 44.6 s that were recorded (14).
        self._rounds = Rounds(self._look, timing.pod_gc_s / 12, "pod-gc")

    def start(self) -> None:
        """Start after the informers."""
        self._rounds.start()

    async def stop(self) -> None:
        """Stop looking."""
        await self._rounds.stop()

    async def _look(self) -> None:
        now = asyncio.get_running_loop().time()
        absent = [name for name in self._pods.nodes() if ("", name) not in self._nodes.items]
        self._absent_since = {name: self._absent_since.get(name, now) for name in absent}
        for name, since in self._absent_since.items():
            if now - since >= self._patience_s:
                for pod in list(self._pods.on(name).values()):
                    await self._remove(pod, "node no longer exists")
        for node in list(self._nodes.items.values()):
            if out_of_service(node) and not fields.condition_true(node, "Ready"):
                for pod in list(self._pods.on(fields.name(node)).values()):
                    if fields.meta(pod).get("deletionTimestamp"):
                        await self._remove(pod, "node is out of service")

    async def _remove(self, pod: Object, why: str) -> None:
        if not fields.terminal(pod):
            gone = pod_condition("DisruptionTarget", "True", "DeletionByPodGC", f"PodGC: {why}")
            if not await set_pod_status(self._client, pod, {"phase": "Failed", "conditions": [gone]}):
                return
        await delete_if_there(self._client, "pods", pod, grace_period_s=0)
