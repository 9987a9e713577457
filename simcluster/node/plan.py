"""A pod's containers in the order in which they start, each with its role, its first record and its restart policy.

Owns the reading of the spec. Pure: it must not know processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from simcluster.api.port import Object
from simcluster.node.status import ContainerRecord, waiting


@dataclass(frozen=True)
class PlannedContainer:
    """One container to come."""

    spec: Object
    record: ContainerRecord
    restart_policy: str


def planned(pod: Object) -> Iterator[PlannedContainer]:
    """Init containers and sidecars first, as in the spec, then the app containers."""
    spec = pod["spec"]
    policy = spec.get("restartPolicy", "Always")
    inits = spec.get("initContainers") or []
    first_state = waiting("PodInitializing" if inits else "ContainerCreating")
    for item in inits:
        if item.get("restartPolicy") == "Always":
            record = ContainerRecord(item["name"], item["image"], "sidecar", first_state, mounts=mounts_of(item))
            yield PlannedContainer(item, record, policy)
        else:
            record = ContainerRecord(item["name"], item["image"], "init", first_state, mounts=mounts_of(item))
            yield PlannedContainer(item, record, "OnFailure" if policy == "Always" else policy)
    for item in spec["containers"]:
        record = ContainerRecord(item["name"], item["image"], "app", first_state, mounts=mounts_of(item))
        yield PlannedContainer(item, record, policy)


def mounts_of(container: Object) -> list[Object]:
    """The container's mounts as its status shows them."""
    mounts = []
    for mount in container.get("volumeMounts") or []:
        shown = {"name": mount["name"], "mountPath": mount["mountPath"]}
        if mount.get("readOnly"):
            shown |= {"readOnly": True, "recursiveReadOnly": "Disabled"}
        mounts.append(shown)
    return mounts
