"""Who may do what: anonymous, unknown and weak callers, roles, tokens of one namespace in another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.cluster import CORE, RBAC, Build, Cluster, Namespace, config_map
from tests.contract.http import Answer, Http, Json, anonymous, bearing
from tests.contract.waiting import until


@pytest.fixture(scope="module")
def home(cluster: Cluster) -> Iterator[Namespace]:
    """A namespace with a service account `weak`."""
    ns = cluster.namespace()
    ns.create("serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "weak"}})
    yield ns
    ns.drop()


@pytest.fixture(scope="module")
def weak(home: Namespace) -> Http:
    """The service account `weak`."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = home.http.request("POST", home.path("serviceaccounts", "weak", "token"), body)
    assert answer.code == 201, answer.text
    return Http(bearing(home.http.access, answer.json["status"]["token"]))


def _grant(ns: Namespace, name: str, *rules: Json) -> None:
    role = {"apiVersion": RBAC[6:], "kind": "Role", "metadata": {"name": name}, "rules": list(rules)}
    ns.create("roles", role)
    binding = {
        "apiVersion": RBAC[6:],
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "weak", "namespace": ns.name}],
    }
    ns.create("rolebindings", binding)


def _is_status(answer: Answer, code: int, reason: str) -> None:
    body = answer.json
    assert (answer.code, body["kind"], body["status"], body["reason"], body["code"]) == (
        code,
        "Status",
        "Failure",
        reason,
        code,
    )


@pytest.mark.parametrize("path", [f"{CORE}/nodes", "/version", "/api", f"{CORE}/nonsense", "/metrics"])
def test_a_bad_token_is_401_everywhere(cluster: Cluster, path: str) -> None:
    answer = Http(bearing(cluster.http.access, "no-such-token")).request("GET", path)
    _is_status(answer, 401, "Unauthorized")


def test_an_anonymous_caller_may_do_nothing_but_ask_for_health_and_version(cluster: Cluster) -> None:
    nobody = Http(anonymous(cluster.http.access))
    answer = nobody.request("GET", f"{CORE}/nodes")
    if answer.code == 401:
        pytest.skip("anonymous requests are off on this cluster")
    _is_status(answer, 403, "Forbidden")
    assert 'User "system:anonymous" cannot list resource "nodes"' in answer.json["message"]
    assert nobody.request("GET", "/version").code == 200


def test_a_refusal_names_user_verb_resource_and_namespace(home: Namespace, weak: Http) -> None:
    answer = weak.request("GET", home.path("pods"))
    _is_status(answer, 403, "Forbidden")
    user = f"system:serviceaccount:{home.name}:weak"
    text = (
        f'pods is forbidden: User "{user}" cannot list resource "pods" in API group "" in the namespace "{home.name}"'
    )
    assert answer.json["message"] == text
    assert answer.json["details"] == {"kind": "pods"}


def test_403_hides_404(home: Namespace, weak: Http) -> None:
    _is_status(weak.request("GET", home.path("configmaps", "absent")), 403, "Forbidden")
    _is_status(weak.request("GET", home.path("nonsense")), 403, "Forbidden")


@pytest.mark.parametrize(
    ("method", "parts"),
    [
        ("POST", ("pods",)),
        ("GET", ("secrets",)),
        ("DELETE", ("configmaps", "kube-root-ca.crt")),
        ("GET", ("pods", "p", "log")),
        ("POST", ("pods", "p", "eviction")),
    ],
)
def test_without_a_role_nothing_is_allowed(home: Namespace, weak: Http, method: str, parts: tuple[str, ...]) -> None:
    body = config_map("x") if method == "POST" else None
    _is_status(weak.request(method, home.path(*parts), body), 403, "Forbidden")


def test_a_role_allows_its_verbs_on_its_resources_in_its_namespace(
    cluster: Cluster, home: Namespace, weak: Http
) -> None:
    _grant(home, "reader", {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]})
    until(lambda: weak.request("GET", home.path("configmaps")).code == 200, cluster.s(10), "the role works")
    assert weak.request("GET", home.path("configmaps", "kube-root-ca.crt")).code == 200
    assert weak.request("POST", home.path("configmaps"), config_map("x")).code == 403
    assert weak.request("GET", home.path("secrets")).code == 403
    assert weak.request("GET", f"{CORE}/configmaps").code == 403


def test_a_token_of_one_namespace_is_nothing_in_another(cluster: Cluster, home: Namespace, weak: Http) -> None:
    other = cluster.namespace()
    try:
        _is_status(weak.request("GET", other.path("configmaps")), 403, "Forbidden")
        _is_status(weak.request("POST", other.path("configmaps"), config_map("x")), 403, "Forbidden")
        _is_status(weak.request("GET", other.path("secrets", "x")), 403, "Forbidden")
    finally:
        other.drop()


def test_a_role_may_name_single_objects_and_subresources(cluster: Cluster, home: Namespace, weak: Http) -> None:
    named = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"], "verbs": ["get"]}
    _grant(home, "named", named, {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]})
    until(lambda: weak.request("GET", home.path("secrets", "one")).code == 404, cluster.s(10), "the role works")
    assert weak.request("GET", home.path("secrets", "two")).code == 403
    assert weak.request("GET", home.path("pods", "p", "log")).code == 404
    assert weak.request("GET", home.path("pods", "p")).code == 403


def test_no_one_may_grant_what_he_has_not(cluster: Cluster, home: Namespace, weak: Http) -> None:
    _grant(
        home,
        "granter",
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create", "get"]},
    )
    until(lambda: weak.request("GET", home.path("roles", "granter")).code == 200, cluster.s(10), "the role works")
    role = {
        "apiVersion": RBAC[6:],
        "kind": "Role",
        "metadata": {"name": "more"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}],
    }
    _is_status(weak.request("POST", home.path("roles"), role), 403, "Forbidden")


def test_a_caller_may_ask_what_it_may(home: Namespace, weak: Http) -> None:
    def ask(verb: str, resource: str) -> bool:
        attributes = {"namespace": home.name, "verb": verb, "resource": resource}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        return bool(weak.request("POST", path, body).json["status"]["allowed"])

    assert not ask("delete", "pods")
    assert not ask("create", "secrets")


def test_pods_run_as_an_account_that_may_do_nothing_by_itself(home: Namespace, build: Build) -> None:
    home.create("pods", build.pod("asks", "true", serviceAccountName="weak"))
    assert home.finished("asks")["spec"]["serviceAccountName"] == "weak"
