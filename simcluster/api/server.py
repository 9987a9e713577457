"""The API server: store, verbs and admission under one roof.

Owns how the parts are put together. It must not know any node, nor how a kind is checked or shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.api.admission import STANDING_NAMESPACES, NamespaceLifecycle
from simcluster.api.client import InProcessClient
from simcluster.api.kinds import KindTable
from simcluster.api.port import AdmissionHook, Client, KubeletRegistry
from simcluster.api.resources import Resources
from simcluster.api.store import Store


class ApiServer:
    """One simulated API server; `client` is the way in for controllers and kubelets of the same process."""

    def __init__(
        self, *, registry: KubeletRegistry, hooks: Sequence[AdmissionHook] = (), history: int = 20_000
    ) -> None:
        self.registry = registry
        self.kinds = KindTable()
        self.store = Store(history)
        self.resources = Resources(self.store, self.kinds, hooks)
        self.resources.admission.append(NamespaceLifecycle(self.resources))
        self.client: Client = InProcessClient(self.resources)
        self._found_namespaces()

    def _found_namespaces(self) -> None:
        kind = self.kinds.named("namespaces")
        for name in STANDING_NAMESPACES:
            if kind is not None:
                self.resources.create(kind, {"metadata": {"name": name}}, None)

    async def close(self) -> None:
        """End every watch and every connection."""
        self.store.close()
