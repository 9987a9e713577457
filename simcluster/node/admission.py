"""Whether a node takes a pod that was bound to it, with a real kubelet's refusals (golden 14).

Owns the checks and their words. Pure: it must not know how pods run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from simcluster.api.port import Object
from simcluster.api.quantities import parse


@dataclass(frozen=True)
class Refusal:
    """The reason and message of the pod's status; the event carries the message without "Pod was rejected: "."""

    reason: str
    message: str


def requests(pod: Object) -> dict[str, Decimal]:
    """What a pod asks of its node: its containers and sidecars, or the largest init container if that is more."""
    total: dict[str, Decimal] = {}
    largest: dict[str, Decimal] = {}
    for container in pod["spec"].get("containers", []):
        _add(total, _container_requests(container))
    for container in pod["spec"].get("initContainers") or []:
        asked = _container_requests(container)
        if container.get("restartPolicy") == "Always":
            _add(total, asked)
        else:
            for name, value in asked.items():
                largest[name] = max(largest.get(name, Decimal(0)), value)
    return {name: max(total.get(name, Decimal(0)), largest.get(name, Decimal(0))) for name in {*total, *largest}}


def _add(total: dict[str, Decimal], more: Mapping[str, Decimal]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, Decimal(0)) + value


def _container_requests(container: Object) -> dict[str, Decimal]:
    resources: Mapping[str, Mapping[str, str]] = container.get("resources") or {}
    merged = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: parse(value) for name, value in merged.items()}


def refuse(
    pod: Object, others: Sequence[Object], allocatable: Mapping[str, str], labels: Mapping[str, str]
) -> Refusal | None:
    """Why the node refuses the pod, or None; `others` are the node's pods that have not ended."""
    selector: Mapping[str, str] = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return Refusal(
            "NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
        )
    used: dict[str, Decimal] = {"pods": Decimal(len(others))}
    for other in others:
        _add(used, requests(other))
    wanted = {"pods": Decimal(1), **requests(pod)}
    for name, value in sorted(wanted.items(), key=lambda item: item[0] != "pods"):
        capacity = parse(allocatable.get(name, "0"))
        if value > 0 and used.get(name, Decimal(0)) + value > capacity:
            shown = [_shown(name, number) for number in (value, used.get(name, Decimal(0)), capacity)]
            return Refusal(
                f"OutOf{name}",
                f"Node didn't have enough resource: {name}, "
                f"requested: {shown[0]}, used: {shown[1]}, capacity: {shown[2]}",
            )
    return None


def _shown(name: str, value: Decimal) -> int:
    return int(value * 1000) if name == "cpu" else int(value)
