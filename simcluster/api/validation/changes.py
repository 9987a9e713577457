"""What may not change once an object exists.

Owns those rules. It must not know HTTP.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from simcluster.api.errors import Cause, forbidden_value, invalid_value
from simcluster.api.port import Object
from simcluster.api.quantities import parse

_POD_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_IMMUTABLE = "field is immutable"
_SELECTORS = frozenset({"deployments.apps", "replicasets.apps", "daemonsets.apps", "statefulsets.apps"})


def immutable(resource: str, old: Object, new: Object) -> list[Cause]:
    """Causes of an update that changes what must stay."""
    if resource == "pods":
        return _pod(old["spec"], new.get("spec") or {})
    if resource == "jobs.batch":
        return _job(old["spec"], new.get("spec") or {})
    if resource == "persistentvolumeclaims":
        return _claim(old, new)
    if resource in ("configmaps", "secrets"):
        return _frozen(resource, old, new)
    if resource in _SELECTORS:
        before, after = old["spec"].get("selector"), (new.get("spec") or {}).get("selector")
        return [] if before == after else [invalid_value("spec.selector", _shown(after), _IMMUTABLE)]
    return []


def _shown(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _without_changeable(spec: Any) -> Any:
    kept = copy.deepcopy(spec)
    for name in ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates"):
        kept.pop(name, None)
    for group in ("containers", "initContainers"):
        for container in kept.get(group) or []:
            container.pop("image", None)
    if spec.get("schedulingGates"):
        for name in ("nodeSelector", "affinity"):
            kept.pop(name, None)
    return kept


def _pod(old: Any, new: Any) -> list[Cause]:
    causes: list[Cause] = []
    if old == new:
        return causes
    before, after = _without_changeable(old), _without_changeable(new)
    if old.get("schedulingGates"):
        for name in ("nodeSelector", "affinity"):
            after.pop(name, None)
    if before != after:
        causes.append(forbidden_value("spec", f"{_POD_TEXT}\n{_difference(before, after)}"))
    tolerations = new.get("tolerations") or []
    if any(one not in tolerations for one in old.get("tolerations") or []):
        text = "existing toleration can not be modified except its tolerationSeconds"
        if not _only_seconds_changed(old.get("tolerations") or [], tolerations):
            causes.append(forbidden_value("spec.tolerations", text))
    deadline, earlier = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if earlier is not None and deadline is not None and deadline > earlier:
        text = "must be less than or equal to previous value"
        causes.append(invalid_value("spec.activeDeadlineSeconds", str(deadline), text))
    return causes


def _only_seconds_changed(old: list[Any], new: list[Any]) -> bool:
    def bare(item: Any) -> Any:
        return {key: value for key, value in item.items() if key != "tolerationSeconds"}

    present = [bare(item) for item in new]
    return all(bare(item) in present for item in old)


def _difference(before: Any, after: Any, path: str = "") -> str:
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        return "\n".join(_difference(before.get(key), after.get(key), f"{path}.{key}") for key in keys)
    return f"-{path.lstrip('.')}: {_shown(before)}\n+{path.lstrip('.')}: {_shown(after)}"


def _job(old: Any, new: Any) -> list[Cause]:
    causes: list[Cause] = []
    if old.get("completions") != new.get("completions"):
        indexed = old.get("completionMode") == "Indexed"
        if not indexed:
            causes.append(invalid_value("spec.completions", _shown(new.get("completions")), _IMMUTABLE))
        elif new.get("completions") != new.get("parallelism"):
            text = "can only be modified in tandem with spec.parallelism"
            causes.append(invalid_value("spec.completions", _shown(new.get("completions")), text))
    fixed = ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex")
    causes += [
        invalid_value(f"spec.{name}", _shown(new.get(name)), _IMMUTABLE)
        for name in fixed
        if old.get(name) != new.get(name)
    ]
    if old.get("template") != new.get("template") and not old.get("suspend"):
        causes.append(invalid_value("spec.template", _shown(new.get("template")), _IMMUTABLE))
    return causes


def _claim(old: Object, new: Object) -> list[Cause]:
    causes: list[Cause] = []
    before, after = copy.deepcopy(old.get("spec") or {}), copy.deepcopy(new.get("spec") or {})
    capacity = ((old.get("status") or {}).get("capacity") or {}).get("storage", "0")
    sizes = [((spec.get("resources") or {}).get("requests") or {}).get("storage", "0") for spec in (before, after)]
    # What the controllers fill in once, and what a bound claim may ask for anew.
    free = [name for name in ("volumeName", "storageClassName") if not before.get(name)]
    for spec in (before, after):
        for name in free:
            spec.pop(name, None)
        if (old.get("status") or {}).get("phase") == "Bound":
            ((spec.get("resources") or {}).get("requests") or {}).pop("storage", None)
    if before != after:
        text = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        causes.append(forbidden_value("spec", f"{text}\n{_difference(before, after)}"))
    if parse(sizes[1]) < parse(sizes[0]) and parse(sizes[1]) <= parse(capacity):
        text = "field can not be less than status.capacity"
        causes.append(forbidden_value("spec.resources.requests.storage", text))
    return causes


def _frozen(resource: str, old: Object, new: Object) -> list[Cause]:
    causes: list[Cause] = []
    if old.get("immutable"):
        if not new.get("immutable"):
            causes.append(forbidden_value("immutable", "field is immutable when `immutable` is set"))
        causes += [
            forbidden_value(name, "field is immutable when `immutable` is set")
            for name in ("data", "binaryData")
            if old.get(name) != new.get(name)
        ]
    if resource == "secrets" and old.get("type") != new.get("type"):
        causes.append(invalid_value("type", _shown(new.get("type")), _IMMUTABLE))
    return causes
