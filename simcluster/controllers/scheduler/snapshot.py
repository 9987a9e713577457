"""Nodes, what runs on them, and where affinity terms match: the scheduler's picture of the cluster.

Owns keeping it consistent as nodes and pods change; must not know filters or scores.
"""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.api.port import Object
from simcluster.controllers import fields
from simcluster.controllers.scheduler.podinfo import NodeInfo, PodInfo, node_info, pod_info
from simcluster.controllers.scheduler.terms import TermIndex


class Snapshot:
    """`nodes` by name; `shape` counts changes of nodes that matter to rules about nodes."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self.terms = TermIndex()
        self.shape = 0
        self._where: dict[str, str] = {}
        self._waiting: dict[str, dict[str, PodInfo]] = {}

    def put_node(self, node: Object) -> bool:
        """Take a node's present state; whether anything changed that a waiting pod could profit from."""
        name = fields.name(node)
        old = self.nodes.get(name)
        if old is not None and _alike(old.raw, node):
            old.raw = node
            return False
        fresh = node_info(node)
        if old is None or _rules(old.raw) != _rules(node):
            self.shape += 1
        relabelled = old is None or old.labels != fresh.labels
        pods = old.pods if old is not None else self._waiting.pop(name, {})
        self.nodes[name] = fresh
        for pod in pods.values():
            fresh.add(pod)
            if relabelled:
                self.terms.remove(pod.uid)
                self.terms.add(pod.uid, pod, fresh.labels)
        return True

    def drop_node(self, name: str) -> None:
        """The node is gone; its pods wait for it to come back or to be deleted."""
        node = self.nodes.pop(name, None)
        if node is not None:
            self.shape += 1
            self._waiting[name] = node.pods
            for uid in node.pods:
                self.terms.remove(uid)

    def assign(self, pod: PodInfo, node_name: str) -> None:
        """The pod runs, or is about to run, on that node."""
        if self._where.get(pod.uid) == node_name:
            return
        self.release(pod.uid)
        self._where[pod.uid] = node_name
        node = self.nodes.get(node_name)
        if node is None:
            self._waiting.setdefault(node_name, {})[pod.uid] = pod
            return
        node.add(pod)
        self.terms.add(pod.uid, pod, node.labels)

    def release(self, uid: str) -> bool:
        """The pod counts no longer, for it has ended or is gone; whether it did count."""
        name = self._where.pop(uid, None)
        if name is None:
            return False
        node = self.nodes.get(name)
        if node is None:
            self._waiting.get(name, {}).pop(uid, None)
            return False
        node.remove(node.pods[uid])
        self.terms.remove(uid)
        return True

    def put_pod(self, pod: Object) -> bool:
        """Take a bound pod's present state; whether it freed something."""
        if fields.terminal(pod):
            return self.release(fields.uid(pod))
        if self._where.get(fields.uid(pod)) != fields.node_of(pod):
            self.assign(pod_info(pod), fields.node_of(pod))
        return False


def _rules(node: Object) -> tuple[Mapping[str, str], object, object]:
    spec = fields.spec(node)
    return fields.labels(node), spec.get("taints"), spec.get("unschedulable")


def _alike(old: Object, new: Object) -> bool:
    same_amounts = fields.status(old).get("allocatable") == fields.status(new).get("allocatable")
    return same_amounts and _rules(old) == _rules(new)
