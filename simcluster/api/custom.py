"""CustomResourceDefinitions: what they add to the kinds that are served.

Owns that bookkeeping. It must not know HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simcluster.api.kinds import Kind
from simcluster.api.metadata import timestamp
from simcluster.api.port import Object
from simcluster.api.resources import Resources
from simcluster.api.store import Entry

CRDS = "customresourcedefinitions.apiextensions.k8s.io"


class CustomKinds:
    """Serves what definitions define; listens to their writes."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._served: dict[str, list[Kind]] = {}
        self.columns: dict[str, Sequence[Mapping[str, Any]]] = {}
        self.schemas: dict[Kind, Mapping[str, Any]] = {}
        resources.after_write.append(self._heard)

    def _heard(self, kind: Kind, entry: Entry, _created: bool) -> None:
        if kind.name != CRDS:
            return
        name = entry.key[1]
        present = self._resources.collection(kind).get("", name)
        for gone in self._served.pop(name, []):
            self._resources.kinds.remove(gone)
            self.schemas.pop(gone, None)
        if present is None:
            self._resources.store.drop(name)
            return
        self._serve(name, present.obj)
        if not (present.obj.get("status") or {}).get("conditions"):
            self._establish(kind, present.obj)

    def _serve(self, name: str, definition: Object) -> None:
        spec, served = definition["spec"], []
        names = spec["names"]
        for version in spec.get("versions") or []:
            if not version.get("served", True):
                continue
            subresources = version.get("subresources") or {}
            kind = Kind(
                spec["group"],
                version["name"],
                names["plural"],
                names["kind"],
                spec.get("scope") == "Namespaced",
                short=tuple(names.get("shortNames") or ()),
                subresources=tuple(name for name in ("status", "scale") if name in subresources),
                categories=tuple(names.get("categories") or ()),
                generation=True,
                custom=True,
                singular=names.get("singular") or names["kind"].lower(),
                list_kind=names.get("listKind") or f"{names['kind']}List",
            )
            self._resources.kinds.add(kind)
            served.append(kind)
            self.schemas[kind] = (version.get("schema") or {}).get("openAPIV3Schema") or {}
            self.columns[kind.name] = version.get("additionalPrinterColumns") or ()
        self._served[name] = served

    def _establish(self, kind: Kind, definition: Object) -> None:
        spec = definition["spec"]
        names = dict(spec["names"])
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
        now = timestamp()
        conditions = [
            {
                "type": "NamesAccepted",
                "status": "True",
                "lastTransitionTime": now,
                "reason": "NoConflicts",
                "message": "no conflicts found",
            },
            {
                "type": "Established",
                "status": "True",
                "lastTransitionTime": now,
                "reason": "InitialNamesAccepted",
                "message": "the initial names have been accepted",
            },
        ]
        stored = [version["name"] for version in spec.get("versions") or [] if version.get("storage")]
        status = {"conditions": conditions, "acceptedNames": names, "storedVersions": stored}
        self._resources.modify(
            kind, definition["metadata"]["name"], None, lambda obj: {**obj, "status": status}, subresource="status"
        )
