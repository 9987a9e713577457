"""Lists: pages that are one snapshot, tokens that expire, selectors, Tables."""

from __future__ import annotations

import base64
import json

import pytest

from tests.contract.cluster import CORE, Build, Cluster, Namespace, config_map, pages

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture
def ten(ns: Namespace) -> Namespace:
    """A namespace with ten ConfigMaps of one label."""
    for number in range(10):
        ns.create("configmaps", config_map(f"m{number}", {"k": "old"}, labels={"m": str(number % 2)}))
    return ns


def test_pages_are_one_snapshot_while_others_write(ten: Namespace) -> None:
    names: list[str] = []
    values: set[str] = set()
    versions: set[str] = set()
    for page in pages(ten, "configmaps", 3):
        versions.add(page["metadata"]["resourceVersion"])
        for item in page["items"]:
            if item["metadata"]["name"].startswith("m"):
                names.append(item["metadata"]["name"])
                values.add(item["data"]["k"])
        ten.delete("configmaps", "m9")
        ten.patch("configmaps", "m8", {"data": {"k": "new"}})
        ten.post("configmaps", config_map("m5a", {"k": "new"}))
    assert names == [f"m{number}" for number in range(10)]
    assert values == {"old"}
    assert len(versions) == 1


def test_a_page_says_how_many_remain(ten: Namespace) -> None:
    total = len(ten.items("configmaps"))
    page = ten.listing("configmaps", limit=4)
    assert len(page["items"]) == 4
    assert page["metadata"]["remainingItemCount"] == total - 4
    last = ten.listing("configmaps", limit=100, **{"continue": page["metadata"]["continue"]})
    assert len(last["items"]) == total - 4
    assert "continue" not in last["metadata"]


def test_an_expired_token_is_410_with_a_fresh_token_that_goes_on(ten: Namespace) -> None:
    token = base64.urlsafe_b64encode(
        json.dumps({"v": "meta.k8s.io/v1", "rv": 1, "start": "m3\u0000"}, separators=(",", ":")).encode()
    )
    query = {"limit": 2, "continue": token.decode().rstrip("=")}
    answer = ten.http.request("GET", ten.path("configmaps"), query=query)
    if answer.code == 200:
        pytest.skip("this cluster still remembers its first version")
    assert answer.code == 410
    assert answer.json["reason"] == "Expired"
    fresh = ten.listing("configmaps", limit=2, **{"continue": answer.json["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in fresh["items"]] == ["m4", "m5"]


def test_a_token_that_is_none_is_400(ten: Namespace) -> None:
    answer = ten.http.request("GET", ten.path("configmaps"), query={"limit": 2, "continue": "bogus"})
    assert answer.code == 400
    assert answer.json["message"].startswith("invalid continue token")


def test_a_future_version_is_a_timeout_to_be_tried_again(ten: Namespace) -> None:
    answer = ten.http.request("GET", ten.path("configmaps"), query={"resourceVersion": "99999999999"})
    assert answer.code == 504
    assert answer.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert answer.headers["Retry-After"] == "1"


def test_exact_needs_a_version(ten: Namespace) -> None:
    answer = ten.http.request("GET", ten.path("configmaps"), query={"resourceVersionMatch": "Exact"})
    assert answer.code == 422


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("m=1", 5),
        ("m!=1,m", 5),
        ("m in (0,1)", 10),
        ("m notin (0),m", 5),
        ("!m", 0),
    ],
)
def test_label_selectors(ten: Namespace, selector: str, found: int) -> None:
    items = [item for item in ten.items("configmaps", labelSelector=selector) if item["metadata"]["name"] != "m"]
    assert len([item for item in items if item["metadata"]["name"].startswith("m")]) == found


@pytest.mark.parametrize("query", [{"labelSelector": "a==b==c"}, {"fieldSelector": "data.k=v"}])
def test_a_selector_that_is_none_is_400(ten: Namespace, query: dict[str, str]) -> None:
    answer = ten.http.request("GET", ten.path("configmaps"), query=query)
    assert (answer.code, answer.json["reason"]) == (400, "BadRequest")


def test_a_list_of_an_absent_namespace_is_empty(cluster: Cluster) -> None:
    answer = cluster.http.request("GET", f"{CORE}/namespaces/contract-absent/pods")
    assert (answer.code, answer.json["items"]) == (200, [])


def test_items_of_a_list_have_no_kind_of_their_own(ten: Namespace) -> None:
    found = ten.listing("configmaps")
    assert found["kind"] == "ConfigMapList"
    assert all("kind" not in item and "apiVersion" not in item for item in found["items"])


def test_pods_are_found_by_node_and_phase(ns: Namespace, build: Build) -> None:
    ns.create("pods", build.pod("p", "true"))
    node = ns.finished("p")["spec"]["nodeName"]
    assert [pod["metadata"]["name"] for pod in ns.items("pods", fieldSelector=f"spec.nodeName={node}")] == ["p"]
    assert ns.items("pods", fieldSelector="status.phase=Running") == []


def test_a_table_has_the_servers_own_pod_status(ns: Namespace, build: Build) -> None:
    ns.create("pods", build.pod("fails", "exit 3"))
    ns.create("pods", build.pod("done", "true"))
    ns.finished("fails")
    ns.finished("done")
    table = ns.http.request("GET", ns.path("pods"), accept=TABLE).json
    assert table["kind"] == "Table"
    columns = [column["name"] for column in table["columnDefinitions"]]
    assert columns[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    rows = {row["cells"][0]: row for row in table["rows"]}
    assert rows["fails"]["cells"][1:3] == ["0/1", "Error"]
    assert rows["done"]["cells"][1:3] == ["0/1", "Completed"]
    assert rows["done"]["object"]["kind"] == "PartialObjectMetadata"


def test_a_table_may_come_without_objects(ten: Namespace) -> None:
    table = ten.http.request("GET", ten.path("configmaps"), query={"includeObject": "None"}, accept=TABLE).json
    assert table["rows"][0].get("object") is None


def test_discovery_names_resources_verbs_and_kinds(cluster: Cluster) -> None:
    core = cluster.http.request("GET", "/api/v1").json
    assert core["kind"] == "APIResourceList"
    pods = next(found for found in core["resources"] if found["name"] == "pods")
    assert (pods["kind"], pods["namespaced"], pods["shortNames"]) == ("Pod", True, ["po"])
    assert {"create", "delete", "get", "list", "patch", "update", "watch"} <= set(pods["verbs"])
    assert {"pods/log", "pods/exec", "pods/eviction", "pods/status"} <= {found["name"] for found in core["resources"]}
    batch = cluster.http.request("GET", "/apis/batch/v1").json
    assert batch["apiVersion"] == "v1"
    groups = {group["name"] for group in cluster.http.request("GET", "/apis").json["groups"]}
    assert {"apps", "batch", "policy", "rbac.authorization.k8s.io", "coordination.k8s.io"} <= groups


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health_is_a_word(cluster: Cluster, path: str) -> None:
    answer = cluster.http.request("GET", path, accept="*/*")
    assert (answer.code, answer.text) == (200, "ok")


def test_the_version_has_a_number(cluster: Cluster) -> None:
    found = cluster.http.request("GET", "/version").json
    assert found["major"] == "1"
    assert found["gitVersion"].startswith("v1.")
