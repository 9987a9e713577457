"""ObjectMeta as the server keeps it: names, uids, timestamps, finalizers, and when a deleted object is really gone.

Owns the rules of metadata that hold for every kind. It must not know where objects are stored.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from simcluster.api import errors
from simcluster.api.kinds import Kind
from simcluster.api.port import ApiError, Object, Propagation

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "generateName")
_LONGEST_PREFIX = 58


def timestamp(at: datetime | None = None) -> str:
    """RFC 3339 in UTC with whole seconds, as metadata and conditions carry it."""
    return _text(int(time.time() if at is None else at.timestamp()))


@lru_cache(maxsize=64)
def _text(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_timestamp(text: str) -> datetime:
    """The instant of an RFC 3339 text."""
    return datetime.fromisoformat(text)


def random_suffix() -> str:
    """Five characters that spell no word, as generateName appends."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(5))


def for_create(kind: Kind, obj: Object, namespace: str | None) -> dict[str, Any]:
    """Metadata of a new object. Raises ApiError 400 for a wrong namespace or a resourceVersion."""
    given = dict(obj.get("metadata") or {})
    if given.get("resourceVersion") not in (None, "", "0"):
        raise errors.bad_request("resourceVersion should not be set on objects to be created")
    check_namespace(kind, given, namespace)
    name = given.pop("name", None) or ""
    if not name and given.get("generateName"):
        name = given["generateName"][:_LONGEST_PREFIX] + random_suffix()
    made: dict[str, Any] = {"name": name}
    if "generateName" in given:
        made["generateName"] = given["generateName"]
    if kind.namespaced:
        made["namespace"] = namespace
    made["uid"] = str(uuid.uuid4())
    if kind.generation:
        made["generation"] = 1
    made["creationTimestamp"] = timestamp()
    dropped = {"namespace", "resourceVersion", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", *made}
    made.update({key: value for key, value in given.items() if key not in dropped and value not in (None, {}, [])})
    return made


def check_namespace(kind: Kind, metadata: Mapping[str, Any], namespace: str | None) -> None:
    """Raises ApiError 400 where an object's own namespace is not the one it is sent to."""
    own = metadata.get("namespace") or ""
    if own and own != (namespace or ""):
        if not kind.namespaced:
            raise errors.bad_request("namespace may not be set on cluster-scoped objects")
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def for_update(kind: Kind, old: Object, new: Object) -> dict[str, Any]:
    """Metadata of a changed object: the client's, with what a client may not change taken from the stored one.

    Raises ApiError 409 for a stale resourceVersion or another uid.
    """
    before, given = old["metadata"], dict(new.get("metadata") or {})
    version = given.get("resourceVersion")
    if version not in (None, "", "0", before["resourceVersion"]):
        raise errors.conflict(kind, before["name"])
    if given.get("uid") not in (None, "", before["uid"]):
        why = f"Precondition failed: UID in precondition: {given['uid']}, UID in object meta: {before['uid']}"
        raise errors.conflict(kind, before["name"], why)
    _check_finalizers(kind, before, given)
    made = {key: before[key] for key in ("name", "namespace", *_KEPT, "resourceVersion") if key in before}
    dropped = {"selfLink", *_KEPT, *made}
    made.update({key: value for key, value in given.items() if key not in dropped and value not in (None, {}, [])})
    return made


def _check_finalizers(kind: Kind, before: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    if "deletionTimestamp" not in before:
        return
    present = before.get("finalizers") or ()
    fresh = [name for name in given.get("finalizers") or () if name not in present]
    if fresh:
        shown = ", ".join(f'"{name}"' for name in fresh)
        text = (
            f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
        )
        # Two validations find the same, and a real server tells both causes (19b).
        raise errors.invalid(kind, before["name"], [errors.forbidden_value("metadata.finalizers", text)] * 2)


@dataclass(frozen=True)
class DeleteOptions:
    """What a DELETE asks for beyond the name."""

    grace_period_s: int | None = None
    propagation: Propagation | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False


def check_preconditions(kind: Kind, obj: Object, options: DeleteOptions) -> None:
    """Raises ApiError 409 where uid or resourceVersion are not those asked for."""
    metadata = obj["metadata"]
    if options.uid is not None and options.uid != metadata["uid"]:
        raise errors.precondition(kind, metadata["name"], "UID", options.uid, metadata["uid"])
    wanted = options.resource_version
    if wanted is not None and wanted != metadata["resourceVersion"]:
        raise errors.precondition(kind, metadata["name"], "ResourceVersion", wanted, metadata["resourceVersion"])


def deletion_finalizers(kind: Kind, obj: Object, propagation: Propagation | None) -> list[str]:
    """Finalizers after a DELETE: the garbage collector's own come and go with the propagation asked for."""
    present: list[str] = list(obj["metadata"].get("finalizers") or [])
    if propagation is None:
        if ORPHAN in present or FOREGROUND in present or kind.name != "jobs.batch":
            return present
        propagation = "Orphan"
    kept = [name for name in present if name not in (ORPHAN, FOREGROUND)]
    match propagation:
        case "Orphan":
            return [*kept, ORPHAN]
        case "Foreground":
            return [*kept, FOREGROUND]
        case "Background":
            return kept
    raise ApiError(422, "Invalid", f"unknown propagationPolicy {propagation}")


def grace_of_pod(pod: Object, asked_s: int | None) -> int:
    """Seconds a pod may take to end: none where it was never bound or is over."""
    spec, phase = pod["spec"], (pod.get("status") or {}).get("phase")
    if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    grace = spec.get("terminationGracePeriodSeconds", 30) if asked_s is None else asked_s
    return int(grace) if grace >= 0 else 1


def mark_deleted(kind: Kind, obj: Object, grace_s: int, finalizers: list[str]) -> Object:
    """The object with a deletion timestamp, or with a shorter grace where it has one already."""
    metadata = dict(obj["metadata"])
    if "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = timestamp(datetime.now(UTC) + timedelta(seconds=grace_s))
        if kind.name != "namespaces":
            metadata["deletionGracePeriodSeconds"] = grace_s
        if kind.generation:
            metadata["generation"] = metadata.get("generation", 0) + 1
    elif grace_s < metadata.get("deletionGracePeriodSeconds", 0):
        start = parse_timestamp(metadata["deletionTimestamp"]) - timedelta(
            seconds=metadata["deletionGracePeriodSeconds"]
        )
        metadata["deletionTimestamp"] = timestamp(start + timedelta(seconds=grace_s))
        metadata["deletionGracePeriodSeconds"] = grace_s
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
    return {**obj, "metadata": metadata}


def is_gone(kind: Kind, obj: Object) -> bool:
    """Whether a deleted object has nothing left that keeps it."""
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if kind.name == "namespaces":
        return not (obj.get("spec") or {}).get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")
