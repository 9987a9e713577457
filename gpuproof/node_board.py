"""The present state of the nodes during a sweep, fed by a watch: what keeps pods off a node, and which node was lost.

It must not know jobs, pods or measurements.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuproof.cluster import raw
from gpuproof.cluster.port import WatchEvent
from gpuproof.cluster.raw import Raw
from gpuproof.failure import JobFailure, Reason
from gpuproof.inventory import Inventory, Node, read_node, untolerated

_LIFECYCLE_TAINTS = "node.kubernetes.io/"
"""Taints that Kubernetes itself sets and takes away (not-ready, unschedulable, pressure): conditions tell of those."""


class NodeBoard:
    """Nodes by name. `now` is any monotonic clock in seconds, the same for all calls."""

    def __init__(self, inventory: Inventory, *, gpu_resource: str, not_ready_grace_s: float, now: float) -> None:
        self._gpu_resource = gpu_resource
        self._grace_s = not_ready_grace_s
        self._nodes: dict[str, Node] = dict(inventory.nodes)
        self._version = inventory.resource_version
        self._gone: set[str] = set()
        self._not_ready_since = {name: now for name, node in self._nodes.items() if not node.ready}

    def update(self, event: WatchEvent, now: float) -> str:
        """Take a change in; the name of the node it is about ('' if it names none)."""
        name = raw.text(event.object, "metadata", "name")
        self._version = raw.text(event.object, "metadata", "resourceVersion") or self._version
        if event.type == "DELETED":
            self._nodes.pop(name, None)
            self._gone.add(name)
            return name
        node = read_node(event.object, gpu_resource=self._gpu_resource)
        if name:
            self._nodes[name] = node
            self._gone.discard(name)
        if node.ready:
            self._not_ready_since.pop(name, None)
        else:
            self._not_ready_since.setdefault(name, now)
        return name

    def inventory(self) -> Inventory:
        """The nodes as they are now, and the version that a later watch goes on from."""
        return Inventory(dict(self._nodes), self._version)

    def hostname(self, name: str) -> str:
        """What `kubernetes.io/hostname` selects the node by."""
        node = self._nodes.get(name)
        return node.hostname if node else name

    def obstacle(self, name: str, *, gpus: int, tolerations: Sequence[Raw], now: float) -> JobFailure | None:
        """Why no pod of ours can be placed on the node, where its own state already tells."""
        node = self._nodes.get(name)
        if node is None:
            lost = name in self._gone
            said = f"node {name} has left the cluster or its pool" if lost else f"the cluster has no node {name}"
            reason = Reason.NODE_LOST if lost else Reason.NODE_MISSING
            return JobFailure(reason, f"{said}; the profile expects it in the pool")
        if not node.schedulable:
            said = f"node {name} is cordoned; uncordon it or take it out of the scope"
            return JobFailure(Reason.NODE_CORDONED, said, (node.problem,))
        if self._not_ready(name, now):
            said = f"node {name} is not ready for {self._grace_s:g} s; look at its kubelet"
            return JobFailure(Reason.NODE_NOT_READY, said, (node.problem,))
        if node.gpu_allocatable < gpus:
            said = f"node {name} offers {node.gpu_allocatable} {self._gpu_resource}, a pod asks for {gpus}"
            next_step = "look at its device plug-in and GPUs"
            return JobFailure(Reason.UNSCHEDULABLE, f"{said}; {next_step}", (_resources(node),))
        taints = [t for t in untolerated(node, tolerations) if not t.key.startswith(_LIFECYCLE_TAINTS)]
        if taints:
            said = f"node {name} has a taint that the run's pods do not tolerate: {', '.join(map(str, taints))}"
            return JobFailure(Reason.UNSCHEDULABLE, f"{said}; add a toleration to the profile's [pod]")
        return None

    def lost(self, name: str, now: float) -> JobFailure | None:
        """Whether a node that runs a pod of ours was lost: its object is gone, or it is not ready beyond the grace."""
        if name in self._gone:
            return JobFailure(
                Reason.NODE_LOST,
                f"node {name} left the cluster or its pool while it measured; look at its power and network",
            )
        if self._not_ready(name, now):
            node = self._nodes.get(name)
            said = f"node {name} became not ready while it measured and stayed so for {self._grace_s:g} s"
            evidence = (node.problem,) if node else ()
            return JobFailure(Reason.NODE_LOST, f"{said}; look at its kubelet, power and network", evidence)
        return None

    def _not_ready(self, name: str, now: float) -> bool:
        since = self._not_ready_since.get(name)
        return since is not None and now - since >= self._grace_s


def _resources(node: Node) -> str:
    return f"capacity {node.gpu_capacity}, allocatable {node.gpu_allocatable}"
