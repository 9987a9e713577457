"""From the harness's values to the plain JSON that the record holds; must not know where either comes from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any

from gpuproof.catalogue import Check
from gpuproof.decision import PlannedSubject
from gpuproof.expectation import ClusterExpectation, Waiver
from gpuproof.finding import Finding
from gpuproof.inventory import Node
from gpuproof.limits import Expected, Limit, bound_text, number, unit_text
from gpuproof.profile import Profile
from workloads.contract import Measurement


def plain(value: Any) -> Any:
    """Dataclasses as objects, enums as their values, dates in ISO form, tuples as lists; anything else as it is."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    return value


def check(item: Check, profile: Profile) -> dict[str, Any]:
    """A check as `run_started` lists it."""
    state = profile.checks[item.name]
    return {
        "check": item.name,
        "state": str(state.state),
        "reason": state.reason,
        "question": item.question,
        "why": item.why,
        "file": item.file.name,
        "requires": list(item.requires),
    }


def bound(item: Limit, cluster: ClusterExpectation) -> str:
    """A limit's bound for a person, with the number where the profile only names what it expects."""
    if isinstance(item.bound, Expected):
        value = cluster.expected(item.bound.key)
        shown = "nothing" if value is None else number(value)
        return f"= {shown}{unit_text(item.unit)} ({item.bound.key} of the profile)"
    return bound_text(item.bound, item.unit)


def limit(item: Limit, profile: Profile, blocking: str | None) -> dict[str, Any]:
    """A limit as `run_started` lists it; `blocking` says why it cannot carry an ACCEPTED."""
    return {
        "id": item.id,
        "check": item.check,
        "metric": item.metric,
        "fact": item.fact,
        "unit": item.unit,
        "at": dict(item.at),
        "per": str(item.per),
        "bound": bound(item, profile.cluster),
        "severity": str(item.severity),
        "provenance": plain(item.provenance),
        "blocking": blocking,
        "replaced": item.replaced or None,
    }


def waiver(item: Waiver, today: date) -> dict[str, Any]:
    """A waiver as the first screen shows it."""
    return {**plain(item), "expired": item.expired(today)}


def node(item: Node, *, in_scope: bool) -> dict[str, Any]:
    """A node as the inventory line lists it."""
    return {
        "name": item.name,
        "uid": item.uid,
        "in_scope": in_scope,
        "ready": item.ready,
        "schedulable": item.schedulable,
        "gpu_capacity": item.gpu_capacity,
        "gpu_allocatable": item.gpu_allocatable,
        "product": item.product,
        "driver": item.driver,
        "labels": dict(item.labels),
        "problem": item.problem or None,
    }


def planned(item: PlannedSubject) -> dict[str, Any]:
    """One planned question."""
    return {"check": item.check, "subject": item.subject, "required": item.required}


def finding(item: Finding) -> dict[str, Any]:
    """A finding of a verdict."""
    return dict(plain(item))


def samples(measurement: Measurement) -> list[dict[str, Any]]:
    """The samples of a measurement."""
    return [
        {"metric": sample.metric, "value": sample.value, "unit": sample.unit, "at": dict(sample.at)}
        for sample in measurement.samples
    ]
