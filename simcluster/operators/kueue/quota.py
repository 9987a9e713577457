"""Which flavors the pods of a Workload get from a ClusterQueue, or why none: Kueue's arithmetic without cohorts.

Pure: owns fitting and its words; must not know what is written where.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from simcluster.api.port import Object
from simcluster.controllers import fields
from simcluster.controllers.matching import untolerated
from simcluster.controllers.quantity import amount, text_of
from simcluster.controllers.scheduler.podinfo import requests_of
from simcluster.operators.kueue.workload import PodSet, admission_of, holds_quota, pod_sets_of

Usage = dict[tuple[str, str], int]
"""(flavor, resource) to what is used of it."""
UNCOUNTED = frozenset({"pods"})
"""Counted only where the queue has quota of it."""


@dataclass(frozen=True)
class Assigned:
    """status.admission.podSetAssignments, and what they use."""

    pod_sets: Sequence[Object]
    usage: Usage


@dataclass(frozen=True)
class Refused:
    """Why it does not fit."""

    message: str


def usage_of(workload: Object) -> Usage:
    """What a reservation uses."""
    used: Usage = {}
    for assignment in admission_of(workload).get("podSetAssignments") or ():
        for resource, flavor in (assignment.get("flavors") or {}).items():
            text = (assignment.get("resourceUsage") or {}).get(resource, "0")
            used[flavor, resource] = used.get((flavor, resource), 0) + amount(resource, text)
    return used


def used_in(queue: str, workloads: Iterable[Object]) -> Usage:
    """What all reservations in a ClusterQueue use together."""
    used: Usage = {}
    for workload in workloads:
        if holds_quota(workload) and admission_of(workload).get("clusterQueue") == queue:
            _add(used, usage_of(workload))
    return used


def nominal(queue: Object) -> Usage:
    """The quotas of a ClusterQueue."""
    return {
        (flavor["name"], resource["name"]): amount(resource["name"], resource["nominalQuota"])
        for group in fields.spec(queue).get("resourceGroups") or ()
        for flavor in group.get("flavors") or ()
        for resource in flavor.get("resources") or ()
    }


def assign(workload: Object, queue: Object, flavors: Mapping[str, Object], used: Usage) -> Assigned | Refused:
    """Each resource group's first flavor that fits, for every pod set; or the first pod set that does not fit."""
    quotas = nominal(queue)
    assignments, taken = [], Usage()
    for pod_set in pod_sets_of(workload):
        wanted = _wanted(pod_set, queue)
        chosen: dict[str, str] = {}
        for group in _groups(queue):
            asked = {resource: wanted[resource] for resource in group["coveredResources"] if resource in wanted}
            if not asked:
                continue
            reasons: list[str] = []
            for flavor in group["flavors"]:
                name = flavor["name"]
                why = _unfit(pod_set, flavors.get(name), name) or _short(name, asked, quotas, used, taken)
                if why is None:
                    chosen |= dict.fromkeys(asked, name)
                    break
                reasons.append(why)
            else:
                return Refused(_sentence(pod_set, ", ".join(reasons)))
        uncovered = sorted(wanted.keys() - chosen.keys())
        if uncovered:
            reasons = [f"resource {resource} unavailable in ClusterQueue" for resource in uncovered]
            return Refused(_sentence(pod_set, ", ".join(reasons)))
        _add(taken, {(flavor, resource): wanted[resource] for resource, flavor in chosen.items()})
        assignments.append(
            {
                "name": pod_set.name,
                "count": pod_set.count,
                "flavors": chosen,
                "resourceUsage": {resource: text_of(resource, wanted[resource]) for resource in chosen},
            }
        )
    return Assigned(assignments, taken)


def _add(total: Usage, more: Usage) -> None:
    for key, value in more.items():
        total[key] = total.get(key, 0) + value


def _groups(queue: Object) -> Sequence[Object]:
    groups: Sequence[Object] = fields.spec(queue).get("resourceGroups") or ()
    return groups


def _wanted(pod_set: PodSet, queue: Object) -> dict[str, int]:
    covered = {resource for group in _groups(queue) for resource in group["coveredResources"]}
    one = requests_of(pod_set.template.get("spec") or {})
    return {
        resource: value * pod_set.count
        for resource, value in one.items()
        if value and (resource not in UNCOUNTED or resource in covered)
    }


def _sentence(pod_set: PodSet, reasons: str) -> str:
    return f"couldn't assign flavors to pod set {pod_set.name}: {reasons}"


def _unfit(pod_set: PodSet, flavor: Object | None, name: str) -> str | None:
    if flavor is None:
        return f"flavor {name} not found"
    spec, pod = fields.spec(flavor), pod_set.template.get("spec") or {}
    tolerations = [*(pod.get("tolerations") or ()), *(spec.get("tolerations") or ())]
    taint = untolerated(tolerations, spec.get("nodeTaints") or (), ("NoSchedule", "NoExecute"))
    if taint is not None:
        return f"untolerated taint {taint['key']} in flavor {name}"
    selector = pod.get("nodeSelector") or {}
    labels = spec.get("nodeLabels") or {}
    if any(selector.get(key, value) != value for key, value in labels.items()):
        return f"flavor {name} doesn't match node affinity"
    return None


def _short(name: str, asked: Mapping[str, int], quotas: Usage, used: Usage, taken: Usage) -> str | None:
    reasons = []
    for resource, value in asked.items():
        has, before = quotas.get((name, resource), 0), taken.get((name, resource), 0)
        missing = used.get((name, resource), 0) + before + value - has
        if before + value > has:
            texts = [text_of(resource, each) for each in (before, value, has)]
            reasons.append(
                f"insufficient quota for {resource} in flavor {name}, previously considered podsets requests"
                f" ({texts[0]}) + current podset request ({texts[1]}) > maximum capacity ({texts[2]})"
            )
        elif missing > 0:
            more = f"{text_of(resource, missing)} more needed"
            reasons.append(f"insufficient unused quota for {resource} in flavor {name}, {more}")
    return ", ".join(reasons) or None
