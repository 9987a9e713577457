"""Admission webhooks that do harm.

Owns which objects they alter or refuse. Pure: they see one object at a time.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Literal

from simcluster.api.port import ApiError, Object
from simcluster.controllers import fields
from simcluster.node.context import GPU_RESOURCE
from simcluster.operators.kueue import words
from simcluster.operators.kueue.owners import with_suspend

Operation = Literal["CREATE", "UPDATE", "DELETE"]


def _asks_for_gpus(container: Object) -> bool:
    limits = (container.get("resources") or {}).get("limits") or {}
    return GPU_RESOURCE in limits


class LimitGpuMemory:
    """Sets a memory limit on the named container of each new pod, where that container asks for GPUs."""

    def __init__(self, container: str, memory: str) -> None:
        self._container = container
        self._memory = memory

    def __call__(self, resource: str, operation: Operation, obj: Object) -> Object:
        """The pod with its limit; anything else as it is."""
        if resource != "pods" or operation != "CREATE":
            return obj
        changed = copy.deepcopy(obj)
        for container in changed["spec"]["containers"]:
            if container["name"] == self._container and _asks_for_gpus(container):
                container["resources"]["limits"]["memory"] = self._memory
                container["resources"].setdefault("requests", {})["memory"] = self._memory
        return changed


class PatchSource:
    """Exchanges a text in one file of every new ConfigMap that has it."""

    def __init__(self, file: str, change: Callable[[str], str]) -> None:
        self._file, self._change = file, change

    def __call__(self, resource: str, operation: Operation, obj: Object) -> Object:
        """The ConfigMap with the text exchanged; anything else as it is."""
        data = obj.get("data") or {}
        if resource != "configmaps" or operation != "CREATE" or self._file not in data:
            return obj
        return {**obj, "data": {**data, self._file: self._change(data[self._file])}}


class CapJobRetries:
    """Sets every new Job's retries to none."""

    def __call__(self, resource: str, operation: Operation, obj: Object) -> Object:
        """The Job without retries; anything else as it is."""
        if resource != "jobs.batch" or operation != "CREATE" or not obj["spec"].get("backoffLimitPerIndex"):
            return obj
        return {**obj, "spec": {**obj["spec"], "backoffLimitPerIndex": 0}}


class SuspendUnqueuedJobs:
    """Suspends every new Job without the label of a queue."""

    def __call__(self, resource: str, operation: Operation, obj: Object) -> Object:
        """The Job, suspended; anything else as it is."""
        if resource != "jobs.batch" or operation != "CREATE" or words.QUEUE_KEY in fields.labels(obj):
            return obj
        return with_suspend(obj, value=True)


class ForbidJobPods:
    """Refuses each pod that a Job creates, as Pod Security does."""

    def __init__(self, message: str) -> None:
        self._message = message

    def __call__(self, resource: str, operation: Operation, obj: Object) -> Object:
        """The object; `ApiError` 403 for a Job's pod."""
        owners = obj["metadata"].get("ownerReferences") or []
        if resource == "pods" and operation == "CREATE" and any(owner.get("kind") == "Job" for owner in owners):
            name = obj["metadata"].get("name") or obj["metadata"].get("generateName", "")
            text = f'pods "{name}" is forbidden: {self._message}'
            raise ApiError(403, "Forbidden", text, {"name": name, "kind": "pods"})
        return obj


class ChangeStorageClass:
    """Makes a storage class other than it should be: an installation's mistake, or its provider's choice."""

    def __init__(self, name: str, fields: Mapping[str, bool | str], parameters: Mapping[str, str]) -> None:
        self._name, self._fields, self._parameters = name, fields, parameters

    def __call__(self, resource: str, operation: Operation, obj: Object) -> Object:
        """The class with its changes; anything else as it is."""
        if not resource.startswith("storageclasses") or operation != "CREATE" or obj["metadata"]["name"] != self._name:
            return obj
        return {**obj, **self._fields, "parameters": {**(obj.get("parameters") or {}), **self._parameters}}
