"""Who may do what: tokens, roles, impersonation, reviews."""

from __future__ import annotations

from simcluster.api.server import ApiServer

from .conftest import Http, pod

PODS = "/api/v1/namespaces/default/pods"
RBAC = "rbac.authorization.k8s.io"
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def weak(api: ApiServer, http: Http) -> Http:
    """A client with the token of a service account that has no rights."""
    account = await api.client.create("serviceaccounts", {"metadata": {"name": "weak"}}, "default")
    path = "/api/v1/namespaces/default/serviceaccounts/weak/token"
    token = (await http("POST", path, {"spec": {"expirationSeconds": 600}})).json["status"]["token"]
    assert account["metadata"]["uid"]
    return http.as_user(token)


async def grant(api: ApiServer, *verbs: str) -> None:
    """Let the service account do this to pods of the default namespace."""
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": list(verbs)}]
    await api.client.create(f"roles.{RBAC}", {"metadata": {"name": "r"}, "rules": rules}, "default")
    binding = {
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "weak", "namespace": "default"}],
    }
    await api.client.create(f"rolebindings.{RBAC}", binding, "default")


async def test_rights_come_and_go_with_roles(api: ApiServer, http: Http) -> None:
    client = await weak(api, http)
    assert (await client("GET", PODS)).status == 403
    await grant(api, "list")
    assert (await client("GET", PODS)).status == 200
    refused = await client("POST", PODS, pod())
    text = 'pods is forbidden: User "system:serviceaccount:default:weak" cannot create resource "pods" in API group ""'
    assert refused.json["message"] == f'{text} in the namespace "default"'
    assert (await client("GET", "/api/v1/pods")).status == 403
    await api.client.delete(f"rolebindings.{RBAC}", "r", "default")
    assert (await client("GET", PODS)).status == 403


async def test_a_right_on_pods_is_none_on_their_logs(api: ApiServer, http: Http) -> None:
    client = await weak(api, http)
    await grant(api, "*")
    await api.client.create("pods", pod(), "default")
    assert (await client("GET", f"{PODS}/p")).status == 200
    assert (await client("GET", f"{PODS}/p/log")).status == 403


async def test_reviews_agree_with_what_happens(api: ApiServer, http: Http) -> None:
    client = await weak(api, http)
    await grant(api, "list")
    for verb, allowed in (("list", True), ("create", False)):
        spec = {"resourceAttributes": {"namespace": "default", "verb": verb, "resource": "pods"}}
        answer = (await client("POST", REVIEW, {"spec": spec})).json
        assert answer["status"]["allowed"] is allowed


async def test_a_token_ends(api: ApiServer, http: Http) -> None:
    token = api.tokens.issue_service_account("default", "x", "u", lifetime_s=-1.0)
    assert (await http.as_user(token)("GET", "/version")).status == 401


async def test_an_administrator_can_act_as_somebody_else(http: Http) -> None:
    refused = await http("GET", PODS, **{"Impersonate-User": "bob"})
    assert refused.status == 403
    assert 'User "bob"' in refused.json["message"]


async def test_only_an_administrator_can(api: ApiServer, http: Http) -> None:
    client = await weak(api, http)
    refused = await client("GET", "/version", **{"Impersonate-User": "kubernetes-admin"})
    assert refused.status == 403


async def test_nobody_grants_what_he_has_not(api: ApiServer, http: Http) -> None:
    client = await weak(api, http)
    rules = [{"apiGroups": [RBAC], "resources": ["roles"], "verbs": ["create"]}]
    await api.client.create(f"clusterroles.{RBAC}", {"metadata": {"name": "granter"}, "rules": rules})
    binding = {
        "metadata": {"name": "granter"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "granter"},
        "subjects": [{"kind": "ServiceAccount", "name": "weak", "namespace": "default"}],
    }
    await api.client.create(f"clusterrolebindings.{RBAC}", binding)
    await grant(api, "list")
    path = f"/apis/{RBAC}/v1/namespaces/default/roles"

    async def role(name: str, *verbs: str) -> int:
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": list(verbs)}]
        return (await client("POST", path, {"metadata": {"name": name}, "rules": rules})).status

    assert await role("more", "list", "delete") == 403
    assert await role("everything", "*") == 403
    assert await role("own", "list") == 201
