"""The review kinds: who am I, and what may I do.

Owns their answers. It must not know HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simcluster.api.auth.rbac import Attributes, Authorizer
from simcluster.api.auth.tokens import TokenTable, User
from simcluster.api.metadata import timestamp
from simcluster.api.port import Object


class Reviews:
    """Answers every review kind."""

    def __init__(self, authorizer: Authorizer, tokens: TokenTable) -> None:
        self._authorizer = authorizer
        self._tokens = tokens

    def answer(self, kind: str, user: User, obj: Object, namespace: str) -> Object:
        """The review with its status; `kind` is one of the review kinds."""
        spec = obj.get("spec") or {}
        match kind:
            case "SelfSubjectReview":
                status: Object = {"userInfo": _user_info(user)}
            case "TokenReview":
                status = self._token(spec)
            case "SelfSubjectRulesReview":
                status = self._rules(user, spec.get("namespace", ""))
            case "SelfSubjectAccessReview":
                status = self._access(user, spec, "")
            case _:
                asked = User(spec.get("user", ""), tuple(spec.get("groups") or ()))
                status = self._access(asked, spec, namespace)
        metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if value}
        if kind == "SelfSubjectReview":
            metadata["creationTimestamp"] = timestamp()
        made: Object = {"kind": kind, "apiVersion": obj.get("apiVersion", ""), "metadata": metadata}
        if spec:
            made["spec"] = spec
        return {**made, "status": status}

    def _access(self, user: User, spec: Mapping[str, Any], namespace: str) -> Object:
        if path := spec.get("nonResourceAttributes"):
            wanted = Attributes(path.get("verb", ""), path=path.get("path", ""))
        else:
            asked = spec.get("resourceAttributes") or {}
            wanted = Attributes(
                asked.get("verb", ""),
                asked.get("group", ""),
                asked.get("resource", ""),
                asked.get("subresource", ""),
                namespace or asked.get("namespace", ""),
                asked.get("name", ""),
            )
        if user.all_powerful:
            return {"allowed": True}
        allowed = self._authorizer.allows(user, wanted)
        return {"allowed": True, "reason": "RBAC: allowed by a binding"} if allowed else {"allowed": False}

    def _rules(self, user: User, namespace: str) -> Object:
        resource: list[Object] = []
        paths: list[Object] = []
        if user.all_powerful:
            resource.append({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
            paths.append({"verbs": ["*"], "nonResourceURLs": ["*"]})
        for rule in self._authorizer.rules(user, namespace):
            (paths if "nonResourceURLs" in rule else resource).append(dict(rule))
        return {"resourceRules": resource, "nonResourceRules": paths, "incomplete": False}

    def _token(self, spec: Mapping[str, Any]) -> Object:
        user = self._tokens.user_of(spec.get("token", ""))
        if user is None:
            return {"user": {}, "error": "invalid bearer token"}
        return {"authenticated": True, "user": _user_info(user)}


def _user_info(user: User) -> Object:
    info: Object = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra}
    return info
