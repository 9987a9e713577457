"""The few fields of an object that every controller reads, with their absences.

Owns no rule of any controller; must not write to an object.
"""

from __future__ import annotations

from typing import Any

from simcluster.api.port import Object

TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})


def meta(obj: Object) -> dict[str, Any]:
    """metadata, which every stored object has."""
    found: dict[str, Any] = obj["metadata"]
    return found


def name(obj: Object) -> str:
    """metadata.name."""
    return str(obj["metadata"]["name"])


def namespace(obj: Object) -> str:
    """metadata.namespace, "" for a cluster-scoped object."""
    return str(obj["metadata"].get("namespace") or "")


def uid(obj: Object) -> str:
    """metadata.uid."""
    return str(obj["metadata"].get("uid", ""))


def key(obj: Object) -> tuple[str, str]:
    """(namespace, name): the key of an informer's items."""
    return namespace(obj), name(obj)


def version(obj: Object) -> int:
    """resourceVersion as a number: this cluster's store counts upwards."""
    text = str(obj["metadata"].get("resourceVersion") or "0")
    return int(text) if text.isdigit() else 0


def labels(obj: Object) -> dict[str, str]:
    """metadata.labels, empty where there are none."""
    return obj["metadata"].get("labels") or {}


def notes(obj: Object) -> dict[str, str]:
    """metadata.annotations, empty where there are none."""
    return obj["metadata"].get("annotations") or {}


def finalizers(obj: Object) -> list[str]:
    """metadata.finalizers, empty where there are none."""
    return obj["metadata"].get("finalizers") or []


def owners(obj: Object) -> list[dict[str, Any]]:
    """metadata.ownerReferences, empty where there are none."""
    return obj["metadata"].get("ownerReferences") or []


def controller_of(obj: Object) -> dict[str, Any] | None:
    """The owner reference marked as controller."""
    return next((ref for ref in owners(obj) if ref.get("controller")), None)


def deleting(obj: Object) -> bool:
    """A deletionTimestamp is set."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def spec(obj: Object) -> dict[str, Any]:
    """spec, empty where there is none."""
    return obj.get("spec") or {}


def status(obj: Object) -> dict[str, Any]:
    """status, empty where there is none."""
    return obj.get("status") or {}


def phase(pod: Object) -> str:
    """A pod's status.phase, "" before it has one."""
    return str(status(pod).get("phase") or "")


def terminal(pod: Object) -> bool:
    """The pod will not run again: Succeeded or Failed."""
    return phase(pod) in TERMINAL_PHASES


def node_of(pod: Object) -> str:
    """spec.nodeName, "" while the pod is not bound."""
    return str(spec(pod).get("nodeName") or "")


def condition(obj: Object, kind: str) -> dict[str, Any] | None:
    """The condition of that type; their order means nothing."""
    return next((c for c in status(obj).get("conditions") or [] if c.get("type") == kind), None)


def condition_true(obj: Object, kind: str) -> bool:
    """The condition of that type exists and its status is True."""
    found = condition(obj, kind)
    return found is not None and found.get("status") == "True"


def ready(pod: Object) -> bool:
    """The pod's Ready condition is True."""
    return condition_true(pod, "Ready")
