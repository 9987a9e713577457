"""Nodes, what runs on them, and where affinity terms match: the scheduler's picture of the cluster.

Owns keeping it consistent as nodes and pods change; must not know filters or scores.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from simcluster.api.port import Object
from simcluster.controllers import fields
from simcluster.controllers.scheduler.podinfo import NodeInfo, PodInfo, node_info, pod_info
from simcluster.controllers.scheduler.terms import TermIndex


class Snapshot:
    """`nodes` by name; `shape` counts changes of nodes that matter to rules about nodes, `version` all changes.

    `nominated` holds by node the pods for which room is being made there.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self.terms = TermIndex()
        self.shape = 0
        self.version = 0
        self.nominated: dict[str, dict[str, PodInfo]] = {}
        self._where: dict[str, str] = {}
        self._priorities: Counter[int] = Counter()
        self._waiting: dict[str, dict[str, PodInfo]] = {}

    def put_node(self, node: Object) -> bool:
        """Take a node's present state; whether anything changed that a waiting pod could profit from."""
        name = fields.name(node)
        old = self.nodes.get(name)
        if old is not None and _alike(old.raw, node):
            old.raw = node
            return False
        self.version += 1
        fresh = node_info(node)
        if old is None or _rules(old.raw) != _rules(node):
            self.shape += 1
        relabelled = old is None or old.labels != fresh.labels
        pods = old.pods if old is not None else self._waiting.pop(name, {})
        self.nodes[name] = fresh
        for pod in pods.values():
            fresh.add(pod)
            if old is None:
                self._priorities[pod.priority] += 1
            if relabelled:
                self.terms.remove(pod.uid)
                self.terms.add(pod.uid, pod, fresh.labels)
        return True

    def drop_node(self, name: str) -> None:
        """The node is gone; its pods wait for it to come back or to be deleted."""
        node = self.nodes.pop(name, None)
        if node is not None:
            self.shape += 1
            self.version += 1
            self._waiting[name] = node.pods
            for uid, pod in node.pods.items():
                self.terms.remove(uid)
                self._priorities[pod.priority] -= 1
            self._priorities = +self._priorities

    def assign(self, pod: PodInfo, node_name: str) -> None:
        """The pod runs, or is about to run, on that node."""
        if self._where.get(pod.uid) == node_name:
            return
        self.release(pod.uid)
        self.version += 1
        self._where[pod.uid] = node_name
        node = self.nodes.get(node_name)
        if node is None:
            self._waiting.setdefault(node_name, {})[pod.uid] = pod
            return
        node.add(pod)
        self._priorities[pod.priority] += 1
        self.terms.add(pod.uid, pod, node.labels)

    def holds(self, uid: str) -> bool:
        """The pod counts on a node, also before the watch tells that it was bound."""
        return uid in self._where

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Keep room for the pod on that node against pods of lower priority."""
        self.withdraw(pod.uid)
        self.version += 1
        self.nominated.setdefault(node_name, {})[pod.uid] = pod

    def withdraw(self, uid: str) -> None:
        """The pod needs no room kept any more."""
        for name, pods in list(self.nominated.items()):
            if pods.pop(uid, None) is not None:
                self.version += 1
                if not pods:
                    del self.nominated[name]

    def release(self, uid: str) -> bool:
        """The pod counts no longer, for it has ended or is gone; whether it did count."""
        name = self._where.pop(uid, None)
        if name is None:
            return False
        node = self.nodes.get(name)
        if node is None:
            self._waiting.get(name, {}).pop(uid, None)
            return False
        self.version += 1
        pod = node.pods[uid]
        node.remove(pod)
        self._priorities[pod.priority] -= 1
        if not self._priorities[pod.priority]:
            del self._priorities[pod.priority]
        self.terms.remove(uid)
        return True

    def lowest_priority(self) -> int:
        """Of all pods that run: a pod that is not above it can send none away."""
        return min(self._priorities, default=0)

    def put_pod(self, pod: Object) -> bool:
        """Take a bound pod's present state; whether it freed something."""
        if fields.terminal(pod):
            return self.release(fields.uid(pod))
        if self._where.get(fields.uid(pod)) != fields.node_of(pod):
            self.assign(pod_info(pod), fields.node_of(pod))
        elif fields.deleting(pod):
            self._note_leaving(pod)
        return False

    def _note_leaving(self, pod: Object) -> None:
        """Whoever made room wants to see that its victims are on their way."""
        node = self.nodes.get(fields.node_of(pod))
        known = node.pods.get(fields.uid(pod)) if node is not None else None
        if node is not None and known is not None and not fields.deleting(known.raw):
            node.pods[fields.uid(pod)] = replace(known, raw=pod)


def _rules(node: Object) -> tuple[Mapping[str, str], object, object]:
    spec = fields.spec(node)
    return fields.labels(node), spec.get("taints"), spec.get("unschedulable")


def _alike(old: Object, new: Object) -> bool:
    same_amounts = fields.status(old).get("allocatable") == fields.status(new).get("allocatable")
    return same_amounts and _rules(old) == _rules(new)
