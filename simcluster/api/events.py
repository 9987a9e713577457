"""Events in their two shapes: core/v1 as stored, events.k8s.io/v1 as some clients write and read them.

Owns the translation. It must not know who writes events.
"""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.api.port import Object

_TO_CORE: Mapping[str, str] = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedCount": "count",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedSource": "source",
}
_TO_NEW = {old: new for new, old in _TO_CORE.items()}


def to_core(obj: Object) -> Object:
    """The stored shape of an events.k8s.io/v1 Event."""
    renamed = {_TO_CORE.get(key, key): value for key, value in obj.items()}
    return {"source": {}, **renamed, "kind": "Event", "apiVersion": "v1"}


def view(obj: Object) -> Object:
    """An events.k8s.io/v1 Event of a stored one."""
    renamed = {_TO_NEW.get(key, key): value for key, value in obj.items()}
    return {**renamed, "kind": "Event", "apiVersion": "events.k8s.io/v1"}
