"""DaemonSets: one pod on every node that can take it.

Owns which nodes are wanted and the rolling of a changed template; the scheduler still binds the pods.
"""

from __future__ import annotations

from simcluster.api.port import Client, Object
from simcluster.controllers import fields
from simcluster.controllers.events import EventRecorder
from simcluster.controllers.informers import Informers
from simcluster.controllers.matching import node_selected, untolerated
from simcluster.controllers.workloads.children import (
    Children,
    Key,
    PodHands,
    pod_of,
    template_hash,
    write_status,
)
from simcluster.controllers.workqueue import WorkQueue
from simcluster.timing import Timing

RESOURCE = "daemonsets.apps"
HASH = "controller-revision-hash"
GENERATION = "pod-template-generation"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TOLERATED = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)
TOLERATIONS = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect} for key, effect in _TOLERATED
]


class DaemonSetController:
    """Looks at a DaemonSet when it, one of its pods or any node's rules change."""

    def __init__(self, client: Client, timing: Timing, informers: Informers, recorder: EventRecorder) -> None:
        self._client = client
        self._sets = informers.of(RESOURCE)
        self._nodes = informers.of("nodes")
        self._settle_s = timing.s(0.05)
        self._queue: WorkQueue[Key] = WorkQueue(
            self._sync, title="daemonset", retry_first_s=timing.s(1.0), retry_max_s=timing.s(60.0)
        )
        self._pods = Children(informers, "pods", "DaemonSet", self._wake)
        self._hands = PodHands(client, recorder, "daemonset-controller", self._pods)
        self._sets.on_change(self._on_set)
        self._nodes.on_change(self._on_node)

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

    def _on_node(self, old: Object | None, new: Object | None) -> None:
        if old is not None and new is not None and _rules(old) == _rules(new):
            return
        # A taint that drives pods out is acted on before the taint eviction comes to it (27).
        urgent = old is not None and new is not None and _driving_out(old) != _driving_out(new)
        for key in self._sets.items:
            if urgent:
                self._queue.add(key)
            else:
                self._wake(key)

    async def _sync(self, key: Key) -> None:
        owner = self._sets.items.get(key)
        if owner is None or fields.deleting(owner):
            return
        wanted = [node for node in self._nodes.items.values() if _wants(owner, node)]
        by_node: dict[str, list[Object]] = {}
        for pod in self._pods.of(owner):
            if not fields.deleting(pod):
                by_node.setdefault(_target(pod), []).append(pod)
        revision = template_hash(fields.spec(owner)["template"])
        for doomed in _surplus(by_node, {fields.name(node) for node in wanted}):
            await self._hands.delete(owner, doomed)
        for node in wanted:
            if fields.name(node) not in by_node:
                await self._hands.create(owner, _pod(owner, fields.name(node), revision))
        await self._roll(owner, by_node, revision, len(wanted))
        await self._report(owner, wanted, revision)

    async def _roll(self, owner: Object, by_node: dict[str, list[Object]], revision: str, wanted: int) -> None:
        """Replace pods of an older template, no more at once than may be unavailable."""
        strategy = fields.spec(owner).get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        allowed = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
        most = allowed if isinstance(allowed, int) else max(1, int(allowed.rstrip("%")) * wanted // 100)
        pods = [pod for pods in by_node.values() for pod in pods]
        unavailable = wanted - sum(fields.ready(pod) for pod in pods)
        for pod in pods:
            if fields.labels(pod).get(HASH) != revision and (unavailable < most or not fields.ready(pod)):
                unavailable += fields.ready(pod)
                await self._hands.delete(owner, pod)

    async def _report(self, owner: Object, wanted: list[Object], revision: str) -> None:
        names = {fields.name(node) for node in wanted}
        pods = [pod for pod in self._pods.of(owner) if not fields.deleting(pod)]
        there = {_target(pod): pod for pod in pods}
        ready = sum(fields.ready(pod) for node, pod in there.items() if node in names)
        updated = sum(fields.labels(pod).get(HASH) == revision for node, pod in there.items() if node in names)
        status: Object = {
            "currentNumberScheduled": len(names & set(there)),
            "numberMisscheduled": len(set(there) - names),
            "desiredNumberScheduled": len(names),
            "numberReady": ready,
            "observedGeneration": fields.meta(owner).get("generation", 1),
        }
        optional = {
            "updatedNumberScheduled": updated,
            "numberAvailable": ready,
            "numberUnavailable": len(names) - ready,
        }
        status.update({name: value for name, value in optional.items() if value})
        await write_status(self._client, RESOURCE, self._sets.items.get(fields.key(owner), owner), status)


def _driving_out(node: Object) -> list[Object]:
    return [taint for taint in fields.spec(node).get("taints") or () if taint["effect"] == "NoExecute"]


def _rules(node: Object) -> tuple[object, ...]:
    spec = fields.spec(node)
    return fields.labels(node), spec.get("taints"), spec.get("unschedulable")


def _wants(owner: Object, node: Object) -> bool:
    spec = fields.spec(owner)["template"]["spec"]
    tolerations = [*(spec.get("tolerations") or ()), *TOLERATIONS]
    taints = fields.spec(node).get("taints") or ()
    if untolerated(tolerations, taints, ("NoSchedule", "NoExecute")) is not None:
        return False
    return node_selected(spec, node)


def _target(pod: Object) -> str:
    """The node a daemon pod is for, bound or not."""
    if fields.node_of(pod):
        return fields.node_of(pod)
    affinity = (fields.spec(pod).get("affinity") or {}).get("nodeAffinity") or {}
    for term in (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            return str(field["values"][0])
    return ""


def _surplus(by_node: dict[str, list[Object]], wanted: set[str]) -> list[Object]:
    """Pods on nodes that are not wanted, pods that ended, and all but the oldest of several; forgotten in `by_node`."""
    doomed: list[Object] = []
    for node, pods in list(by_node.items()):
        alive = [pod for pod in pods if not fields.terminal(pod)]
        kept = alive[:1] if node in wanted else []
        doomed += [pod for pod in pods if pod not in kept]
        if kept:
            by_node[node] = kept
        else:
            del by_node[node]
    return doomed


def _pod(owner: Object, node: str, revision: str) -> Object:
    template = fields.spec(owner)["template"]["spec"]
    affinity = dict(template.get("affinity") or {})
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    given = ((affinity.get("nodeAffinity") or {}).get(REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    terms = [{**term, "matchFields": [field]} for term in given]
    affinity["nodeAffinity"] = {**(affinity.get("nodeAffinity") or {}), REQUIRED: {"nodeSelectorTerms": terms}}
    tolerations = [*(template.get("tolerations") or ()), *TOLERATIONS]
    labels = {HASH: revision, GENERATION: str(fields.meta(owner).get("generation", 1))}
    return pod_of(owner, labels, {"affinity": affinity, "tolerations": tolerations})
