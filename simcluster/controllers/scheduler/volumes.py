"""What a pod's claims mean for where it can run, and the reservation of claims that wait for their first consumer.

Owns the look-up of claims and volumes for the scheduler; binding a claim is the volume binder's work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from simcluster.api.port import Client, Object
from simcluster.controllers import fields
from simcluster.controllers.informers import Informers
from simcluster.controllers.matching import selector_matches
from simcluster.controllers.scheduler.podinfo import NodeInfo, PodInfo
from simcluster.controllers.volumes import matching
from simcluster.controllers.volumes.binder import CLAIMS, CLASSES, VOLUMES


class PodVolumes:
    """Reads claims, volumes and classes from the shared caches."""

    def __init__(self, client: Client, informers: Informers, changed: Callable[[], None]) -> None:
        self._client = client
        self._claims = informers.of(CLAIMS)
        self._volumes = informers.of(VOLUMES)
        self._classes = informers.of(CLASSES)
        self._waiters: set[asyncio.Event] = set()
        self._changed = changed
        self._claims.on_change(self._on_change)
        self._volumes.on_change(self._on_change)

    def _on_change(self, _old: Object | None, _new: Object | None) -> None:
        for waiter in self._waiters:
            waiter.set()
        self._changed()

    def obstacle(self, pod: PodInfo) -> str | None:
        """Why no node at all can take the pod: a claim that is absent, or not bound where it must be already."""
        for name in _claim_names(pod):
            claim = self._claims.items.get((pod.namespace, name))
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if fields.deleting(claim):
                return f'persistentvolumeclaim "{name}" is being deleted'
            if not matching.bound(claim) and not self._waits(claim):
                return "pod has unbound immediate PersistentVolumeClaims"
        return None

    def refusal(self, pod: PodInfo, node: NodeInfo) -> str | None:
        """Why this node cannot take the pod: a bound volume lies elsewhere."""
        for name in _claim_names(pod):
            claim = self._claims.items.get((pod.namespace, name))
            volume = self._volumes.items.get(("", fields.spec(claim).get("volumeName") or "")) if claim else None
            if volume is None:
                continue
            required = (fields.spec(volume).get("nodeAffinity") or {}).get("required")
            if required is not None and not selector_matches(required, node.raw):
                return "node(s) didn't match PersistentVolume's node affinity"
        return None

    def unbound(self, pod: PodInfo) -> list[str]:
        """Claims that get their volume only once a node is chosen."""
        found = []
        for name in _claim_names(pod):
            claim = self._claims.items.get((pod.namespace, name))
            if claim is not None and not matching.bound(claim):
                found.append(name)
        return found

    async def reserve(self, pod: PodInfo, node: str, patience_s: float) -> bool:
        """Tell the binder the chosen node and wait for the volumes; False where they do not come in time."""
        for name in self.unbound(pod):
            body = {"metadata": {"annotations": {matching.SELECTED_NODE: node}}}
            await self._client.patch(CLAIMS, name, body, pod.namespace)
        waiter = asyncio.Event()
        self._waiters.add(waiter)
        try:
            async with asyncio.timeout(patience_s):
                while self.unbound(pod):
                    waiter.clear()
                    await waiter.wait()
        except TimeoutError:
            return False
        finally:
            self._waiters.discard(waiter)
        return True

    def _waits(self, claim: Object) -> bool:
        storage_class = matching.class_of(claim, self._classes.items.values())
        return storage_class is not None and storage_class.get("volumeBindingMode") == matching.WAIT


def _claim_names(pod: PodInfo) -> list[str]:
    volumes = pod.spec.get("volumes") or ()
    return [volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume]
