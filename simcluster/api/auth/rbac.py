"""Role-based access control over the roles and bindings that are stored.

Owns the decision and the words of a refusal. It must not know HTTP.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from simcluster.api.auth.tokens import User
from simcluster.api.port import ApiError, Object
from simcluster.api.selectors import Selection
from simcluster.api.store import Store

_GROUP = "rbac.authorization.k8s.io"
_EVERYWHERE = Selection()


@dataclass(frozen=True)
class Attributes:
    """What somebody wants to do; `path` is set for what is no resource."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        """Resource with its subresource, as rules and messages spell it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Authorizer:
    """Answers whether a user may do something."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def allows(self, user: User, wanted: Attributes) -> bool:
        """Whether a rule of any binding of the user covers it."""
        if user.all_powerful:
            return True
        return any(_covers(rule, wanted) for rule in self.rules(user, wanted.namespace))

    def check(self, user: User, wanted: Attributes) -> None:
        """Raises ApiError 403 in Kubernetes' own words."""
        if not self.allows(user, wanted):
            raise refusal(user, wanted)

    def rules(self, user: User, namespace: str) -> Iterator[Mapping[str, Any]]:
        """Rules that hold for a user in a namespace, the cluster-wide ones among them."""
        for binding in self._all("clusterrolebindings"):
            if _binds(binding, user, ""):
                yield from self.rules_of(binding["roleRef"], "")
        if namespace:
            for binding in self._all("rolebindings", namespace):
                if _binds(binding, user, namespace):
                    yield from self.rules_of(binding["roleRef"], namespace)

    def _all(self, plural: str, namespace: str | None = None) -> Iterator[Object]:
        selection = _EVERYWHERE if namespace is None else Selection(namespace)
        for entry in self._store.collection(f"{plural}.{_GROUP}").candidates(selection):
            yield entry.obj

    def rules_of(self, reference: Mapping[str, Any], namespace: str) -> Iterable[Mapping[str, Any]]:
        """The rules of the role that a roleRef names; none where it is absent."""
        if reference.get("kind") == "Role":
            entry = self._store.collection(f"roles.{_GROUP}").get(namespace, reference["name"])
        else:
            entry = self._store.collection(f"clusterroles.{_GROUP}").get("", reference["name"])
        return () if entry is None else entry.obj.get("rules") or ()


def _binds(binding: Object, user: User, namespace: str) -> bool:
    for subject in binding.get("subjects") or ():
        name = subject.get("name")
        match subject.get("kind"):
            case "User" if name == user.name:
                return True
            case "Group" if name in user.groups:
                return True
            case "ServiceAccount":
                space = subject.get("namespace") or namespace
                if user.name == f"system:serviceaccount:{space}:{name}":
                    return True
    return False


def _covers(rule: Mapping[str, Any], wanted: Attributes) -> bool:
    if not _any(rule.get("verbs"), wanted.verb):
        return False
    if wanted.path:
        return any(_path_matches(pattern, wanted.path) for pattern in rule.get("nonResourceURLs") or ())
    if not _any(rule.get("apiGroups"), wanted.group) or not _resource_matches(rule.get("resources") or (), wanted):
        return False
    names = rule.get("resourceNames")
    return not names or wanted.name in names


def _any(allowed: Iterable[str] | None, wanted: str) -> bool:
    return any(item in ("*", wanted) for item in allowed or ())


def _resource_matches(resources: Iterable[str], wanted: Attributes) -> bool:
    accepted = {"*", wanted.full_resource}
    if wanted.subresource:
        accepted.add(f"*/{wanted.subresource}")
    return any(item in accepted for item in resources)


def _path_matches(pattern: str, path: str) -> bool:
    return path.startswith(pattern[:-1]) if pattern.endswith("*") else path == pattern


def refusal(user: User, wanted: Attributes) -> ApiError:
    """The 403 a real API server answers."""
    if wanted.path:
        text = f'forbidden: User "{user.name}" cannot {wanted.verb} path "{wanted.path}"'
        return ApiError(403, "Forbidden", text, {})
    where = f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope"
    qualified = f"{wanted.resource}.{wanted.group}" if wanted.group else wanted.resource
    subject = f'{qualified} "{wanted.name}"' if wanted.name else qualified
    text = (
        f'{subject} is forbidden: User "{user.name}" cannot {wanted.verb} resource "{wanted.full_resource}" '
        f'in API group "{wanted.group}" {where}'
    )
    details: dict[str, Any] = {"name": wanted.name} if wanted.name else {}
    if wanted.group:
        details["group"] = wanted.group
    details["kind"] = wanted.resource
    return ApiError(403, "Forbidden", text, details)
