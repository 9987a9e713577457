"""Binds claims to volumes, makes volumes for the simulated storage classes, and reclaims them.

Owns the two-sided binding and its events; which volume fits is decided beside it, where data lies is a node's matter.
"""

from __future__ import annotations

from simcluster.api.port import ApiError, Client, Object
from simcluster.controllers import fields
from simcluster.controllers.events import EventRecorder
from simcluster.controllers.informers import Informers
from simcluster.controllers.quantity import amount
from simcluster.controllers.requests import delete_if_there
from simcluster.controllers.volumes import matching
from simcluster.controllers.workqueue import WorkQueue
from simcluster.timing import Timing

CLAIMS = "persistentvolumeclaims"
VOLUMES = "persistentvolumes"
CLASSES = "storageclasses.storage.k8s.io"
COMPONENT = "persistentvolume-controller"
Key = tuple[str, str]


class VolumeBinder:
    """One queue for claims, one for volumes whose claim went; the storage classes are made at the start."""

    def __init__(self, client: Client, timing: Timing, informers: Informers, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder
        self._claims = informers.of(CLAIMS)
        self._volumes = informers.of(VOLUMES)
        self._classes = informers.of(CLASSES)
        self._made: dict[str, Object] = {}
        self._provision_s = timing.s(0.3)
        first_s, max_s = timing.s(0.5), timing.s(15.0)
        self._queue: WorkQueue[Key] = WorkQueue(self._sync, title="claims", retry_first_s=first_s, retry_max_s=max_s)
        self._released: WorkQueue[str] = WorkQueue(
            self._reclaim, title="volumes", retry_first_s=first_s, retry_max_s=max_s
        )
        self._founding: WorkQueue[int] = WorkQueue(
            self._found_class, title="storageclasses", retry_first_s=first_s, retry_max_s=max_s
        )
        self._claims.on_change(self._on_claim)
        self._volumes.on_change(self._on_volume)
        self._classes.on_change(self._on_class)

    def start(self) -> None:
        """Start after the informers."""
        for number in range(len(matching.STORAGE_CLASSES)):
            self._founding.add(number)
        for queue in (self._queue, self._released, self._founding):
            queue.start()

    async def stop(self) -> None:
        """Stop binding."""
        for queue in (self._queue, self._released, self._founding):
            await queue.stop()

    async def _found_class(self, number: int) -> None:
        try:
            await self._client.create(CLASSES, matching.STORAGE_CLASSES[number])
        except ApiError as error:
            if error.code != 409:
                raise

    def _on_claim(self, old: Object | None, new: Object | None) -> None:
        if new is not None and not matching.bound(new):
            self._queue.add_after(fields.key(new), self._provision_s)
        elif new is None and old is not None and (name := fields.spec(old).get("volumeName")):
            self._released.add(name)

    def _on_volume(self, _old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._wake_pending()

    def _on_class(self, _old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._wake_pending()

    def _wake_pending(self) -> None:
        for key, claim in self._claims.items.items():
            if not matching.bound(claim):
                self._queue.add_after(key, self._provision_s)

    async def _sync(self, key: Key) -> None:
        claim = self._claims.items.get(key)
        if claim is None or fields.deleting(claim) or matching.bound(claim):
            return
        storage_class = matching.class_of(claim, self._classes.items.values())
        if storage_class is not None and fields.spec(claim).get("storageClassName") is None:
            name = {"spec": {"storageClassName": fields.name(storage_class)}}
            claim = await self._client.patch(CLAIMS, key[1], name, key[0])
        volume = self._existing(claim)
        if volume is None:
            volume = await self._provision(claim, storage_class)
        if volume is not None:
            await self._bind(claim, volume)

    def _existing(self, claim: Object) -> Object | None:
        named = fields.spec(claim).get("volumeName")
        fitting = [v for v in self._volumes.items.values() if matching.satisfies(v, claim)]
        if named:
            return next((volume for volume in fitting if fields.name(volume) == named), None)
        # A volume that was made for this claim before all others, then the smallest that is large enough.
        return min(fitting, key=_waste, default=None)

    async def _provision(self, claim: Object, storage_class: Object | None) -> Object | None:
        provisioner = matching.PROVISIONERS.get((storage_class or {}).get("provisioner", ""))
        if storage_class is None or provisioner is None:
            if fields.spec(claim).get("storageClassName"):
                name = fields.spec(claim)["storageClassName"]
                self._tell(claim, "ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found')
            return None
        waits = storage_class.get("volumeBindingMode") == matching.WAIT
        if waits and matching.SELECTED_NODE not in fields.notes(claim):
            message = "waiting for first consumer to be created before binding"
            self._recorder.record(COMPONENT, claim, "Normal", "WaitForFirstConsumer", message)
            return None
        refused = set(fields.spec(claim).get("accessModes") or ()) - provisioner.modes
        if refused:
            message = f"{provisioner.name} cannot provide access mode {', '.join(sorted(refused))}"
            self._tell(claim, "ProvisioningFailed", message)
            return None
        body = matching.provisioned(claim, storage_class, provisioner)
        try:
            made = await self._client.create(VOLUMES, body)
        except ApiError as error:
            if error.code != 409:
                raise
            made = await self._client.get(VOLUMES, fields.name(body))
        message = f"Successfully provisioned volume {fields.name(made)}"
        self._recorder.record(provisioner.name, claim, "Normal", "ProvisioningSucceeded", message)
        return made

    def _tell(self, claim: Object, reason: str, message: str) -> None:
        self._recorder.record(COMPONENT, claim, "Warning", reason, message)

    async def _bind(self, claim: Object, volume: Object) -> None:
        """First the volume's side, then the claim's, as Kubernetes does: a crash between leaves a reserved volume."""
        name = fields.name(volume)
        volume = await self._client.patch(VOLUMES, name, {"spec": {"claimRef": matching.claim_reference(claim)}})
        await self._client.patch(VOLUMES, name, {"status": {"phase": "Bound"}}, subresource="status")
        notes = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
        body = {"metadata": {"annotations": notes}, "spec": {"volumeName": name}}
        key = fields.key(claim)
        await self._client.patch(CLAIMS, key[1], body, key[0])
        spec = fields.spec(volume)
        status = {"phase": "Bound", "accessModes": spec.get("accessModes"), "capacity": spec.get("capacity")}
        await self._client.patch(CLAIMS, key[1], {"status": status}, key[0], subresource="status")

    async def _reclaim(self, name: str) -> None:
        volume = self._volumes.items.get(("", name))
        if volume is None:
            return
        if fields.spec(volume).get("persistentVolumeReclaimPolicy") == "Delete":
            await delete_if_there(self._client, VOLUMES, volume)
        else:
            await self._client.patch(VOLUMES, name, {"status": {"phase": "Released"}}, subresource="status")


def _waste(volume: Object) -> tuple[bool, int]:
    spec = fields.spec(volume)
    return spec.get("claimRef") is None, amount("storage", (spec.get("capacity") or {}).get("storage", "0"))
