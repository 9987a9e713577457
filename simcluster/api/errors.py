"""Constructors of Kubernetes' own refusals, with the wording and details a real API server uses.

Owns the words. It must not know who refuses or why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from simcluster.api.kinds import Kind
from simcluster.api.port import ApiError


@dataclass(frozen=True)
class Cause:
    """One invalid field: machine word, text behind the field's name, field path."""

    reason: str
    message: str
    field: str


def required(field: str, text: str = "") -> Cause:
    """A field that must be there."""
    return Cause("FieldValueRequired", f"Required value: {text}" if text else "Required value", field)


def invalid_value(field: str, shown: str, text: str) -> Cause:
    """A value that is wrong; `shown` is already quoted where it is a string."""
    return Cause("FieldValueInvalid", f"Invalid value: {shown}: {text}", field)


def forbidden_value(field: str, text: str) -> Cause:
    """A field that may not be set or changed."""
    return Cause("FieldValueForbidden", f"Forbidden: {text}", field)


def unsupported(field: str, shown: str, supported: Sequence[str]) -> Cause:
    """A value outside an enumeration."""
    names = ", ".join(f'"{name}"' for name in supported)
    return Cause("FieldValueNotSupported", f"Unsupported value: {shown}: supported values: {names}", field)


def details_of(kind: Kind, name: str) -> dict[str, Any]:
    """The `details` by which a Status names an object."""
    details: dict[str, Any] = {"name": name}
    if kind.group:
        details["group"] = kind.group
    details["kind"] = kind.plural
    return details


def not_found(kind: Kind, name: str) -> ApiError:
    """404 of an object."""
    return ApiError(404, "NotFound", f'{kind.name} "{name}" not found', details_of(kind, name))


def unknown_resource() -> ApiError:
    """404 of a resource that is not served."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(kind: Kind, name: str) -> ApiError:
    """409 of a create."""
    return ApiError(409, "AlreadyExists", f'{kind.name} "{name}" already exists', details_of(kind, name))


def conflict(kind: Kind, name: str, why: str | None = None) -> ApiError:
    """409 of an update or a bind."""
    text = why or "the object has been modified; please apply your changes to the latest version and try again"
    return ApiError(
        409, "Conflict", f'Operation cannot be fulfilled on {kind.name} "{name}": {text}', details_of(kind, name)
    )


def precondition(kind: Kind, name: str, what: str, wanted: str, found: str) -> ApiError:
    """409 of a delete whose uid or resourceVersion precondition does not hold."""
    hint = (
        "The object might have been deleted and then recreated"
        if what == "UID"
        else "The object might have been modified"
    )
    text = f"the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). {hint}"
    details = {"name": name, "kind": kind.kind}
    return ApiError(409, "Conflict", f'Operation cannot be fulfilled on {kind.kind} "{name}": {text}', details)


def forbidden(kind: Kind, name: str, why: str, details: dict[str, Any] | None = None) -> ApiError:
    """403 of admission."""
    return ApiError(403, "Forbidden", f'{kind.name} "{name}" is forbidden: {why}', details or details_of(kind, name))


def invalid(kind: Kind, name: str, causes: Sequence[Cause]) -> ApiError:
    """422 with one cause or several."""
    return invalid_kind(kind.kind, kind.group, name, causes)


def invalid_kind(kind: str, group: str, name: str, causes: Sequence[Cause]) -> ApiError:
    """422 of something that is no stored object, such as the options of a request."""
    texts = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details: dict[str, Any] = {"name": name} if name else {}
    if group:
        details["group"] = group
    details["kind"] = kind
    details["causes"] = [{"reason": c.reason, "message": c.message, "field": c.field} for c in causes]
    qualified = f"{kind}.{group}" if group else kind
    return ApiError(422, "Invalid", f'{qualified} "{name}" is invalid: {joined}', details)


def bad_request(message: str) -> ApiError:
    """400."""
    return ApiError(400, "BadRequest", message)


def expired(message: str) -> ApiError:
    """410."""
    return ApiError(410, "Expired", message)


def method_not_allowed() -> ApiError:
    """405."""
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})
