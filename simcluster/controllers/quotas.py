"""Keeps status.used of ResourceQuotas in step with what their namespace holds.

Owns the counting for show; refusing is the API server's admission.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from simcluster.api.port import Client, Object
from simcluster.controllers import fields
from simcluster.controllers.informers import Informers
from simcluster.controllers.quantity import amount, text_of
from simcluster.controllers.workqueue import WorkQueue
from simcluster.timing import Timing

QUOTAS = "resourcequotas"
COUNTED = ("services", "configmaps", "secrets", "persistentvolumeclaims", "jobs.batch")
COMPUTE = {"cpu": "requests.cpu", "memory": "requests.memory", "ephemeral-storage": "requests.ephemeral-storage"}
Key = tuple[str, str]


class QuotaController:
    """Counts a quota's namespace shortly after something in it changed."""

    def __init__(self, client: Client, timing: Timing, informers: Informers) -> None:
        self._client = client
        self._settle_s = timing.s(0.2)
        self._quotas = informers.of(QUOTAS)
        self._held: dict[str, dict[str, dict[str, Object]]] = {}
        self._queue: WorkQueue[Key] = WorkQueue(
            self._sync, title="resourcequota", retry_first_s=timing.s(0.5), retry_max_s=timing.s(30.0)
        )
        self._quotas.on_change(self._on_quota)
        for resource in ("pods", *COUNTED):
            informers.of(resource).on_change(partial(self._on_content, resource))

    def start(self) -> None:
        """Start after the informers."""
        self._queue.start()

    async def stop(self) -> None:
        """Stop counting."""
        await self._queue.stop()

    def _on_quota(self, _old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._queue.add(fields.key(new))

    def _on_content(self, resource: str, old: Object | None, new: Object | None) -> None:
        obj = new or old
        if obj is None:
            return
        held = self._held.setdefault(fields.namespace(obj), {}).setdefault(resource, {})
        if new is None:
            held.pop(fields.name(obj), None)
        else:
            held[fields.name(obj)] = new
        if old is not None and new is not None and fields.terminal(old) == fields.terminal(new):
            return
        for key in self._quotas.items:
            if key[0] == fields.namespace(obj):
                self._queue.add_after(key, self._settle_s)

    async def _sync(self, key: Key) -> None:
        quota = self._quotas.items.get(key)
        if quota is None:
            return
        hard: dict[str, str] = fields.spec(quota).get("hard") or {}
        held = self._held.get(key[0], {})
        pods = [pod for pod in held.get("pods", {}).values() if not fields.terminal(pod) and _in_scope(quota, pod)]
        used = {name: text_of(name, self._used(name, held, pods)) for name in hard}
        status = {"hard": hard, "used": used}
        if status != fields.status(quota):
            await self._client.update(QUOTAS, {**quota, "status": status}, subresource="status")

    @staticmethod
    def _used(name: str, held: dict[str, dict[str, Object]], pods: list[Object]) -> int:
        kind = name.removeprefix("count/")
        if kind == "pods":
            return len(pods)
        if kind in COUNTED or name.startswith("count/"):
            return len(held.get(kind, {}))
        if name == "requests.storage":
            claims = held.get("persistentvolumeclaims", {}).values()
            return sum(_amounts((fields.spec(claim).get("resources") or {}), "requests", "storage") for claim in claims)
        field, _, resource = COMPUTE.get(name, name).partition(".")
        return sum(_pod_amount(pod, field, resource) for pod in pods)


def _pod_amount(pod: Object, field: str, resource: str) -> int:
    spec = fields.spec(pod)
    together = sum(_of_containers(spec.get("containers") or (), field, resource))
    return max([together, *_of_containers(spec.get("initContainers") or (), field, resource)])


def _of_containers(containers: Iterable[Object], field: str, resource: str) -> list[int]:
    return [_amounts(container.get("resources") or {}, field, resource) for container in containers]


def _amounts(resources: Object, field: str, resource: str) -> int:
    text = (resources.get(field) or {}).get(resource)
    return 0 if text is None else amount(resource, text)


def _in_scope(quota: Object, pod: Object) -> bool:
    scopes = set(fields.spec(quota).get("scopes") or ())
    best = fields.status(pod).get("qosClass") == "BestEffort"
    ends = fields.spec(pod).get("activeDeadlineSeconds") is not None
    return scopes <= {"BestEffort" if best else "NotBestEffort", "Terminating" if ends else "NotTerminating"}
