"""Watches over nodes: silence makes them Unknown, conditions and cordons become taints.

Owns node conditions of silent nodes and the taints that Kubernetes itself sets; must not know what a taint does.
"""

from __future__ import annotations

import asyncio
import logging

from simcluster.api.port import ApiError, Client, Object
from simcluster.controllers import clock, fields
from simcluster.controllers.events import EventRecorder
from simcluster.controllers.informers import Informers
from simcluster.controllers.podsbynode import PodsByNode
from simcluster.controllers.requests import pod_condition, set_pod_status
from simcluster.controllers.workqueue import WorkQueue
from simcluster.timing import Timing

log = logging.getLogger(__name__)
LEASES = "leases.coordination.k8s.io"
LEASE_NAMESPACE = "kube-node-lease"
COMPONENT = "node-controller"
UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"
CORDONED = "node.kubernetes.io/unschedulable"
PRESSURE = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
HEARTBEATS = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
MANAGED = {UNREACHABLE, NOT_READY, CORDONED, *PRESSURE.values()}


class NodeLifecycle:
    """Judges a node by its lease. A node that never had one has no kubelet that could fall silent: it is left alone."""

    def __init__(self, client: Client, timing: Timing, informers: Informers, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder
        self._grace_s = timing.node_grace_s
        self._tick_s = timing.s(1.0)
        self._lag_s = timing.s(0.2)
        self._nodes = informers.of("nodes")
        self._pods = PodsByNode(informers)
        self._heard: dict[str, float] = {}
        self._taints: WorkQueue[str] = WorkQueue(
            self._sync_taints, title="node-taints", retry_first_s=timing.s(0.1), retry_max_s=timing.s(10.0)
        )
        self._task: asyncio.Task[None] | None = None
        self._nodes.on_change(self._on_node)
        informers.of(LEASES).on_change(self._on_lease)

    def start(self) -> None:
        """Start after the informers."""
        self._taints.start()
        self._task = asyncio.create_task(self._run(), name="node-lifecycle")

    async def stop(self) -> None:
        """Stop watching over nodes."""
        await self._taints.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _on_lease(self, _old: Object | None, new: Object | None) -> None:
        if new is not None and fields.namespace(new) == LEASE_NAMESPACE:
            self._heard[fields.name(new)] = asyncio.get_running_loop().time()

    def _on_node(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                self._heard.pop(fields.name(old), None)
        elif old is None or _facts(old) != _facts(new):
            # A change is seen by others before its taints follow (26a: the scheduler).
            self._taints.add_after(fields.name(new), 0.0 if old is None else self._lag_s)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(self._tick_s)
            late_s = loop.time() - before - 2 * self._tick_s
            if late_s > 0:
                # This process itself stood still; the kubelets in it could not have spoken.
                self._heard = {name: at + late_s for name, at in self._heard.items()}
            for name, at in list(self._heard.items()):
                if loop.time() - at > self._grace_s:
                    await self._silent(name)

    async def _silent(self, name: str) -> None:
        node = self._nodes.items.get(("", name))
        ready = fields.condition(node, "Ready") if node is not None else None
        if node is None or (ready is not None and ready.get("status") == "Unknown"):
            return
        try:
            await self._client.patch(
                "nodes", name, {"status": {"conditions": _unknown(node)}}, kind="strategic", subresource="status"
            )
            message = f"Node {name} status is now: NodeNotReady"
            self._recorder.record(COMPONENT, node, "Normal", "NodeNotReady", message)
            for pod in list(self._pods.on(name).values()):
                await self._unready(pod)
        except ApiError as error:
            log.info("node %s: %s", name, error.message)

    async def _unready(self, pod: Object) -> None:
        if not fields.ready(pod):
            return
        present = fields.condition(pod, "Ready") or {}
        changed = {**present, **pod_condition("Ready", "False", "", "")}
        del changed["reason"], changed["message"]
        if await set_pod_status(self._client, pod, {"conditions": [changed]}):
            self._recorder.record(COMPONENT, pod, "Warning", "NodeNotReady", "Node is not ready")

    async def _sync_taints(self, name: str) -> None:
        """First the taints that keep new pods away, then those that drive pods out, as two writes (26b)."""
        for effect in ("NoSchedule", "NoExecute"):
            try:
                node = await self._client.get("nodes", name)
                taints = _with_managed(node, effect)
                if taints != (fields.spec(node).get("taints") or []):
                    await self._client.patch("nodes", name, _taint_patch(node, taints))
            except ApiError as error:
                if error.code != 404:
                    raise


def _facts(node: Object) -> tuple[object, ...]:
    spec = fields.spec(node)
    conditions = fields.status(node).get("conditions") or []
    values = tuple((c["type"], c["status"]) for c in conditions)
    return spec.get("unschedulable"), spec.get("taints"), values


def _unknown(node: Object) -> list[Object]:
    present = {c["type"]: c for c in fields.status(node).get("conditions") or []}
    now = clock.stamp()
    unknown = []
    for kind in HEARTBEATS:
        known = present.get(kind, {"type": kind, "lastHeartbeatTime": None})
        changed = {"status": "Unknown", "reason": "NodeStatusUnknown"}
        message = {"message": "Kubelet stopped posting node status.", "lastTransitionTime": now}
        unknown.append({**known, **changed, **message})
    return unknown


def _wanted(node: Object, effect: str) -> list[str]:
    ready = (fields.condition(node, "Ready") or {}).get("status", "False")
    keys = [] if ready == "True" else [UNREACHABLE if ready == "Unknown" else NOT_READY]
    if effect == "NoSchedule":
        keys += [key for kind, key in PRESSURE.items() if fields.condition_true(node, kind)]
        if fields.spec(node).get("unschedulable"):
            keys.append(CORDONED)
    return keys


def _with_managed(node: Object, effect: str) -> list[Object]:
    present: list[Object] = fields.spec(node).get("taints") or []
    wanted = _wanted(node, effect)
    kept = [t for t in present if t["key"] not in MANAGED or t["effect"] != effect or t["key"] in wanted]
    there = {t["key"] for t in kept if t["effect"] == effect}
    return kept + [{"key": k, "effect": effect, "timeAdded": clock.stamp()} for k in wanted if k not in there]


def _taint_patch(node: Object, taints: list[Object]) -> Object:
    # With the version that was read: a cordon or an operator's taint in between must not be lost.
    version = fields.meta(node)["resourceVersion"]
    return {"metadata": {"resourceVersion": version}, "spec": {"taints": taints or None}}
