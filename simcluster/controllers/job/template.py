"""The pod that a Job makes: names, labels, hostname, index variable, owner, tracking finalizer.

Owns the shape of a new pod; must not know when one is made.
"""

from __future__ import annotations

from typing import Any

from simcluster.api.port import Object
from simcluster.controllers import fields
from simcluster.controllers.job import words

LONGEST_PREFIX = 58
INDEX_VARIABLE = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{words.INDEX_KEY}']"}},
}


class PodTemplate:
    """Makes the pods of one Job; what they share is built once, since stored objects are immutable."""

    def __init__(self, job: Object, *, indexed: bool) -> None:
        template = job["spec"]["template"]
        meta = template.get("metadata") or {}
        self._job_name = fields.name(job)
        self._namespace = fields.namespace(job)
        self._labels: dict[str, str] = meta.get("labels") or {}
        self._annotations: dict[str, str] = meta.get("annotations") or {}
        given: list[str] = meta.get("finalizers") or []
        self._finalizers = given if words.FINALIZER in given else [*given, words.FINALIZER]
        self._spec: dict[str, Any] = _with_index_variable(template["spec"]) if indexed else template["spec"]
        self._owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": self._job_name,
            "uid": fields.uid(job),
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def pod(self, index: int | None = None, extra_annotations: dict[str, str] | None = None) -> Object:
        """A new pod; `index` for an Indexed Job."""
        labels, notes, spec = self._labels, {**self._annotations, **(extra_annotations or {})}, self._spec
        prefix = f"{self._job_name[:LONGEST_PREFIX]}-"
        if index is not None:
            labels = {**labels, words.INDEX_KEY: str(index)}
            notes[words.INDEX_KEY] = str(index)
            spec = {**spec, "hostname": f"{self._job_name}-{index}"}
            tail = f"-{index}-"
            prefix = self._job_name[: LONGEST_PREFIX - len(tail)] + tail
        meta: dict[str, Any] = {
            "generateName": prefix,
            "namespace": self._namespace,
            "labels": labels,
            "finalizers": self._finalizers,
            "ownerReferences": [self._owner],
        }
        if notes:
            meta["annotations"] = notes
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _with_index_variable(spec: dict[str, Any]) -> dict[str, Any]:
    changed = dict(spec)
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            changed[kind] = [_container_with_index(container) for container in spec[kind]]
    return changed


def _container_with_index(container: dict[str, Any]) -> dict[str, Any]:
    env: list[dict[str, Any]] = container.get("env") or []
    if any(variable.get("name") == INDEX_VARIABLE["name"] for variable in env):
        return container
    return {**container, "env": [*env, INDEX_VARIABLE]}
