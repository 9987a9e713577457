"""Bearer tokens and the users behind them.

Owns authentication. It must not know what a user may do.
"""

from __future__ import annotations

import base64
import json
import secrets
import time
from dataclasses import dataclass, field

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"


@dataclass(frozen=True)
class User:
    """An authenticated user, with the group system:authenticated already among the groups; or the anonymous one."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = field(default=())

    @property
    def all_powerful(self) -> bool:
        """Whether nothing is forbidden to the user."""
        return MASTERS in self.groups


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


def impersonated(name: str, groups: tuple[str, ...]) -> User:
    """The user that somebody acts as; a service account brings its own groups."""
    prefix, _, account = name.rpartition(":")
    namespace = prefix.removeprefix("system:serviceaccount:")
    if account and namespace != prefix:
        groups = (*groups, "system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return User(name, (*groups, AUTHENTICATED))


@dataclass(frozen=True)
class _Grant:
    user: User
    expires_at: float | None


class TokenTable:
    """Which token belongs to whom, until when."""

    def __init__(self) -> None:
        self._grants: dict[str, _Grant] = {}

    def add(self, token: str, user: str, groups: tuple[str, ...] = (), *, lifetime_s: float | None = None) -> User:
        """Accept a token for a user."""
        found = User(user, (*groups, AUTHENTICATED))
        self._add(token, found, lifetime_s)
        return found

    def _add(self, token: str, user: User, lifetime_s: float | None) -> None:
        expires = None if lifetime_s is None else time.monotonic() + lifetime_s
        self._grants[token] = _Grant(user, expires)

    def issue_admin(self) -> str:
        """A fresh token of a cluster administrator."""
        token = secrets.token_urlsafe(32)
        self.add(token, "kubernetes-admin", (MASTERS,))
        return token

    def issue_service_account(
        self, namespace: str, name: str, uid: str, *, lifetime_s: float | None = None, pod: str = ""
    ) -> str:
        """A fresh token of a service account, shaped like a JSON web token for clients that look inside."""
        claims = {
            "iss": "https://kubernetes.default.svc.cluster.local",
            "sub": f"system:serviceaccount:{namespace}:{name}",
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
        }
        parts = [_b64(json.dumps({"alg": "none", "kid": "simcluster"})), _b64(json.dumps(claims))]
        token = ".".join([*parts, secrets.token_urlsafe(32)])
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
        extra = (("authentication.kubernetes.io/pod-name", (pod,)),) if pod else ()
        self._add(token, User(f"system:serviceaccount:{namespace}:{name}", groups, uid, extra), lifetime_s)
        return token

    def user_of(self, token: str) -> User | None:
        """The user of a token; None where it is unknown or over."""
        grant = self._grants.get(token)
        if grant is None:
            return None
        if grant.expires_at is not None and time.monotonic() > grant.expires_at:
            del self._grants[token]
            return None
        return grant.user


def _b64(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
