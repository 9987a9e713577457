"""What a JobSet's spec says, read with the absences that its defaults leave.

Owns these readings and the names that follow from them. Pure.
"""

from __future__ import annotations

from typing import Any

from simcluster.api.port import Object
from simcluster.controllers import fields


def replicated_jobs(jobset: Object) -> list[dict[str, Any]]:
    """spec.replicatedJobs."""
    found: list[dict[str, Any]] = fields.spec(jobset).get("replicatedJobs") or []
    return found


def replicas(replicated: dict[str, Any]) -> int:
    """How many Jobs a replicated job has."""
    return int(replicated.get("replicas", 1))


def job_name(jobset: Object, replicated: dict[str, Any], index: int) -> str:
    """The name of a child Job; its pods' hostnames are it, a dash and the completion index."""
    return f"{fields.name(jobset)}-{replicated['name']}-{index}"


def dns_hostnames(jobset: Object) -> bool:
    """Whether pods can be reached by their hostnames."""
    return bool((fields.spec(jobset).get("network") or {}).get("enableDNSHostnames", True))


def subdomain(jobset: Object) -> str:
    """The name of the headless Service, in which the pods' hostnames are."""
    return (fields.spec(jobset).get("network") or {}).get("subdomain") or fields.name(jobset)


def suspended(obj: Object) -> bool:
    """spec.suspend, of a JobSet or of a Job."""
    return bool(fields.spec(obj).get("suspend"))


def in_order(jobset: Object) -> bool:
    """Whether each replicated job waits until the one before it is ready."""
    return (fields.spec(jobset).get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"


def restarts(jobset: Object) -> int:
    """How often all Jobs were made anew; what carries a lower number is of an earlier attempt."""
    return int(fields.status(jobset).get("restarts") or 0)


def pods_of(job_spec: dict[str, Any]) -> int:
    """How many pods a Job has at work at once, at the end of its completions too."""
    parallelism = int(job_spec.get("parallelism", 1))
    completions = job_spec.get("completions")
    return parallelism if completions is None else min(parallelism, int(completions))
