"""Gives every namespace what pods in it expect: the service account default and the ConfigMap kube-root-ca.crt.

Owns these two objects; must not know who uses them.
"""

from __future__ import annotations

from simcluster.api.port import ApiError, Client, Object
from simcluster.controllers import fields
from simcluster.controllers.informers import Informers
from simcluster.controllers.workqueue import WorkQueue
from simcluster.timing import Timing

ACCOUNT = "default"
ROOT_CA = "kube-root-ca.crt"


class ServiceAccounts:
    """`root_ca` is the PEM text of the certificate that signs the API server's."""

    def __init__(self, client: Client, timing: Timing, informers: Informers) -> None:
        self.root_ca = ""
        self._client = client
        self._namespaces = informers.of("namespaces")
        self._queue: WorkQueue[str] = WorkQueue(
            self._provide, title="serviceaccounts", retry_first_s=timing.s(0.5), retry_max_s=timing.s(30.0)
        )
        self._namespaces.on_change(self._on_namespace)
        informers.of("serviceaccounts").on_change(self._on_content)
        informers.of("configmaps").on_change(self._on_content)

    def start(self) -> None:
        """Start after the informers."""
        self._queue.start()

    async def stop(self) -> None:
        """Stop providing."""
        await self._queue.stop()

    def _on_namespace(self, old: Object | None, new: Object | None) -> None:
        if new is not None and old is None:
            self._queue.add(fields.name(new))

    def _on_content(self, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None and fields.name(old) in {ACCOUNT, ROOT_CA}:
            self._queue.add(fields.namespace(old))

    async def _provide(self, namespace: str) -> None:
        found = self._namespaces.items.get(("", namespace))
        if found is None or fields.deleting(found):
            return
        account: Object = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}}
        note = "Contains a CA bundle that can be used to verify the kube-apiserver of this cluster."
        bundle: Object = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": ROOT_CA, "annotations": {"kubernetes.io/description": note}},
            "data": {"ca.crt": self.root_ca},
        }
        for resource, obj in (("serviceaccounts", account), ("configmaps", bundle)):
            try:
                await self._client.create(resource, obj, namespace)
            except ApiError as error:
                if error.code not in {403, 404, 409}:
                    raise
