"""The child Jobs of a JobSet, and the headless Service in which their pods have names.

Owns the shape of these objects. Pure; it must not know when they are made.
"""

from __future__ import annotations

import hashlib
from typing import Any

from simcluster.api.port import Object
from simcluster.controllers import fields
from simcluster.operators.jobset import spec, words


def child(jobset: Object, replicated: dict[str, Any], index: int) -> Object:
    """A new Job of the present attempt."""
    template = replicated["template"]
    job_spec = {**(template.get("spec") or {}), "suspend": spec.suspended(jobset)}
    pod = job_spec.get("template") or {}
    pod_spec = dict(pod.get("spec") or {})
    if spec.dns_hostnames(jobset):
        pod_spec["subdomain"] = spec.subdomain(jobset)
    marks = _marks(jobset, replicated, index)
    job_spec["template"] = {**pod, "metadata": _marked(pod.get("metadata") or {}, marks), "spec": pod_spec}
    kept = template.get("metadata") or {}
    meta = {name: kept[name] for name in ("labels", "annotations") if name in kept}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            **_marked(meta, marks),
            "name": spec.job_name(jobset, replicated, index),
            "namespace": fields.namespace(jobset),
            "ownerReferences": [owner(jobset)],
        },
        "spec": job_spec,
    }


def service(jobset: Object) -> Object:
    """The Service without an address of its own; its name is the pods' subdomain."""
    early = (fields.spec(jobset).get("network") or {}).get("publishNotReadyAddresses", True)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": spec.subdomain(jobset),
            "namespace": fields.namespace(jobset),
            "ownerReferences": [owner(jobset)],
        },
        "spec": {
            "clusterIP": "None",
            "selector": {words.NAME: fields.name(jobset)},
            "publishNotReadyAddresses": early,
        },
    }


def owner(jobset: Object) -> Object:
    """The owner reference of everything that a JobSet makes."""
    return {
        "apiVersion": words.API_VERSION,
        "kind": words.KIND,
        "name": fields.name(jobset),
        "uid": fields.uid(jobset),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _marked(meta: dict[str, Any], marks: dict[str, str]) -> dict[str, Any]:
    labels = {**(meta.get("labels") or {}), **marks}
    return {**meta, "labels": labels, "annotations": {**(meta.get("annotations") or {}), **marks}}


def _marks(jobset: Object, replicated: dict[str, Any], index: int) -> dict[str, str]:
    """What Jobs and pods carry as labels and as annotations alike."""
    every = spec.replicated_jobs(jobset)
    group = str(replicated.get("groupName", "default"))
    members = [each for each in every if each.get("groupName", "default") == group]
    place = f"{fields.namespace(jobset)}/{spec.job_name(jobset, replicated, index)}"
    marks = {
        "jobset-name": fields.name(jobset),
        "jobset-uid": fields.uid(jobset),
        "replicatedjob-name": str(replicated["name"]),
        "replicatedjob-replicas": str(spec.replicas(replicated)),
        "restart-attempt": str(spec.restarts(jobset)),
        "job-index": str(index),
        "job-global-index": str(_before(every, replicated) + index),
        "job-group-index": str(_before(members, replicated) + index),
        # An identifier that fits into a label, not a secret.
        "job-key": hashlib.sha1(place.encode(), usedforsecurity=False).hexdigest(),
        "global-replicas": str(sum(spec.replicas(each) for each in every)),
        "group-name": group,
        "group-replicas": str(sum(spec.replicas(each) for each in members)),
    }
    leader = fields.spec(jobset).get("coordinator")
    if leader:
        host = (
            f"{fields.name(jobset)}-{leader['replicatedJob']}-{leader.get('jobIndex', 0)}-{leader.get('podIndex', 0)}"
        )
        marks["coordinator"] = f"{host}.{spec.subdomain(jobset)}"
    return {f"{words.PREFIX}{name}": value for name, value in marks.items()}


def _before(every: list[dict[str, Any]], replicated: dict[str, Any]) -> int:
    """How many Jobs the replicated jobs in front of this one have."""
    names = [each["name"] for each in every]
    return sum(spec.replicas(each) for each in every[: names.index(replicated["name"])])
