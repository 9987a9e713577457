"""The Workload that stands for one owner in the queues: its shape, its name, its conditions.

Pure: owns these shapes; must not know when one is made or admitted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simcluster.api.port import Object
from simcluster.controllers import clock, fields
from simcluster.controllers.workloads.children import owner_reference
from simcluster.operators.kueue import words

API_VERSION = "kueue.x-k8s.io/v1beta1"
HASH_LENGTH = 5
LONGEST_PREFIX = 63 - 1 - HASH_LENGTH


@dataclass(frozen=True)
class PodSet:
    """Pods alike of one owner."""

    name: str
    count: int
    template: Object


def workload_name(owner: Object) -> str:
    """`<kind>-<owner>-<hash>`; the hash differs between owners of one name that follow each other."""
    kind, name = str(owner["kind"]), fields.name(owner)
    group = str(owner["apiVersion"]).rpartition("/")[0]
    digest = hashlib.sha1("\n".join((kind, group, name, fields.uid(owner))).encode(), usedforsecurity=False)
    return f"{f'{kind.lower()}-{name}'[:LONGEST_PREFIX]}-{digest.hexdigest()[:HASH_LENGTH]}"


def workload_for(owner: Object, pod_sets: Sequence[PodSet]) -> Object:
    """A new Workload of an owner with the queue label."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Workload",
        "metadata": {
            "name": workload_name(owner),
            "namespace": fields.namespace(owner),
            "labels": {words.JOB_UID_KEY: fields.uid(owner)},
            "finalizers": [words.FINALIZER],
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": {
            "active": True,
            "priority": 0,
            "priorityClassSource": "",
            "queueName": fields.labels(owner)[words.QUEUE_KEY],
            "podSets": [{"name": each.name, "count": each.count, "template": each.template} for each in pod_sets],
        },
    }


def pod_sets_of(workload: Object) -> list[PodSet]:
    """The pod sets as they were when the Workload was made."""
    return [
        PodSet(each.get("name") or "main", int(each["count"]), each["template"])
        for each in fields.spec(workload).get("podSets") or ()
    ]


def is_true(workload: Object, kind: str) -> bool:
    """Whether that condition holds."""
    return fields.condition_true(workload, kind)


def admission_of(workload: Object) -> Object:
    """status.admission, empty without a reservation."""
    found: dict[str, Any] = fields.status(workload).get("admission") or {}
    return found


def holds_quota(workload: Object) -> bool:
    """What it was given counts as used: reserved and not finished, also while its pods are still leaving."""
    return bool(admission_of(workload)) and not is_true(workload, words.FINISHED)


def waits(workload: Object) -> bool:
    """It wants quota and has none."""
    return not (
        admission_of(workload)
        or is_true(workload, words.FINISHED)
        or fields.deleting(workload)
        or fields.spec(workload).get("active") is False
    )


def with_conditions(obj: Object, changes: Mapping[str, tuple[bool, str, str]]) -> Object:
    """The object's status with conditions set: type to (holds, reason, message); an unchanged one keeps its time."""
    kept = {each["type"]: each for each in fields.status(obj).get("conditions") or ()}
    for kind, (holds, reason, message) in changes.items():
        value = "True" if holds else "False"
        before = kept.get(kind) or {}
        since = before.get("lastTransitionTime") if before.get("status") == value else None
        kept[kind] = {
            "type": kind,
            "status": value,
            "reason": reason,
            "message": message,
            "lastTransitionTime": since or clock.stamp(),
            "observedGeneration": fields.meta(obj).get("generation", 1),
        }
    return {**fields.status(obj), "conditions": list(kept.values())}


def reserved(workload: Object, queue: str, assignments: Sequence[Object]) -> Object:
    """The status of one that was admitted."""
    changes = {
        words.RESERVED: (True, "QuotaReserved", f"Quota reserved in ClusterQueue {queue}"),
        words.ADMITTED: (True, *words.IS_ADMITTED),
    }
    for stale in (words.EVICTED, words.PREEMPTED):
        before = fields.condition(workload, stale)
        if before is not None and before["status"] == "True":
            changes[stale] = (False, "QuotaReserved", f"Previously: {before.get('message', '')}")
    admission = {"clusterQueue": queue, "podSetAssignments": list(assignments)}
    return {**with_conditions(workload, changes), "admission": admission}


def refused(workload: Object, reason: str, message: str) -> Object:
    """The status of one that waits, and why."""
    return with_conditions(workload, {words.RESERVED: (False, reason, message)})


def evicted(workload: Object, reason: str, message: str) -> Object:
    """The status of one that has to leave; it keeps its quota until its pods are gone."""
    return with_conditions(workload, {words.EVICTED: (True, reason, message)})


def released(workload: Object) -> Object:
    """The status of an evicted one whose pods are gone: it waits again."""
    why = fields.condition(workload, words.EVICTED) or {}
    reason, message = why.get("reason", ""), why.get("message", "")
    stopped = reason in {words.QUEUE_STOPPED[0], words.LOCAL_QUEUE_STOPPED[0], words.DEACTIVATED[0]}
    status = with_conditions(
        workload,
        {
            words.RESERVED: (False, words.PENDING, message),
            words.ADMITTED: (False, *words.NO_RESERVATION),
            words.REQUEUED: (not stopped, reason, message),
        },
    )
    return {name: value for name, value in status.items() if name != "admission"}
