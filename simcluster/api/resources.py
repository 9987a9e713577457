"""The verbs of the API over the store: create, read, update, patch, delete, for every kind alike.

Owns the order of defaulting, admission, validation and storage. It must not know HTTP, users or how a watch is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from simcluster.api import defaults, errors, metadata
from simcluster.api.kinds import Kind, KindTable
from simcluster.api.metadata import DeleteOptions
from simcluster.api.port import AdmissionHook, ApiError, Object
from simcluster.api.store import Collection, Entry, Store

Operation = Literal["CREATE", "UPDATE", "DELETE"]

_RETURNS_DELETED = frozenset(
    {
        "pods",
        "services",
        "persistentvolumeclaims",
        "persistentvolumes",
        "podtemplates",
        "resourcequotas",
        "serviceaccounts",
        "replicationcontrollers",
    }
)


_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})


@dataclass(frozen=True)
class WriteOptions:
    """How a write is to be carried out; `manager` is empty for writers whose fields are not tracked."""

    dry_run: bool = False
    manager: str = ""
    force: bool = False
    applying: bool = False
    warnings: list[str] = field(default_factory=list, compare=False)


DEFAULT = WriteOptions()


@dataclass(frozen=True)
class Request:
    """One write on its way into the store, as admission sees it; `old` is None for a create."""

    kind: Kind
    operation: Operation
    obj: Object
    old: Object | None = None
    subresource: str = ""
    options: WriteOptions = DEFAULT

    @property
    def warnings(self) -> list[str]:
        """Where a step leaves what the client should be told besides the answer."""
        return self.options.warnings


class Admission(Protocol):
    """One step between defaulting and storage: returns the object, changed or not, or raises ApiError."""

    def __call__(self, request: Request) -> Object: ...


class Resources:
    """All kinds' verbs; synchronous, so that every write is atomic on the one event loop."""

    def __init__(self, store: Store, kinds: KindTable, hooks: Sequence[AdmissionHook] = ()) -> None:
        self.store = store
        self.kinds = kinds
        self.hooks = list(hooks)
        self.admission: list[Admission] = []
        self.after_write: list[Callable[[Kind, Entry, bool], None]] = []

    def collection(self, kind: Kind) -> Collection:
        """Where objects of a kind are stored."""
        return self.store.collection(kind.collection)

    def find(self, kind: Kind, name: str, namespace: str | None) -> Entry:
        """The present state of an object. Raises ApiError 404."""
        entry = self.collection(kind).get(self._space(kind, namespace), name)
        if entry is None:
            raise errors.not_found(kind, name)
        return entry

    @staticmethod
    def _space(kind: Kind, namespace: str | None) -> str:
        return (namespace or "") if kind.namespaced else ""

    def create(self, kind: Kind, obj: Object, namespace: str | None, options: WriteOptions = DEFAULT) -> Entry:
        """Store a new object. Raises ApiError 400, 403, 404 (namespace), 409, 422."""
        if kind.namespaced:
            namespace = namespace or (obj.get("metadata") or {}).get("namespace")
            if not namespace:
                raise errors.bad_request("an empty namespace may not be set during creation")
        meta = metadata.for_create(kind, obj, namespace)
        fresh: Object = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta}
        fresh.update({key: value for key, value in obj.items() if key not in fresh})
        if kind.has_status and kind.name != "nodes":
            fresh.pop("status", None)
        fill = defaults.ON_CREATE.get(kind.name)
        if fill is not None and meta["name"]:
            fresh = fill(fresh)
        fresh = self._admit(Request(kind, "CREATE", fresh, None, "", options))
        name, space = fresh["metadata"]["name"], self._space(kind, namespace)
        if self.collection(kind).get(space, name) is not None:
            raise errors.already_exists(kind, name)
        if options.dry_run:
            return Entry((space, name), fresh, 0)
        return self._stored(kind, self.collection(kind).put(space, name, fresh), created=True)

    def _stored(self, kind: Kind, entry: Entry, *, created: bool) -> Entry:
        for listener in self.after_write:
            listener(kind, entry, created)
        return entry

    def _admit(self, request: Request) -> Object:
        obj = request.obj
        if not request.subresource:
            for hook in self.hooks:
                obj = hook(request.kind.name, request.operation, obj)
        for step in self.admission:
            if obj is not request.obj:
                request = replace(request, obj=obj)
            obj = step(request)
        return obj

    def update(
        self,
        kind: Kind,
        obj: Object,
        namespace: str | None,
        subresource: str = "",
        options: WriteOptions = DEFAULT,
    ) -> Entry:
        """Replace an object, or the part of it that a subresource covers. Raises ApiError 400, 403, 404, 409, 422."""
        meta = obj.get("metadata") or {}
        old = self.find(kind, meta.get("name") or "", namespace)
        return self._write(kind, old, obj, subresource, options)

    def _write(self, kind: Kind, old: Entry, obj: Object, subresource: str, options: WriteOptions) -> Entry:
        new = self._prepare(kind, old.obj, obj, subresource)
        new = self._admit(Request(kind, "UPDATE", new, old.obj, subresource, options))
        if new == old.obj:
            return old
        space, name = old.key
        if options.dry_run:
            return Entry(old.key, new, old.rv)
        if metadata.is_gone(kind, new):
            self._removed(kind, space, name)
            return Entry(old.key, new, old.rv)
        return self._stored(kind, self.collection(kind).put(space, name, new), created=False)

    def _removed(self, kind: Kind, space: str, name: str) -> Entry:
        return self._stored(kind, self.collection(kind).remove(space, name), created=False)

    @staticmethod
    def _prepare(kind: Kind, old: Object, obj: Object, subresource: str) -> Object:
        meta = metadata.for_update(kind, old, obj)
        if subresource == "status":
            meta["ownerReferences"] = old["metadata"].get("ownerReferences")
            if meta["ownerReferences"] is None:
                del meta["ownerReferences"]
            return {**old, "metadata": meta, "status": obj.get("status") or {}}
        if subresource == "finalize":
            return {**old, "metadata": meta, "spec": {**old.get("spec", {}), **(obj.get("spec") or {})}}
        new: Object = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": meta}
        new.update({key: value for key, value in obj.items() if key not in new})
        if kind.has_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        if kind.name == "secrets":
            new = defaults.fold_string_data(new)
        new = defaults.again(kind.name, old, new)
        if kind.generation and _changed(old, new):
            meta["generation"] = old["metadata"].get("generation", 0) + 1
        return new

    def modify(
        self,
        kind: Kind,
        name: str,
        namespace: str | None,
        change: Callable[[Object], Object],
        *,
        subresource: str = "",
        options: WriteOptions = DEFAULT,
    ) -> Entry:
        """Read, change, write: what every patch is. Raises ApiError like update.

        `change` gets the stored object itself: it makes a changed one and leaves that as it is.
        """
        old = self.find(kind, name, namespace)
        patched = change(old.obj)
        patched.setdefault("metadata", {}).setdefault("name", name)
        if patched["metadata"]["name"] != name:
            raise errors.bad_request(
                f"the name of the object ({patched['metadata']['name']}) does not match the name on the URL ({name})"
            )
        return self._write(kind, old, patched, subresource, options)

    def delete(self, kind: Kind, name: str, namespace: str | None, options: DeleteOptions) -> tuple[Object, bool]:
        """Delete, or begin to; the answer's object and whether it is really gone. Raises ApiError 404, 409, 403."""
        entry = self.find(kind, name, namespace)
        metadata.check_preconditions(kind, entry.obj, options)
        if kind.name == "namespaces" and name in _IMMORTAL:
            raise errors.forbidden(kind, name, "this namespace may not be deleted")
        for hook in self.hooks:
            hook(kind.name, "DELETE", entry.obj)
        grace = metadata.grace_of_pod(entry.obj, options.grace_period_s) if kind.name == "pods" else 0
        if options.grace_period_s is None and "deletionTimestamp" in entry.obj["metadata"]:
            grace = entry.obj["metadata"].get("deletionGracePeriodSeconds", 0)
        finalizers = metadata.deletion_finalizers(kind, entry.obj, options.propagation)
        marked = metadata.mark_deleted(kind, entry.obj, grace, finalizers)
        if kind.name == "namespaces":
            marked = {**marked, "status": {**(marked.get("status") or {}), "phase": "Terminating"}}
        space = entry.key[0]
        if metadata.is_gone(kind, marked):
            if options.dry_run:
                return self._deleted_answer(kind, entry.obj), True
            if kind.name == "pods" and marked != entry.obj:
                # Watchers of a pod see that its grace is over before they see it gone (golden 02, 05d).
                self._stored(kind, self.collection(kind).put(space, name, marked), created=False)
            last = self._removed(kind, space, name)
            return self._deleted_answer(kind, last.obj), True
        if marked == entry.obj or options.dry_run:
            return marked, False
        return self._stored(kind, self.collection(kind).put(space, name, marked), created=False).obj, False

    @staticmethod
    def _deleted_answer(kind: Kind, obj: Object) -> Object:
        if kind.name in _RETURNS_DELETED:
            return obj
        details: dict[str, Any] = {"name": obj["metadata"]["name"]}
        if kind.group:
            details["group"] = kind.group
        details |= {"kind": kind.plural, "uid": obj["metadata"]["uid"]}
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

    def bind(self, namespace: str, name: str, node: str) -> None:
        """Give a pod its node. Raises ApiError 404, 409."""
        kind = self.kinds.named("pods")
        if kind is None:
            raise errors.unknown_resource()
        old = self.find(kind, name, namespace)
        at = old.obj["spec"].get("nodeName")
        if at:
            raise _unbindable(name, f'pod {name} is already assigned to node "{at}"')
        if "deletionTimestamp" in old.obj["metadata"]:
            raise _unbindable(name, f"pod {name} is being deleted, cannot be assigned to a host")
        status = dict(old.obj.get("status") or {})
        others = [c for c in status.get("conditions") or [] if c["type"] != "PodScheduled"]
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": metadata.timestamp(),
        }
        status["conditions"] = [*others, scheduled]
        meta = {**old.obj["metadata"], "generation": old.obj["metadata"].get("generation", 0)}
        bound = {**old.obj, "metadata": meta, "spec": {**old.obj["spec"], "nodeName": node}, "status": status}
        self._stored(kind, self.collection(kind).put(namespace, name, bound), created=False)


def _unbindable(name: str, why: str) -> ApiError:
    details = {"name": name, "kind": "pods/binding"}
    return ApiError(409, "Conflict", f'Operation cannot be fulfilled on pods/binding "{name}": {why}', details)


def _changed(old: Object, new: Object) -> bool:
    ignored = ("metadata", "status")
    keys = {key for key in (*old, *new) if key not in ignored}
    return any(old.get(key) != new.get(key) for key in keys)
