"""Names and labels: which characters, how long.

Owns those grammars. It must not know what is named.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache

from simcluster.api.errors import Cause, invalid_value, required
from simcluster.api.kinds import Kind
from simcluster.api.port import Object

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035 = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = rf"({_QUALIFIED})?"

SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    f"and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    f"'{_LABEL_1035}')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_KEY_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_AS_LABEL = frozenset({"namespaces"})
_AS_LABEL_1035 = frozenset({"services"})
_AS_PATH = frozenset({f"{kind}.rbac.authorization.k8s.io" for kind in ("roles", "rolebindings", "clusterroles")})
_PATH_LIKE = _AS_PATH | {"clusterrolebindings.rbac.authorization.k8s.io"}


def name_error(kind_name: str, name: str) -> str | None:
    """What is wrong with a name, or None."""
    if kind_name in _PATH_LIKE:
        return "may not contain '/' or '%'" if "/" in name or "%" in name or name in (".", "..") else None
    if kind_name in _AS_LABEL:
        return label_error(name)
    if kind_name in _AS_LABEL_1035:
        if len(name) > 63:
            return "must be no more than 63 characters"
        return None if re.fullmatch(_LABEL_1035, name) else _LABEL_1035_TEXT
    if len(name) > 253:
        return "must be no more than 253 characters"
    return None if re.fullmatch(_SUBDOMAIN, name) else SUBDOMAIN_TEXT


def label_error(name: str) -> str | None:
    """What keeps a text from being a DNS label, or None."""
    if len(name) > 63:
        return "must be no more than 63 characters"
    return None if re.fullmatch(_LABEL, name) else LABEL_TEXT


def check_labels(labels: dict[str, str], field: str) -> list[Cause]:
    """Causes for keys and values that are no labels."""
    return [cause for key, value in labels.items() for cause in _check_label(key, value, field)]


@lru_cache(maxsize=4096)
def _check_label(key: str, value: str, field: str) -> tuple[Cause, ...]:
    causes: list[Cause] = []
    prefix, found, name = key.rpartition("/")
    if not re.fullmatch(_QUALIFIED, name) or (found and not re.fullmatch(_SUBDOMAIN, prefix)):
        causes.append(invalid_value(field, json.dumps(key), _KEY_TEXT))
    if len(value) > 63:
        causes.append(invalid_value(field, json.dumps(value), "must be no more than 63 bytes"))
    elif not re.fullmatch(_VALUE, value):
        causes.append(invalid_value(field, json.dumps(value), _VALUE_TEXT))
    return tuple(causes)


def check_metadata(kind: Kind, obj: Object) -> list[Cause]:
    """Causes in the metadata of a new object."""
    metadata = obj["metadata"]
    name = metadata.get("name") or ""
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    causes: list[Cause] = []
    if wrong := name_error(kind.name, name):
        causes.append(invalid_value("metadata.name", json.dumps(name), wrong))
    return causes + check_labels(_own_labels(obj), "metadata.labels")


def _own_labels(obj: Object) -> dict[str, str]:
    """Labels of the object, without those that a Job took over from its template, which are checked there."""
    labels: dict[str, str] = obj["metadata"].get("labels") or {}
    template = (obj.get("spec") or {}).get("template") if obj["kind"] == "Job" else None
    taken = ((template or {}).get("metadata") or {}).get("labels") or {}
    return {key: value for key, value in labels.items() if key not in taken}
