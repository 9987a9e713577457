"""Makes volumes larger whose claims ask for more, as the CSI sidecar external-resizer does for a network file system.

Owns the order of its steps: condition Resizing, the volume's capacity, the claim's capacity; and its events. What a
class's driver answers is a parameter of the class. Source: kubernetes-csi/external-resizer, pkg/controller.
"""

from __future__ import annotations

from simcluster.api.port import Client, Object
from simcluster.controllers import clock, fields
from simcluster.controllers.events import EventRecorder
from simcluster.controllers.informers import Informers
from simcluster.controllers.quantity import amount
from simcluster.controllers.volumes import matching
from simcluster.controllers.volumes.binder import CLAIMS, CLASSES, VOLUMES, Key
from simcluster.controllers.workqueue import WorkQueue
from simcluster.timing import Timing

REFUSES = "refuse-expansion"
"""The parameter of a class whose driver takes no request to expand: with this text as its error."""


class VolumeResizer:
    """One queue for claims that ask for more than they have."""

    def __init__(self, client: Client, timing: Timing, informers: Informers, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder
        self._claims = informers.of(CLAIMS)
        self._volumes = informers.of(VOLUMES)
        self._classes = informers.of(CLASSES)
        self._resize_s = timing.s(0.3)
        self._queue: WorkQueue[Key] = WorkQueue(
            self._sync, title="resizing", retry_first_s=timing.s(1.0), retry_max_s=timing.s(300.0)
        )
        self._claims.on_change(self._on_claim)

    def start(self) -> None:
        """Start after the informers."""
        self._queue.start()

    async def stop(self) -> None:
        """Stop resizing."""
        await self._queue.stop()

    def _on_claim(self, old: Object | None, new: Object | None) -> None:
        # Only a claim that asks for more than before: what it was given less at first is the provisioner's choice.
        if old is not None and new is not None and matching.bound(new) and _asked(new) > _asked(old):
            self._queue.add_after(fields.key(new), self._resize_s)

    async def _sync(self, key: Key) -> None:
        claim = self._claims.items.get(key)
        if claim is None or fields.deleting(claim) or not matching.bound(claim):
            return
        volume = self._volumes.items.get(("", fields.spec(claim).get("volumeName", "")))
        storage_class = matching.class_of(claim, self._classes.items.values())
        if volume is None or storage_class is None:
            return
        component, name = f"external-resizer {storage_class.get('provisioner')}", fields.name(volume)
        self._recorder.record(component, claim, "Normal", "Resizing", f"External resizer is resizing volume {name}")
        condition = {"type": "Resizing", "status": "True", "lastTransitionTime": clock.stamp()}
        await self._status(key, {"conditions": [condition]})
        said = (storage_class.get("parameters") or {}).get(REFUSES)
        if said:
            text = f'resize volume "{name}" by resizer "{storage_class.get("provisioner")}" failed: {said}'
            self._recorder.record(component, claim, "Warning", "VolumeResizeFailed", text)
            return
        capacity = {"storage": matching.given(claim, storage_class)}
        await self._client.patch(VOLUMES, name, {"spec": {"capacity": capacity}})
        await self._status(key, {"conditions": None, "capacity": capacity})
        self._recorder.record(component, claim, "Normal", "VolumeResizeSuccessful", "Resize volume succeeded")

    async def _status(self, key: Key, status: Object) -> None:
        await self._client.patch(CLAIMS, key[1], {"status": status}, key[0], subresource="status")


def _asked(claim: Object) -> int:
    return amount("storage", matching.requested(claim))
