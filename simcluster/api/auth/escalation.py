"""Nobody grants what he has not: roles and bindings are held against the rights of who writes them.

Owns that check and its words. It must not know HTTP.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from simcluster.api.auth.rbac import Attributes, Authorizer
from simcluster.api.auth.tokens import User
from simcluster.api.errors import forbidden
from simcluster.api.kinds import Kind
from simcluster.api.port import Object

_GROUP = "rbac.authorization.k8s.io"
_ROLES = frozenset({"Role", "ClusterRole"})
_BINDINGS = frozenset({"RoleBinding", "ClusterRoleBinding"})
_WORDS = {"apiGroups": "APIGroups", "resources": "Resources", "resourceNames": "ResourceNames"}
_WORDS |= {"nonResourceURLs": "NonResourceURLs", "verbs": "Verbs"}


class Escalation:
    """Refuses a role or binding that would give more than its writer has."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def check(self, kind: Kind, user: User, obj: Object, namespace: str) -> None:
        """Raises ApiError 403. Objects of other kinds pass."""
        if kind.group != _GROUP or user.all_powerful:
            return
        name = (obj.get("metadata") or {}).get("name") or ""
        if kind.kind in _ROLES:
            if self._may(user, "escalate", kind.plural, name, namespace):
                return
            rules = obj.get("rules") or []
        elif kind.kind in _BINDINGS:
            role = obj.get("roleRef") or {}
            plural = "roles" if role.get("kind") == "Role" else "clusterroles"
            if self._may(user, "bind", plural, role.get("name", ""), namespace):
                return
            rules = list(self._authorizer.rules_of(role, namespace))
        else:
            return
        missing = [rule for rule in rules if not self._holds(user, rule, namespace)]
        if missing:
            groups = ", ".join(f'"{group}"' for group in user.groups)
            shown = "\n".join(_shown(rule) for rule in missing)
            why = (
                f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held:\n'
                f"{shown}"
            )
            raise forbidden(kind, name, why)

    def _may(self, user: User, verb: str, plural: str, name: str, namespace: str) -> bool:
        return self._authorizer.allows(user, Attributes(verb, _GROUP, plural, "", namespace, name))

    def _holds(self, user: User, rule: Mapping[str, Any], namespace: str) -> bool:
        return all(self._authorizer.allows(user, wanted) for wanted in _each(rule, namespace))


def _each(rule: Mapping[str, Any], namespace: str) -> Iterator[Attributes]:
    """Every single right of a rule; a star is covered by a star only."""
    for verb in rule.get("verbs") or ():
        for path in rule.get("nonResourceURLs") or ():
            yield Attributes(verb, path=path)
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                plural, _, subresource = resource.partition("/")
                for name in rule.get("resourceNames") or ("",):
                    yield Attributes(verb, group, plural, subresource, namespace, name)


def _shown(rule: Mapping[str, Any]) -> str:
    parts = [f"{word}:{json.dumps(rule[key])}" for key, word in _WORDS.items() if rule.get(key)]
    return "{" + ", ".join(parts) + "}"
