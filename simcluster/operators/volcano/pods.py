"""The pods of a Volcano Job and what its plugins add: names, labels, index variables, hostnames, the headless Service.

Pure: owns these shapes; must not know when one is made.
"""

from __future__ import annotations

import copy
from typing import Any

from simcluster.api.port import Object
from simcluster.controllers import fields
from simcluster.controllers.quantity import text_of
from simcluster.controllers.scheduler.podinfo import requests_of
from simcluster.controllers.workloads.children import owner_reference
from simcluster.operators.volcano import spec, words
from simcluster.operators.volcano.spec import Member

HOSTS_AT = "/etc/volcano"
"""Where the plugin svc mounts the names of all pods."""


def pod_of(job: Object, member: Member) -> Object:
    """A new pod of the Job's present version; one that replaces another has the same name."""
    meta = member.template.get("metadata") or {}
    status, queue = fields.status(job), str(fields.spec(job)["queue"])
    labels = {
        words.JOB_KEY: fields.name(job),
        words.NAMESPACE_KEY: fields.namespace(job),
        words.TASK_KEY: member.task,
        words.INDEX_KEY: str(member.index),
        words.QUEUE_KEY: queue,
    }
    notes = {
        words.JOB_KEY: fields.name(job),
        words.TASK_KEY: member.task,
        words.INDEX_KEY: str(member.index),
        words.QUEUE_KEY: queue,
        words.VERSION_KEY: str(status.get("version") or 0),
        words.RETRY_KEY: str(status.get("retryCount") or 0),
        words.TEMPLATE_KEY: f"{fields.name(job)}-{member.task}",
        words.GROUP_KEY: spec.group_name(job),
    }
    pod_spec: dict[str, Any] = copy.deepcopy(member.template.get("spec") or {})
    pod_spec["schedulerName"] = pod_spec.get("schedulerName") or fields.spec(job)["schedulerName"]
    plugins = spec.plugins(job)
    if "env" in plugins:
        for name in ("VK_TASK_INDEX", "VC_TASK_INDEX"):
            _add_variable(pod_spec, {"name": name, "value": str(member.index)})
    if "svc" in plugins:
        _add_hosts(job, pod_spec, member.name)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": member.name,
            "namespace": fields.namespace(job),
            "labels": {**(meta.get("labels") or {}), **labels},
            "annotations": {**(meta.get("annotations") or {}), **notes},
            "ownerReferences": [owner_reference(job)],
        },
        "spec": pod_spec,
    }


def _containers(pod_spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod_spec["containers"], *(pod_spec.get("initContainers") or ())]


def _add_variable(pod_spec: dict[str, Any], variable: dict[str, Any]) -> None:
    for container in _containers(pod_spec):
        container["env"] = [*(container.get("env") or ()), variable]


def _add_hosts(job: Object, pod_spec: dict[str, Any], name: str) -> None:
    pod_spec["hostname"] = pod_spec.get("hostname") or name
    pod_spec["subdomain"] = pod_spec.get("subdomain") or fields.name(job)
    hosts = spec.hosts_map(job)
    for variable in (name for task in spec.tasks(job) for name in _variables(task["name"])):
        reference = {"configMapKeyRef": {"name": hosts, "key": variable}}
        _add_variable(pod_spec, {"name": variable, "valueFrom": reference})
    volume = {"name": hosts, "configMap": {"name": hosts}}
    pod_spec["volumes"] = [*(pod_spec.get("volumes") or ()), volume]
    for container in _containers(pod_spec):
        mount = {"name": hosts, "mountPath": HOSTS_AT}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


def _variables(task: str) -> tuple[str, str]:
    name = task.replace("-", "_").upper()
    return f"VC_{name}_HOSTS", f"VC_{name}_NUM"


def plugin_objects(job: Object) -> list[tuple[str, Object]]:
    """What the plugin svc makes: a headless Service of the Job's name, and the names of all pods."""
    if "svc" not in spec.plugins(job):
        return []
    hosts: dict[str, list[str]] = {task["name"]: [] for task in spec.tasks(job)}
    for member in spec.members(job):
        own = member.template.get("spec") or {}
        name = f"{own.get('hostname') or member.name}.{own.get('subdomain') or fields.name(job)}"
        hosts[member.task].append(name)
    data: dict[str, str] = {}
    for task, names in hosts.items():
        listed, number = _variables(task)
        data |= {f"{task.replace('-', '_')}.host": "\n".join(names), listed: ",".join(names), number: str(len(names))}
    early = "--publish-not-ready-addresses=true" in spec.plugins(job)["svc"]
    service = {
        "clusterIP": "None",
        "publishNotReadyAddresses": early,
        "selector": {words.JOB_KEY: fields.name(job), words.NAMESPACE_KEY: fields.namespace(job)},
    }
    return [
        ("configmaps", {**_owned(job, "ConfigMap", spec.hosts_map(job)), "data": data}),
        ("services", {**_owned(job, "Service", fields.name(job)), "spec": service}),
    ]


def _owned(job: Object, kind: str, name: str) -> Object:
    metadata = {"name": name, "namespace": fields.namespace(job), "ownerReferences": [owner_reference(job)]}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata}


def group_of(job: Object) -> Object:
    """The PodGroup that keeps its pods together."""
    least = spec.min_available(job)
    needed: dict[str, int] = {}
    for member in list(spec.members(job))[:least]:
        for resource, value in requests_of(member.template.get("spec") or {}).items():
            if resource != "pods":
                needed[resource] = needed.get(resource, 0) + value
    priority = fields.spec(job).get("priorityClassName")
    return {
        **_owned(job, "PodGroup", spec.group_name(job)),
        "apiVersion": words.SCHEDULING_VERSION,
        "spec": {
            "minMember": least,
            "minTaskMember": {task["name"]: task["minAvailable"] for task in spec.tasks(job)},
            "queue": fields.spec(job)["queue"],
            "minResources": {resource: text_of(resource, value) for resource, value in needed.items()},
            **({"priorityClassName": priority} if priority else {}),
        },
    }
