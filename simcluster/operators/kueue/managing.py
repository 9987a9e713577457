"""Keeps owners with the queue label suspended until their Workload is admitted, and lets them run while it is.

Owns an owner's suspension and its Workload's making, finishing and release; must not know how quota is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from simcluster.api.port import ApiError, Client, Object
from simcluster.api.resources import Request
from simcluster.controllers import fields
from simcluster.controllers.events import EventRecorder
from simcluster.controllers.informers import Informers
from simcluster.controllers.requests import remove_finalizer
from simcluster.controllers.workqueue import WorkQueue
from simcluster.operators.kueue import words
from simcluster.operators.kueue import workload as shapes
from simcluster.operators.kueue.owners import KINDS, OwnerKind, made_by_another, suspended, with_suspend
from simcluster.operators.kueue.workload import PodSet
from simcluster.timing import Timing

Key = tuple[str, str, str]
"""Resource, namespace, name of an owner."""


def suspend_new(request: Request) -> Object:
    """The webhook: what is created with the queue label is created suspended."""
    kinds = {kind.resource for kind in KINDS}
    if request.operation != "CREATE" or request.kind.name not in kinds or not _managed(request.obj):
        return request.obj
    return with_suspend(request.obj, value=True)


def _managed(owner: Object) -> bool:
    return words.QUEUE_KEY in fields.labels(owner) and not made_by_another(owner)


class Managing:
    """One queue of owners of all kinds that the cluster serves."""

    def __init__(
        self,
        client: Client,
        timing: Timing,
        informers: Informers,
        recorder: EventRecorder,
        kinds: Sequence[OwnerKind],
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._kinds = {kind.resource: kind for kind in kinds}
        self._by_name = {(kind.api_version, kind.kind): kind for kind in kinds}
        self._queue: WorkQueue[Key] = WorkQueue(
            self._sync, title="kueue-owners", retry_first_s=timing.s(0.5), retry_max_s=timing.s(10.0), workers=2
        )
        self._owners = {resource: informers.of(resource) for resource in self._kinds}
        self._workloads = informers.of(words.WORKLOADS)
        for kind in kinds:
            self._owners[kind.resource].on_change(partial(self._on_owner, kind))
        self._workloads.on_change(self._on_workload)

    def start(self) -> None:
        """Start after the informers."""
        self._queue.start()

    async def stop(self) -> None:
        """Stop all work."""
        await self._queue.stop()

    def _on_owner(self, kind: OwnerKind, old: Object | None, new: Object | None) -> None:
        obj = new or old
        if obj is None:
            return
        if words.QUEUE_KEY in fields.labels(obj):
            self._queue.add((kind.resource, *fields.key(obj)))
        self._wake_controller(obj)

    def _on_workload(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        if obj is not None:
            self._wake_controller(obj)

    def _wake_controller(self, obj: Object) -> None:
        ref = fields.controller_of(obj)
        kind = self._by_name.get((ref["apiVersion"], ref["kind"])) if ref is not None else None
        if kind is not None and ref is not None:
            self._queue.add((kind.resource, fields.namespace(obj), ref["name"]))

    async def _sync(self, key: Key) -> None:
        resource, namespace, name = key
        kind = self._kinds[resource]
        owner = self._owners[resource].items.get((namespace, name))
        if owner is not None and fields.deleting(owner):
            owner = None
        await self._let_go(kind, namespace, name, owner)
        if owner is None or not _managed(owner):
            return
        workload = self._workloads.items.get((namespace, shapes.workload_name(owner)))
        end = kind.end(owner)
        if end is not None:
            if workload is not None and not shapes.is_true(workload, words.FINISHED):
                await self._write(workload, shapes.with_conditions(workload, {words.FINISHED: (True, *end)}))
        elif workload is None:
            await self._make_workload(kind, owner)
        else:
            await self._follow(kind, owner, workload)

    async def _let_go(self, kind: OwnerKind, namespace: str, name: str, owner: Object | None) -> None:
        """Free Workloads that are being deleted: those of an owner that is gone, or of one that was stopped."""
        for workload in list(self._workloads.items.values()):
            ref = fields.controller_of(workload)
            if not fields.deleting(workload) or ref is None or fields.namespace(workload) != namespace:
                continue
            if (ref["apiVersion"], ref["kind"], ref["name"]) != (kind.api_version, kind.kind, name):
                continue
            alive = owner is not None and fields.uid(owner) == ref["uid"] and kind.end(owner) is None
            if alive and owner is not None and not suspended(owner):
                owner = await self._stop(kind, owner, workload, "The workload is deleted")
            await remove_finalizer(self._client, words.WORKLOADS, workload, words.FINALIZER)

    async def _make_workload(self, kind: OwnerKind, owner: Object) -> None:
        if not suspended(owner):
            owner = await self._stop(kind, owner, None, "Missing Workload; unable to restore pod templates")
        source: Object | None = owner
        if kind.sets_from:
            source = self._owners[kind.sets_from].items.get(fields.key(owner))
        if source is None:
            return  # What is made of it wakes it again.
        try:
            made = await self._client.create(
                words.WORKLOADS, shapes.workload_for(owner, kind.sets(source)), fields.namespace(owner)
            )
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            return
        text = f"Created Workload: {fields.namespace(made)}/{fields.name(made)}"
        self._tell(kind, owner, "CreatedWorkload", text)

    async def _follow(self, kind: OwnerKind, owner: Object, workload: Object) -> None:
        if fields.deleting(workload):
            return
        evicted = shapes.is_true(workload, words.EVICTED)
        admitted = shapes.is_true(workload, words.ADMITTED) and not evicted
        if admitted and suspended(owner):
            await self._run(kind, owner, workload)
        elif not admitted and not suspended(owner):
            why = fields.condition(workload, words.EVICTED if evicted else words.RESERVED) or {}
            await self._stop(kind, owner, workload, why.get("message") or "Not admitted by cluster queue")
        elif evicted and shapes.admission_of(workload) and not kind.active(owner):
            await self._write(workload, shapes.released(workload))

    async def _run(self, kind: OwnerKind, owner: Object, workload: Object) -> None:
        assigned = {each["name"]: each for each in shapes.admission_of(workload)["podSetAssignments"]}
        flavors: dict[str, list[Object]] = {}
        for name, each in assigned.items():
            flavors[name] = [
                await self._client.get(words.FLAVORS, flavor)
                for flavor in dict.fromkeys((each.get("flavors") or {}).values())
            ]
        changed = kind.templated(
            owner, lambda name, template: _with_flavors(template, flavors.get(name, [])), list(assigned)
        )
        await self._client.update(kind.resource, with_suspend(changed, value=False))
        queue = shapes.admission_of(workload)["clusterQueue"]
        self._tell(kind, owner, "Started", f"Admitted by clusterQueue {queue}")

    async def _stop(self, kind: OwnerKind, owner: Object, workload: Object | None, why: str) -> Object:
        """Suspend it; then its templates are again what they were before a flavor was put into them."""
        owner = await self._client.update(kind.resource, with_suspend(owner, value=True))
        self._tell(kind, owner, "Stopped", why)
        if workload is None:
            return owner
        before = {each.name: each for each in shapes.pod_sets_of(workload)}
        restored = kind.templated(
            owner, lambda name, template: _restored(before.get(name), template, kind), list(before)
        )
        return await self._client.update(kind.resource, restored)

    async def _write(self, workload: Object, status: Object) -> None:
        try:
            await self._client.update(words.WORKLOADS, {**workload, "status": status}, subresource="status")
        except ApiError as error:
            if error.code != 404:
                raise

    def _tell(self, kind: OwnerKind, owner: Object, reason: str, message: str) -> None:
        self._recorder.record(kind.component, owner, "Normal", reason, message)


def _with_flavors(template: Object, flavors: Sequence[Object]) -> Object:
    spec = dict(template.get("spec") or {})
    for flavor in flavors:
        labels = fields.spec(flavor).get("nodeLabels") or {}
        tolerations = fields.spec(flavor).get("tolerations") or []
        if labels:
            spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **labels}
        if tolerations:
            spec["tolerations"] = [*(spec.get("tolerations") or []), *tolerations]
    return {**template, "spec": spec}


def _restored(before: PodSet | None, template: Object, kind: OwnerKind) -> Object:
    if kind.sets_from:
        return {"spec": {}}  # Its own template never changed: only what overrides it is taken away.
    return template if before is None else before.template
