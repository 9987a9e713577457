"""How much a ConfigMap or a Secret may hold.

Owns those limits. It must not know HTTP.
"""

from __future__ import annotations

import re

from simcluster.api.errors import Cause, invalid_value
from simcluster.api.port import Object

_LIMIT = 1_048_576
_FIELDS = {"configmaps": ("[]", ("data", "binaryData")), "secrets": ("data", ("data",))}
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


def check_size(resource: str, obj: Object) -> list[Cause]:
    """Causes of a ConfigMap or Secret that is too big or has keys that are no file names."""
    if resource not in _FIELDS:
        return []
    field, names = _FIELDS[resource]
    causes: list[Cause] = []
    total = 0
    for name in names:
        for key, value in (obj.get(name) or {}).items():
            total += len(value) * 3 // 4 if resource == "secrets" else len(value.encode())
            if not _KEY.fullmatch(key):
                causes.append(invalid_value(f"{name}[{key}]", f'"{key}"', _KEY_TEXT))
    if total > _LIMIT:
        causes.append(Cause("FieldValueTooLong", f"Too long: may not be more than {_LIMIT} bytes", field))
    return causes
