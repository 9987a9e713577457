"""Deployments: one ReplicaSet a template, and the roll from the old ones to the new one.

Owns the split of replicas between ReplicaSets; must not know pods.
"""

from __future__ import annotations

import math

from simcluster.api.port import ApiError, Client, Object
from simcluster.controllers import clock, fields
from simcluster.controllers.events import EventRecorder
from simcluster.controllers.informers import Informers
from simcluster.controllers.requests import delete_if_there
from simcluster.controllers.workloads.children import (
    Children,
    Key,
    owner_reference,
    template_hash,
    write_status,
)
from simcluster.controllers.workqueue import WorkQueue
from simcluster.timing import Timing

RESOURCE = "deployments.apps"
SETS = "replicasets.apps"
HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
COMPONENT = "deployment-controller"


class DeploymentController:
    """Looks at a Deployment when it or one of its ReplicaSets changes."""

    def __init__(self, client: Client, timing: Timing, informers: Informers, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder
        self._deployments = informers.of(RESOURCE)
        self._queue: WorkQueue[Key] = WorkQueue(
            self._sync, title="deployment", retry_first_s=timing.s(0.2), retry_max_s=timing.s(60.0)
        )
        self._settle_s = timing.s(0.05)
        self._sets = Children(informers, SETS, "Deployment", self._wake)
        self._deployments.on_change(self._on_deployment)

    def start(self) -> None:
        """Start after the informers."""
        self._queue.start()

    async def stop(self) -> None:
        """Stop."""
        await self._queue.stop()

    def _wake(self, key: Key) -> None:
        self._queue.add_after(key, self._settle_s)

    def _on_deployment(self, _old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._queue.add(fields.key(new))

    async def _sync(self, key: Key) -> None:
        owner = self._deployments.items.get(key)
        if owner is None or fields.deleting(owner):
            return
        sets = [each for each in self._sets.of(owner) if not fields.deleting(each)]
        name = f"{fields.name(owner)}-{template_hash(fields.spec(owner)['template'])}"
        current = next((each for each in sets if fields.name(each) == name), None)
        old = [each for each in sets if fields.name(each) != name]
        if current is None and not fields.spec(owner).get("paused"):
            current = await self._create(owner, name, old)
        if current is not None and not fields.spec(owner).get("paused"):
            current, old = await self._roll(owner, current, old)
            await self._forget(owner, old)
        await self._report(owner, current, [*old, *([current] if current else [])])

    async def _create(self, owner: Object, name: str, old: list[Object]) -> Object:
        spec = fields.spec(owner)
        tie = {HASH: name.rsplit("-", 1)[1]}
        template = spec["template"]
        meta = template.get("metadata") or {}
        labels = {**(meta.get("labels") or {}), **tie}
        selector = {**spec["selector"], "matchLabels": {**(spec["selector"].get("matchLabels") or {}), **tie}}
        revision = 1 + max((int(fields.notes(each).get(REVISION, "0")) for each in old), default=0)
        body: Object = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": name,
                "labels": labels,
                "annotations": {REVISION: str(revision)},
                "ownerReferences": [owner_reference(owner)],
            },
            "spec": {
                "replicas": _surge_room(owner, old),
                "selector": selector,
                "template": {**template, "metadata": {**meta, "labels": labels}},
            },
        }
        try:
            made = await self._client.create(SETS, body, fields.namespace(owner))
        except ApiError as error:
            if error.code != 409:
                raise
            made = await self._client.get(SETS, name, fields.namespace(owner))
        self._sets.put(made)
        self._tell_scale(owner, made, 0, _replicas(made))
        return made

    async def _roll(self, owner: Object, current: Object, old: list[Object]) -> tuple[Object, list[Object]]:
        wanted = _replicas(owner)
        room = _surge_room(owner, old)
        if _replicas(current) != room:
            current = await self._scale(owner, current, room)
        available = sum(_available(each) for each in [current, *old])
        spare = available - (wanted - _limits(owner)[1])
        shrunk: list[Object] = []
        for each in old:
            # What never became ready goes first and costs nothing.
            broken = max(0, _replicas(each) - _available(each))
            cut = min(_replicas(each), broken + max(0, spare))
            spare -= max(0, cut - broken)
            shrunk.append(await self._scale(owner, each, _replicas(each) - cut) if cut else each)
        return current, shrunk

    async def _scale(self, owner: Object, replica_set: Object, replicas: int) -> Object:
        before = _replicas(replica_set)
        body = {"spec": {"replicas": replicas}}
        made = await self._client.patch(SETS, fields.name(replica_set), body, fields.namespace(owner))
        self._sets.put(made)
        self._tell_scale(owner, made, before, replicas)
        return made

    def _tell_scale(self, owner: Object, replica_set: Object, before: int, after: int) -> None:
        direction = "up" if after > before else "down"
        message = f"Scaled {direction} replica set {fields.name(replica_set)} from {before} to {after}"
        self._recorder.record(COMPONENT, owner, "Normal", "ScalingReplicaSet", message)

    async def _forget(self, owner: Object, old: list[Object]) -> None:
        limit = int(fields.spec(owner).get("revisionHistoryLimit", 10))
        idle = [each for each in old if not _replicas(each) and not fields.status(each).get("replicas")]
        for each in idle[: max(0, len(idle) - limit)]:
            await delete_if_there(self._client, SETS, each)

    async def _report(self, owner: Object, current: Object | None, sets: list[Object]) -> None:
        wanted = _replicas(owner)
        total = sum(int(fields.status(each).get("replicas", 0)) for each in sets)
        available = sum(map(_available, sets))
        updated = int(fields.status(current).get("replicas", 0)) if current is not None else 0
        enough = available >= wanted - _limits(owner)[1]
        done = updated == wanted == total == available
        status: Object = {
            "observedGeneration": fields.meta(owner).get("generation", 1),
            "conditions": [_progressing(owner, done=done), _availability(owner, enough=enough)],
        }
        optional = {
            "replicas": total,
            "updatedReplicas": updated,
            "readyReplicas": available,
            "availableReplicas": available,
            "unavailableReplicas": max(0, max(total, wanted) - available),
        }
        status.update({name: value for name, value in optional.items() if value})
        await write_status(self._client, RESOURCE, self._deployments.items.get(fields.key(owner), owner), status)


def _replicas(obj: Object) -> int:
    return int(fields.spec(obj).get("replicas", 1))


def _available(replica_set: Object) -> int:
    """Available pods that will stay: a status that trails a cut still counts the pods that are about to go."""
    return min(int(fields.status(replica_set).get("availableReplicas", 0)), _replicas(replica_set))


def _limits(owner: Object) -> tuple[int, int]:
    """(pods above the wanted number, pods that may be missing) during a roll."""
    strategy = fields.spec(owner).get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return 0, _replicas(owner)
    rolling = strategy.get("rollingUpdate") or {}
    surge = _share(rolling.get("maxSurge", "25%"), _replicas(owner), up=True)
    missing = _share(rolling.get("maxUnavailable", "25%"), _replicas(owner), up=False)
    return surge, missing if surge or missing else 1


def _share(value: int | str, of: int, *, up: bool) -> int:
    if isinstance(value, int):
        return value
    exact = int(value.rstrip("%")) * of / 100
    return math.ceil(exact) if up else math.floor(exact)


def _surge_room(owner: Object, old: list[Object]) -> int:
    """Replicas that the new ReplicaSet may have while the old ones still have theirs."""
    wanted = _replicas(owner)
    others = sum(max(_replicas(each), int(fields.status(each).get("replicas", 0))) for each in old)
    return max(0, min(wanted, wanted + _limits(owner)[0] - others))


def _condition(owner: Object, kind: str, value: str, reason: str, message: str) -> Object:
    now = clock.stamp()
    before = fields.condition(owner, kind)
    made = {"type": kind, "status": value, "reason": reason, "message": message}
    if before is not None and all(before.get(name) == said for name, said in made.items()):
        return before
    began = before["lastTransitionTime"] if before is not None and before["status"] == value else now
    return {**made, "lastUpdateTime": now, "lastTransitionTime": began}


def _progressing(owner: Object, *, done: bool) -> Object:
    name = f"{fields.name(owner)}-{template_hash(fields.spec(owner)['template'])}"
    if done:
        text = f'ReplicaSet "{name}" has successfully progressed.'
        return _condition(owner, "Progressing", "True", "NewReplicaSetAvailable", text)
    return _condition(owner, "Progressing", "True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')


def _availability(owner: Object, *, enough: bool) -> Object:
    if enough:
        text = "Deployment has minimum availability."
        return _condition(owner, "Available", "True", "MinimumReplicasAvailable", text)
    text = "Deployment does not have minimum availability."
    return _condition(owner, "Available", "False", "MinimumReplicasUnavailable", text)
