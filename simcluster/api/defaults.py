"""What a real API server fills in where a client left it out.

Owns defaulting of the kinds whose defaults a client can notice. It must not know who asks or what is stored.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

from simcluster.api.port import Object

_NOT_READY_S = 300


def image_pull_policy(image: str) -> str:
    """Always for a tag `latest` or none, IfNotPresent for any other tag or a digest."""
    if "@" in image:
        return "IfNotPresent"
    tag = image.rsplit("/", 1)[-1].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _probe(probe: dict[str, Any]) -> dict[str, Any]:
    defaults = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    return {**defaults, **probe}


def _resources(resources: Mapping[str, Any]) -> dict[str, Any]:
    filled = dict(resources)
    limits = resources.get("limits")
    if limits:
        filled["requests"] = {**limits, **(resources.get("requests") or {})}
    return filled


def _container(container: Mapping[str, Any]) -> dict[str, Any]:
    filled = dict(container)
    filled["resources"] = _resources(container.get("resources") or {})
    filled.setdefault("terminationMessagePath", "/dev/termination-log")
    filled.setdefault("terminationMessagePolicy", "File")
    filled.setdefault("imagePullPolicy", image_pull_policy(container.get("image") or ""))
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if filled.get(probe):
            filled[probe] = _probe(filled[probe])
    if filled.get("ports"):
        filled["ports"] = [{"protocol": "TCP", **port} for port in filled["ports"]]
    if filled.get("env"):
        filled["env"] = [_env(item) for item in filled["env"]]
    return filled


def _env(item: dict[str, Any]) -> dict[str, Any]:
    reference = (item.get("valueFrom") or {}).get("fieldRef")
    if not reference or "apiVersion" in reference:
        return item
    return {**item, "valueFrom": {"fieldRef": {"apiVersion": "v1", **reference}}}


def _volume(volume: dict[str, Any]) -> dict[str, Any]:
    for source in ("configMap", "secret", "projected", "downwardAPI"):
        if source in volume:
            return {**volume, source: {"defaultMode": 420, **(volume[source] or {})}}
    if "hostPath" in volume:
        return {**volume, "hostPath": {"type": "", **(volume["hostPath"] or {})}}
    known = {key for key in volume if key != "name"}
    return volume if known else {**volume, "emptyDir": {}}


def pod_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Defaults of a pod's spec or of a pod template's."""
    filled = dict(spec)
    for group in ("containers", "initContainers"):
        if isinstance(filled.get(group), list):
            filled[group] = [_container(container) for container in filled[group]]
    if filled.get("volumes"):
        filled["volumes"] = [_volume(volume) for volume in filled["volumes"]]
    filled.setdefault("restartPolicy", "Always")
    filled.setdefault("terminationGracePeriodSeconds", 30)
    filled.setdefault("dnsPolicy", "ClusterFirst")
    if filled.get("securityContext") is None:
        filled["securityContext"] = {}
    filled.setdefault("schedulerName", "default-scheduler")
    if account := filled.get("serviceAccountName") or filled.get("serviceAccount"):
        filled["serviceAccountName"] = filled["serviceAccount"] = account
    if filled.get("hostNetwork"):
        _host_ports(filled)
    return filled


def _host_ports(spec: dict[str, Any]) -> None:
    for container in spec.get("containers") or []:
        if container.get("ports"):
            container["ports"] = [{"hostPort": port.get("containerPort"), **port} for port in container["ports"]]


def _default_toleration(key: str) -> dict[str, Any]:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _NOT_READY_S}


def _tolerates(toleration: Mapping[str, Any], key: str) -> bool:
    effect = toleration.get("effect") or "NoExecute"
    return effect == "NoExecute" and toleration.get("key", "") in ("", key)


def _tolerations(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    tolerations = list(spec.get("tolerations") or [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(_tolerates(toleration, key) for toleration in tolerations):
            tolerations.append(_default_toleration(key))
    return tolerations


def qos_class(spec: Mapping[str, Any]) -> str:
    """BestEffort, Burstable or Guaranteed from cpu and memory of all containers."""
    asked, guaranteed = False, True
    for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            asked = asked or name in limits or name in requests
            guaranteed = guaranteed and name in limits and requests.get(name, limits[name]) == limits[name]
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def pod(obj: Object) -> Object:
    """A new pod: defaults of the spec, what admission adds, and the first status."""
    spec = pod_spec(obj.get("spec") or {})
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec["tolerations"] = _tolerations(spec)
    return {**obj, "spec": spec, "status": {"phase": "Pending", "qosClass": qos_class(spec)}}


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


_ROLLING_DS = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
_ROLLING_DEPLOY = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}


def _pod_again(obj: Object) -> Object:
    spec = pod_spec(obj.get("spec") or {})
    spec["tolerations"] = _tolerations(spec)
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


_TEMPLATED = frozenset({"daemonsets.apps", "deployments.apps", "replicasets.apps", "statefulsets.apps"})

ON_CREATE: Mapping[str, Callable[[Object], Object]] = {
    "pods": pod,
    "jobs.batch": job,
    "namespaces": namespace,
    "services": service,
    "secrets": secret,
    "persistentvolumeclaims": claim,
    "persistentvolumes": volume,
    "daemonsets.apps": _workload(revisionHistoryLimit=10, updateStrategy=_ROLLING_DS),
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
    "storageclasses.storage.k8s.io": _with(reclaimPolicy="Delete", volumeBindingMode="Immediate"),
    "priorityclasses.scheduling.k8s.io": _with(preemptionPolicy="PreemptLowerPriority"),
}
