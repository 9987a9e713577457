"""What makes a pod or a pod template invalid.

Owns those rules. It must not know HTTP or admission.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from simcluster.api.errors import Cause, invalid_value, required, unsupported
from simcluster.api.port import Object
from simcluster.api.quantities import parse
from simcluster.api.validation.names import label_error

_POLICIES = ("Always", "OnFailure", "Never")
_IMAGE_POLICIES = ("Always", "IfNotPresent", "Never")


def check_pod(obj: Object) -> list[Cause]:
    """Causes in a pod."""
    return check_spec(obj["spec"], "spec")


def check_spec(spec: Mapping[str, Any], path: str) -> list[Cause]:
    """Causes in a pod's spec, or in a template's at another path."""
    causes: list[Cause] = []
    containers = spec.get("containers") or []
    if not containers:
        causes.append(required(f"{path}.containers"))
    volumes = {volume.get("name") for volume in spec.get("volumes") or []}
    causes += _names(spec.get("volumes") or [], f"{path}.volumes")
    causes += _volumes(spec.get("volumes") or [], f"{path}.volumes")
    for group in ("containers", "initContainers"):
        at = f"{path}.{group}"
        causes += _names(spec.get(group) or [], at)
        for index, container in enumerate(spec.get(group) or []):
            causes += _container(container, f"{at}[{index}]", volumes)
    policy = spec.get("restartPolicy")
    if policy is not None and policy not in _POLICIES:
        causes.append(unsupported(f"{path}.restartPolicy", json.dumps(policy), sorted(_POLICIES)))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= 2**31 - 1:
        text = "must be between 1 and 2147483647, inclusive"
        causes.append(invalid_value(f"{path}.activeDeadlineSeconds", str(deadline), text))
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        text = "must be greater than or equal to 0"
        causes.append(invalid_value(f"{path}.terminationGracePeriodSeconds", str(grace), text))
    return causes


def _volumes(volumes: Sequence[Mapping[str, Any]], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, volume in enumerate(volumes):
        if "hostPath" not in volume:
            continue
        at, place = f"{path}[{index}].hostPath.path", (volume["hostPath"] or {}).get("path") or ""
        if not place:
            causes.append(required(at))
        elif ".." in place.split("/"):
            causes.append(invalid_value(at, json.dumps(place), "must not contain '..'"))
    return causes


def _names(items: Sequence[Mapping[str, Any]], path: str) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, item in enumerate(items):
        name, at = item.get("name") or "", f"{path}[{index}].name"
        if not name:
            causes.append(required(at))
        elif wrong := label_error(name):
            causes.append(invalid_value(at, json.dumps(name), wrong))
        elif name in seen:
            causes.append(Cause("FieldValueDuplicate", f"Duplicate value: {json.dumps(name)}", at))
        seen.add(name)
    return causes


def _container(container: Mapping[str, Any], path: str, volumes: set[Any]) -> list[Cause]:
    causes: list[Cause] = []
    if not container.get("image"):
        causes.append(required(f"{path}.image"))
    policy = container.get("imagePullPolicy")
    if policy is not None and policy not in _IMAGE_POLICIES:
        causes.append(unsupported(f"{path}.imagePullPolicy", json.dumps(policy), _IMAGE_POLICIES))
    for index, mount in enumerate(container.get("volumeMounts") or []):
        at = f"{path}.volumeMounts[{index}]"
        if mount.get("name") not in volumes:
            causes.append(Cause("FieldValueNotFound", f"Not found: {json.dumps(mount.get('name', ''))}", f"{at}.name"))
        if not mount.get("mountPath"):
            causes.append(required(f"{at}.mountPath"))
    return causes + _resources(container.get("resources") or {}, f"{path}.resources")


def _extended(name: str) -> bool:
    return "/" in name and not name.startswith("kubernetes.io/")


def _integers(values: Mapping[str, str], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for name, value in values.items():
        number = parse(value)
        if number < 0:
            causes.append(invalid_value(f"{path}[{name}]", json.dumps(value), "must be greater than or equal to 0"))
        elif _extended(name) and number != int(number):
            causes.append(invalid_value(f"{path}[{name}]", json.dumps(value), "must be an integer"))
    return causes


def _resources(resources: Mapping[str, Any], path: str) -> list[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    causes = _integers(limits, f"{path}.limits") + _integers(requests, f"{path}.requests")
    for name, asked in requests.items():
        limit = limits.get(name)
        if _extended(name) and limit is None:
            causes.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
        elif _extended(name) and parse(asked) != parse(limit):
            text = f"must be equal to {name} limit of {limit}"
            causes.append(invalid_value(f"{path}.requests", json.dumps(asked), text))
        elif limit is not None and parse(asked) > parse(limit):
            text = f"must be less than or equal to {name} limit of {limit}"
            causes.append(invalid_value(f"{path}.requests", json.dumps(asked), text))
    return causes
