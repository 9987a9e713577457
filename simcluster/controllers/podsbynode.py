"""Pods by the node they are bound to, kept from the shared informer.

Owns that index; decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from simcluster.api.port import Object
from simcluster.controllers import fields
from simcluster.controllers.informers import Informers

Key = tuple[str, str]


class PodsByNode:
    """`on_bound` is told of each pod that is new on a node."""

    def __init__(self, informers: Informers, on_bound: Callable[[Object], None] | None = None) -> None:
        self._by_node: dict[str, dict[Key, Object]] = {}
        self._on_bound = on_bound
        informers.of("pods").on_change(self._on_pod)

    def on(self, node: str) -> Mapping[Key, Object]:
        """The pods of a node by (namespace, name), in their newest known state."""
        return self._by_node.get(node, {})

    def nodes(self) -> list[str]:
        """Nodes that have pods, whether they exist or not."""
        return list(self._by_node)

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        if old is not None and fields.node_of(old) and (new is None or fields.node_of(new) != fields.node_of(old)):
            pods = self._by_node.get(fields.node_of(old), {})
            pods.pop(fields.key(old), None)
            if not pods:
                self._by_node.pop(fields.node_of(old), None)
        if new is not None and fields.node_of(new):
            pods = self._by_node.setdefault(fields.node_of(new), {})
            fresh = fields.key(new) not in pods
            pods[fields.key(new)] = new
            if fresh and self._on_bound is not None:
                self._on_bound(new)
