"""Follows owner references: deletes what lost its owner, keeps foreground deletions waiting, orphans on demand.

Owns the graph of owners and dependents; must not know what any kind is for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from simcluster.api.port import ApiError, Client, Object, Propagation
from simcluster.controllers import fields
from simcluster.controllers.informers import Informers
from simcluster.controllers.kinds import OWNED
from simcluster.controllers.requests import delete_if_there, remove_finalizer
from simcluster.controllers.workqueue import WorkQueue
from simcluster.timing import Timing

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


@dataclass(frozen=True)
class Item:
    """One object: where it is stored and which one it is."""

    resource: str
    namespace: str
    name: str
    uid: str


class GarbageCollector:
    """Two queues: objects whose owners must be checked, and owners whose dependents must be dealt with.

    `custom` are the kinds of operators that are followed besides the built-in ones.
    """

    def __init__(
        self, client: Client, timing: Timing, informers: Informers, custom: Mapping[tuple[str, str], str]
    ) -> None:
        self._resources = {**OWNED, **custom}
        self._client = client
        self._informers = informers
        self._dependents: dict[str, set[Item]] = {}
        self._known: set[str] = set()
        self._lag_s = timing.s(0.3)
        first_s, max_s = timing.s(1.0), timing.s(60.0)
        self._orphaned: WorkQueue[Item] = WorkQueue(
            self._check, title="gc-dependents", retry_first_s=first_s, retry_max_s=max_s
        )
        self._owners: WorkQueue[Item] = WorkQueue(
            self._settle, title="gc-owners", retry_first_s=first_s, retry_max_s=max_s
        )
        for resource in self._resources.values():
            informers.of(resource).on_change(partial(self._on_change, resource))

    def start(self) -> None:
        """Start after the informers."""
        self._orphaned.start()
        self._owners.start()

    async def stop(self) -> None:
        """Stop collecting."""
        await self._orphaned.stop()
        await self._owners.stop()

    def _on_change(self, resource: str, old: Object | None, new: Object | None) -> None:
        obj = new or old
        if obj is None:
            return
        item = Item(resource, fields.namespace(obj), fields.name(obj), fields.uid(obj))
        before = fields.owners(old) if old is not None else []
        after = fields.owners(new) if new is not None else []
        if before != after or old is None:
            self._relink(item, before, after)
        if new is None:
            self._vanished(item, before)
            return
        self._known.add(item.uid)
        if fields.deleting(new) and not _same_deletion(old, new):
            # A real collector comes after the owner's controller, which lets go of its finalizers at once (05f).
            self._owners.add_after(item, self._lag_s)

    def _relink(self, item: Item, before: Iterable[Object], after: Iterable[Object]) -> None:
        for owner in before:
            dependents = self._dependents.get(owner["uid"])
            if dependents is not None:
                dependents.discard(item)
                if not dependents:
                    del self._dependents[owner["uid"]]
        for owner in after:
            self._dependents.setdefault(owner["uid"], set()).add(item)
            if owner["uid"] not in self._known:
                self._orphaned.add(item)

    def _vanished(self, item: Item, owners: Iterable[Object]) -> None:
        self._known.discard(item.uid)
        for dependent in self._dependents.get(item.uid, ()):
            self._orphaned.add_after(dependent, self._lag_s / 2)
        for owner in owners:
            found = self._owner_item(owner, item.namespace)
            if found is not None:
                self._owners.add(found)

    def _owner_item(self, owner: Object, namespace: str) -> Item | None:
        resource = self._resources.get((owner.get("apiVersion", ""), owner.get("kind", "")))
        if resource is None:
            return None
        return Item(resource, "" if resource == "nodes" else namespace, owner["name"], owner["uid"])

    def _find(self, item: Item) -> Object | None:
        obj = self._informers.of(item.resource).items.get((item.namespace, item.name))
        return obj if obj is not None and fields.uid(obj) == item.uid else None

    async def _check(self, item: Item) -> None:
        """Delete a dependent all of whose owners are gone."""
        obj = self._find(item)
        if obj is None or not fields.owners(obj):
            return
        owners = [(owner, await self._owner_state(owner, item.namespace)) for owner in fields.owners(obj)]
        if all(state is None for _, state in owners):
            if not fields.deleting(obj):
                await delete_if_there(self._client, item.resource, obj, propagation=_propagation(obj))
            return
        kept = [owner for owner, state in owners if state is not None]
        if len(kept) < len(owners):
            await self._set_owners(item, obj, kept)

    async def _owner_state(self, owner: Object, namespace: str) -> Object | None:
        """The owner as stored, None where it is certainly gone; kinds that are not followed count as present."""
        found = self._owner_item(owner, namespace)
        if found is None:
            return owner
        try:
            # The watches are separate streams: a new object may be heard of before its owner. The server knows.
            obj = await self._client.get(found.resource, found.name, found.namespace or None)
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        return obj if fields.uid(obj) == found.uid else None

    async def _settle(self, item: Item) -> None:
        """Deal with the dependents of an object that is being deleted in the foreground or as an orphaning parent."""
        obj = self._find(item)
        if obj is None or not fields.deleting(obj):
            return
        dependents = list(self._dependents.get(item.uid, ()))
        if ORPHAN in fields.finalizers(obj):
            for dependent in dependents:
                await self._let_go(dependent, item.uid)
            await remove_finalizer(self._client, item.resource, obj, ORPHAN)
        elif FOREGROUND in fields.finalizers(obj):
            for dependent in dependents:
                await self._delete_dependent(dependent)
            if not any(self._blocks(dependent, item.uid) for dependent in self._dependents.get(item.uid, ())):
                await remove_finalizer(self._client, item.resource, obj, FOREGROUND)

    async def _delete_dependent(self, dependent: Item) -> None:
        obj = self._find(dependent)
        if obj is None or fields.deleting(obj):
            return
        propagation: Propagation = "Foreground" if self._dependents.get(dependent.uid) else "Background"
        await delete_if_there(self._client, dependent.resource, obj, propagation=propagation)

    def _blocks(self, dependent: Item, owner_uid: str) -> bool:
        obj = self._find(dependent)
        owners = fields.owners(obj) if obj is not None else []
        return any(owner["uid"] == owner_uid and owner.get("blockOwnerDeletion") for owner in owners)

    async def _let_go(self, dependent: Item, owner_uid: str) -> None:
        obj = self._find(dependent)
        if obj is not None:
            await self._set_owners(dependent, obj, [o for o in fields.owners(obj) if o["uid"] != owner_uid])

    async def _set_owners(self, item: Item, obj: Object, owners: list[Object]) -> None:
        body = {"metadata": {"uid": item.uid, "ownerReferences": owners or None}}
        try:
            await self._client.patch(item.resource, fields.name(obj), body, item.namespace or None)
        except ApiError as error:
            if error.code not in {404, 409}:
                raise


def _propagation(obj: Object) -> Propagation:
    """An object that was already asked to wait for or to orphan its own dependents keeps to it."""
    if FOREGROUND in fields.finalizers(obj):
        return "Foreground"
    return "Orphan" if ORPHAN in fields.finalizers(obj) else "Background"


def _same_deletion(old: Object | None, new: Object) -> bool:
    return old is not None and fields.deleting(old) and fields.finalizers(old) == fields.finalizers(new)
