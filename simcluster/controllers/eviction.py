"""Drives pods off nodes with NoExecute taints that they do not tolerate (for ever).

Owns the timers of tolerationSeconds (scaled: they are the cluster's, mostly its own defaults of 300 s); must not know
who sets a taint.
"""

from __future__ import annotations

from simcluster.api.port import Client, Object
from simcluster.controllers import fields
from simcluster.controllers.events import EventRecorder
from simcluster.controllers.informers import Informers
from simcluster.controllers.matching import tolerates
from simcluster.controllers.podsbynode import PodsByNode
from simcluster.controllers.requests import delete_if_there, pod_condition, set_pod_status
from simcluster.controllers.workqueue import WorkQueue
from simcluster.timing import Timing

COMPONENT = "taint-eviction-controller"
MESSAGE = "Taint manager: deleting due to NoExecute taint"
Key = tuple[str, str, str]
# Recorded (27): the DaemonSet controller deletes first, the taint manager 17 ms later.
_LAG_S = 0.017


class TaintEviction:
    """One delay a pod, counted from when its node got the taints it has now."""

    def __init__(self, client: Client, timing: Timing, informers: Informers, recorder: EventRecorder) -> None:
        self._client = client
        self._timing = timing
        self._recorder = recorder
        self._nodes = informers.of("nodes")
        self._planned: dict[Key, tuple[Object, ...]] = {}
        self._pod_items = informers.of("pods").items
        self._pods = PodsByNode(informers, self._on_bound)
        self._queue: WorkQueue[Key] = WorkQueue(
            self._evict, title="taint-eviction", retry_first_s=timing.s(0.1), retry_max_s=timing.s(10.0)
        )
        self._nodes.on_change(self._on_node)

    def start(self) -> None:
        """Start after the informers."""
        self._queue.start()

    async def stop(self) -> None:
        """Forget all timers."""
        await self._queue.stop()

    def _on_bound(self, pod: Object) -> None:
        node = self._nodes.items.get(("", fields.node_of(pod)))
        if node is not None:
            self._plan(pod, _driving_out(node))

    def _on_node(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            return
        taints = _driving_out(new)
        if old is None or _driving_out(old) != taints:
            for pod in list(self._pods.on(fields.name(new)).values()):
                self._plan(pod, taints)

    def _plan(self, pod: Object, taints: tuple[Object, ...]) -> None:
        key = (*fields.key(pod), fields.uid(pod))
        if not taints:
            if self._planned.pop(key, None) is not None:
                self._queue.cancel(key)
                message = f"Cancelling deletion of Pod {key[0]}/{key[1]}"
                self._recorder.record(COMPONENT, pod, "Normal", "TaintManagerEviction", message)
            return
        patience_s = _patience_s(pod, taints)
        if patience_s is None:
            self._planned.pop(key, None)
            self._queue.cancel(key)
            return
        if patience_s == 0.0 and key in self._planned:
            del self._planned[key]  # a taint that it does not tolerate at all ends the patience with the others
            self._queue.cancel(key)
        if key not in self._planned:
            self._planned[key] = taints
            self._queue.add_after(key, self._timing.s(max(patience_s, _LAG_S)))

    async def _evict(self, key: Key) -> None:
        if self._planned.pop(key, None) is None:
            return
        pod = self._pod_items.get(key[:2])
        if pod is None or fields.uid(pod) != key[2]:
            return
        message = f"Marking for deletion Pod {key[0]}/{key[1]}"
        self._recorder.record(COMPONENT, pod, "Normal", "TaintManagerEviction", message)
        if not fields.terminal(pod):
            target = pod_condition("DisruptionTarget", "True", "DeletionByTaintManager", MESSAGE)
            await set_pod_status(self._client, pod, {"conditions": [target]})
        await delete_if_there(self._client, "pods", pod)


def _driving_out(node: Object) -> tuple[Object, ...]:
    return tuple(taint for taint in fields.spec(node).get("taints") or () if taint["effect"] == "NoExecute")


def _patience_s(pod: Object, taints: tuple[Object, ...]) -> float | None:
    """Seconds that the pod may stay; None: for ever."""
    shortest: float | None = None
    tolerations = fields.spec(pod).get("tolerations") or ()
    for taint in taints:
        covering = [each for each in tolerations if tolerates(each, taint)]
        if not covering:
            return 0.0
        limits = [float(each["tolerationSeconds"]) for each in covering if each.get("tolerationSeconds") is not None]
        if limits:
            shortest = min([*limits, *([] if shortest is None else [shortest])])
    return None if shortest is None else max(0.0, shortest)
