"""Defaults of pods and pod templates: what stands in a container, a volume, a toleration that a client left out.

Owns those values. It must not know who asks or what is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def tolerations_of(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A pod's tolerations with the two that every pod gets for five minutes of a lost node."""
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
