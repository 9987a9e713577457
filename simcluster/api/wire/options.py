"""Query parameters as Kubernetes reads them, with its own refusals.

Owns their names and meanings. It must not know how a verb is carried out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from simcluster.api import errors
from simcluster.api.errors import Cause
from simcluster.api.metadata import DeleteOptions
from simcluster.api.port import ApiError, Propagation
from simcluster.api.resources import WriteOptions

Query = Mapping[str, str]

_VALIDATION = ("", "Ignore", "Strict", "Warn")
_PROPAGATION: Mapping[str, Propagation] = {
    "Background": "Background",
    "Foreground": "Foreground",
    "Orphan": "Orphan",
}


def flag(query: Query, name: str) -> bool:
    """A boolean parameter: anything but false and 0 is true, as with a real API server."""
    value = query.get(name)
    return value is not None and value.lower() not in ("false", "0")


def integer(query: Query, name: str) -> int | None:
    """A number, or None where it is absent. Raises ApiError 400."""
    text = query.get(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from error


def _invalid(kind: str, cause: Cause) -> ApiError:
    return errors.invalid_kind(kind, "meta.k8s.io", "", [cause])


def check_write(query: Query, kind: str) -> None:
    """Raises ApiError 422 for unknown values of dryRun and fieldValidation; `kind` is CreateOptions or its like."""
    validation = query.get("fieldValidation", "")
    if validation not in _VALIDATION:
        raise _invalid(kind, errors.unsupported("fieldValidation", f'"{validation}"', _VALIDATION))
    dry_run = query.get("dryRun", "")
    if dry_run not in ("", "All"):
        raise _invalid(kind, errors.unsupported("dryRun", f'["{dry_run}"]', ("All",)))


def write(query: Query, agent: str, warnings: list[str]) -> WriteOptions:
    """Options of a create, update or patch; the manager defaults to the client's own name."""
    manager = query.get("fieldManager") or agent.partition("/")[0]
    return WriteOptions(query.get("dryRun") == "All", manager, flag(query, "force"), warnings=warnings)


def delete(query: Query, body: bytes) -> DeleteOptions:
    """Options of a DELETE from its body and query; the query wins where both speak. Raises ApiError 400, 422."""
    given: dict[str, Any] = {}
    if body:
        try:
            given = json.loads(body)
        except ValueError as error:
            raise errors.bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    grace = integer(query, "gracePeriodSeconds")
    if grace is None:
        grace = given.get("gracePeriodSeconds")
    policy = query.get("propagationPolicy") or given.get("propagationPolicy")
    if policy is None and (given.get("orphanDependents") is not None or "orphanDependents" in query):
        orphan = given.get("orphanDependents", query.get("orphanDependents") == "true")
        policy = "Orphan" if orphan else "Background"
    if policy is not None and policy not in _PROPAGATION:
        cause = errors.unsupported("propagationPolicy", f'"{policy}"', ("Background", "Foreground", "Orphan"))
        raise _invalid("DeleteOptions", cause)
    wanted = given.get("preconditions") or {}
    dry_run = "All" in (given.get("dryRun") or ()) or query.get("dryRun") == "All"
    return DeleteOptions(
        grace,
        _PROPAGATION.get(policy) if policy else None,
        wanted.get("uid"),
        wanted.get("resourceVersion"),
        dry_run,
    )
