"""ReplicaSets: as many pods as asked for.

Owns which pods go first when there are too many; must not know Deployments.
"""

from __future__ import annotations

from simcluster.api.port import ApiError, Client, Object
from simcluster.controllers import fields
from simcluster.controllers.events import EventRecorder
from simcluster.controllers.informers import Informers
from simcluster.controllers.workloads.children import Children, Key, PodHands, pod_of, write_status
from simcluster.controllers.workqueue import WorkQueue
from simcluster.timing import Timing

RESOURCE = "replicasets.apps"


class ReplicaSetController:
    """Looks at a ReplicaSet when it or one of its pods changes."""

    def __init__(self, client: Client, timing: Timing, informers: Informers, recorder: EventRecorder) -> None:
        self._client = client
        self._sets = informers.of(RESOURCE)
        self._settle_s = timing.s(0.05)
        self._queue: WorkQueue[Key] = WorkQueue(
            self._sync, title="replicaset", retry_first_s=timing.s(1.0), retry_max_s=timing.s(60.0)
        )
        self._pods = Children(informers, "pods", "ReplicaSet", self._wake)
        self._hands = PodHands(client, recorder, "replicaset-controller", self._pods)
        self._sets.on_change(self._on_set)

    def start(self) -> None:
        """Start after the informers."""
        self._queue.start()

    async def stop(self) -> None:
        """Stop."""
        await self._queue.stop()

    def _wake(self, key: Key) -> None:
        self._queue.add_after(key, self._settle_s)

    def _on_set(self, _old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._queue.add(fields.key(new))

    async def _sync(self, key: Key) -> None:
        owner = self._sets.items.get(key)
        if owner is None or fields.deleting(owner):
            return
        wanted = int(fields.spec(owner).get("replicas", 1))
        alive = [pod for pod in self._pods.of(owner) if not fields.deleting(pod) and not fields.terminal(pod)]
        refusal: ApiError | None = None
        try:
            for _ in range(wanted - len(alive)):
                await self._hands.create(owner, pod_of(owner, {}))
        except ApiError as error:
            refusal = error
        # The least advanced go first.
        doomed = sorted(alive, key=_progress)[: max(0, len(alive) - wanted)]
        for pod in doomed:
            await self._hands.delete(owner, pod)
        await self._report(owner, doomed)
        if refusal is not None:
            raise refusal

    async def _report(self, owner: Object, doomed: list[Object]) -> None:
        gone = {fields.uid(pod) for pod in doomed}
        pods = [
            pod
            for pod in self._pods.of(owner)
            if not fields.deleting(pod) and not fields.terminal(pod) and fields.uid(pod) not in gone
        ]
        ready = sum(map(fields.ready, pods))
        status: Object = {"replicas": len(pods), "observedGeneration": fields.meta(owner).get("generation", 1)}
        optional = {"fullyLabeledReplicas": len(pods), "readyReplicas": ready, "availableReplicas": ready}
        status.update({name: value for name, value in optional.items() if value})
        await write_status(self._client, RESOURCE, self._sets.items.get(fields.key(owner), owner), status)


def _progress(pod: Object) -> tuple[bool, bool, bool]:
    return bool(fields.node_of(pod)), fields.phase(pod) == "Running", fields.ready(pod)
