"""The roles and bindings that every cluster starts with, as far as a client can notice them.

Owns that list. It must not know how rules are evaluated.
"""

from __future__ import annotations

from typing import Any

from simcluster.api.port import Object

_RBAC = "rbac.authorization.k8s.io"
_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]


def _rule(groups: list[str], resources: list[str], verbs: list[str]) -> dict[str, Any]:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs}


_WORKLOADS = [
    _rule(
        [""],
        [
            "configmaps",
            "endpoints",
            "events",
            "persistentvolumeclaims",
            "pods",
            "pods/log",
            "pods/status",
            "resourcequotas",
            "serviceaccounts",
            "services",
            "namespaces",
            "limitranges",
        ],
        _READ,
    ),
    _rule(["apps", "batch", "networking.k8s.io", "policy", "discovery.k8s.io", "events.k8s.io"], ["*"], _READ),
]
_EDIT = [
    _rule(
        [""],
        [
            "configmaps",
            "persistentvolumeclaims",
            "pods",
            "pods/exec",
            "pods/attach",
            "pods/eviction",
            "pods/proxy",
            "pods/portforward",
            "secrets",
            "serviceaccounts",
            "services",
            "services/proxy",
        ],
        [*_READ, *_WRITE],
    ),
    _rule(["apps", "batch", "networking.k8s.io", "policy"], ["*"], _WRITE),
]
_OWN_REVIEWS = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
_INFO = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
_DISCOVERY = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/"]


def _cluster_role(name: str, rules: list[dict[str, Any]]) -> tuple[str, Object]:
    return f"clusterroles.{_RBAC}", {"metadata": {"name": name}, "rules": rules}


def _binding(role: str, *groups: str) -> tuple[str, Object]:
    subjects = [{"kind": "Group", "apiGroup": _RBAC, "name": group} for group in groups]
    reference = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role}
    return f"clusterrolebindings.{_RBAC}", {"metadata": {"name": role}, "subjects": subjects, "roleRef": reference}


def objects() -> list[tuple[str, Object]]:
    """(resource, object) of what is there before anybody creates anything."""
    everything = {**_rule(["*"], ["*"], ["*"])}
    paths = {"nonResourceURLs": ["*"], "verbs": ["*"]}
    info = {"nonResourceURLs": _INFO, "verbs": ["get"]}
    discovery = {"nonResourceURLs": [*_INFO, *_DISCOVERY], "verbs": ["get"]}
    basic = [
        _rule(["authorization.k8s.io"], _OWN_REVIEWS, ["create"]),
        _rule(["authentication.k8s.io"], ["selfsubjectreviews"], ["create"]),
    ]
    role_verbs = _rule([_RBAC], ["roles", "rolebindings"], [*_READ, *_WRITE])
    return [
        _cluster_role("cluster-admin", [everything, paths]),
        _cluster_role("admin", [*_WORKLOADS, *_EDIT, role_verbs]),
        _cluster_role("edit", [*_WORKLOADS, *_EDIT]),
        _cluster_role("view", _WORKLOADS),
        _cluster_role("system:basic-user", basic),
        _cluster_role("system:discovery", [discovery]),
        _cluster_role("system:public-info-viewer", [info]),
        _binding("cluster-admin", "system:masters"),
        _binding("system:basic-user", "system:authenticated"),
        _binding("system:discovery", "system:authenticated"),
        _binding("system:public-info-viewer", "system:authenticated", "system:unauthenticated"),
    ]
