"""What a real API server fills in where a client left it out.

Owns defaulting of the kinds whose defaults a client can notice. It must not know who asks or what is stored.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

from simcluster.api.metadata import timestamp
from simcluster.api.poddefaults import pod_spec, qos_class, tolerations_of
from simcluster.api.port import Object

_GATED: Mapping[str, Any] = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def pod(obj: Object) -> Object:
    """A new pod: defaults of the spec, what admission adds, and the first status."""
    spec = pod_spec(obj.get("spec") or {})
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec["tolerations"] = tolerations_of(spec)
    status: Object = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        status["conditions"] = [{**_GATED, "lastTransitionTime": timestamp()}]
    return {**obj, "spec": spec, "status": {**status, "qosClass": qos_class(spec)}}


def _template(spec: Mapping[str, Any]) -> dict[str, Any]:
    template = dict(spec.get("template") or {})
    template["metadata"] = dict(template.get("metadata") or {})
    inner = template.get("spec") or {}
    filled = pod_spec(inner)
    if "restartPolicy" not in inner and "completionMode" in spec:
        del filled["restartPolicy"]
    template["spec"] = filled
    return template


def job(obj: Object) -> Object:
    """A new Job: counters, selector and the labels that tie pods to it."""
    spec = dict(obj.get("spec") or {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = spec["parallelism"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 2_147_483_647 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    spec["template"] = _template(spec)
    metadata = dict(obj["metadata"])
    if not spec["manualSelector"]:
        uid, name = metadata["uid"], metadata["name"]
        ties = {"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name}
        ties |= {"controller-uid": uid, "job-name": name}
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
        inner = spec["template"]["metadata"]
        inner["labels"] = {**(inner.get("labels") or {}), **ties}
    metadata.setdefault("labels", dict(spec["template"]["metadata"].get("labels") or {}))
    return {**obj, "metadata": metadata, "spec": spec, "status": {}}


def namespace(obj: Object) -> Object:
    """A new namespace: its own name as a label, its finalizer, phase Active."""
    metadata = dict(obj["metadata"])
    metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}
    return {**obj, "metadata": metadata, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}


def _workload(**extra: Any) -> Callable[[Object], Object]:
    def fill(obj: Object) -> Object:
        spec = {**extra, **(obj.get("spec") or {})}
        spec["template"] = _template(spec)
        return {**obj, "spec": spec, "status": obj.get("status") or {}}

    return fill


_ROLLING_DS = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}


def daemon_set(obj: Object) -> Object:
    """A new daemon set: its counters at zero, and the annotation that old clients look for."""
    filled = _workload(revisionHistoryLimit=10, updateStrategy=_ROLLING_DS)(obj)
    metadata = dict(obj["metadata"])
    metadata["annotations"] = {**(metadata.get("annotations") or {}), "deprecated.daemonset.template.generation": "1"}
    counters = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    return {**filled, "metadata": metadata, "status": dict.fromkeys(counters, 0)}


def service(obj: Object) -> Object:
    """A new service: type, session affinity, ports; addresses are given elsewhere."""
    spec = dict(obj.get("spec") or {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
    if spec.get("ports"):
        spec["ports"] = [{"protocol": "TCP", "targetPort": port.get("port"), **port} for port in spec["ports"]]
    return {**obj, "spec": spec, "status": {"loadBalancer": {}}}


def claim(obj: Object) -> Object:
    """A new claim for a volume."""
    spec = {"volumeMode": "Filesystem", **(obj.get("spec") or {})}
    return {**obj, "spec": spec, "status": {"phase": "Pending"}}


def volume(obj: Object) -> Object:
    """A new volume."""
    spec = {"volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain", **(obj.get("spec") or {})}
    return {**obj, "spec": spec, "status": {"phase": "Available"}}


def secret(obj: Object) -> Object:
    """A new secret: type, and stringData folded into data."""
    filled = {"type": "Opaque", **obj}
    return fold_string_data(filled)


def _with(**extra: Any) -> Callable[[Object], Object]:
    return lambda obj: {**extra, **obj}


def fold_string_data(obj: Object) -> Object:
    """A secret whose write-only stringData is merged into data, base64."""
    plain = obj.get("stringData")
    if plain is None:
        return obj
    encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in plain.items()}
    filled = {key: value for key, value in obj.items() if key != "stringData"}
    return {**filled, "data": {**(obj.get("data") or {}), **encoded}}


_ROLLING_DEPLOY = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}


def _pod_again(obj: Object) -> Object:
    spec = pod_spec(obj.get("spec") or {})
    spec["tolerations"] = tolerations_of(spec)
    return {**obj, "spec": spec}


def _template_again(obj: Object) -> Object:
    spec = dict(obj.get("spec") or {})
    spec["template"] = _template(spec)
    return {**obj, "spec": spec}


def _job_again(old: Object, obj: Object) -> Object:
    kept = ("parallelism", "backoffLimit", "completionMode", "suspend", "manualSelector", "selector")
    before, spec = old["spec"], dict(obj.get("spec") or {})
    for name in (*kept, "podReplacementPolicy", "completions"):
        if name in before:
            spec.setdefault(name, before[name])
    spec["template"] = _template(spec)
    labels = before["template"]["metadata"].get("labels") or {}
    ties = {key: value for key, value in labels.items() if key.rpartition("/")[2] in ("controller-uid", "job-name")}
    metadata = spec["template"]["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), **ties}
    return {**obj, "spec": spec}


def again(resource: str, old: Object, new: Object) -> Object:
    """Defaults of what an update left out; nothing to do where the spec is the old one."""
    if new.get("spec") == old.get("spec"):
        return new
    if resource == "pods":
        return _pod_again(new)
    if resource == "jobs.batch":
        return _job_again(old, new)
    if resource in _TEMPLATED:
        return _template_again(new)
    return new


_WITH_SPEC = (
    "nodes",
    "resourcequotas",
    "limitranges",
    "leases.coordination.k8s.io",
    "networkpolicies.networking.k8s.io",
    "poddisruptionbudgets.policy",
)
"""Kinds without defaults of their own that always show a spec."""

_TEMPLATED = frozenset({"daemonsets.apps", "deployments.apps", "replicasets.apps", "statefulsets.apps"})

ON_CREATE: Mapping[str, Callable[[Object], Object]] = {
    "pods": pod,
    "jobs.batch": job,
    "namespaces": namespace,
    "services": service,
    "secrets": secret,
    "persistentvolumeclaims": claim,
    "persistentvolumes": volume,
    "daemonsets.apps": daemon_set,
    "deployments.apps": _workload(
        replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600, strategy=_ROLLING_DEPLOY
    ),
    "replicasets.apps": _workload(replicas=1),
    "statefulsets.apps": _workload(
        replicas=1,
        revisionHistoryLimit=10,
        podManagementPolicy="OrderedReady",
        updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
    ),
    **dict.fromkeys(_WITH_SPEC, _with(spec={})),
    "storageclasses.storage.k8s.io": _with(reclaimPolicy="Delete", volumeBindingMode="Immediate"),
    "priorityclasses.scheduling.k8s.io": _with(preemptionPolicy="PreemptLowerPriority"),
}
