"""Namespaces: what they bring, how they end, what holds them."""

from __future__ import annotations

from tests.contract.cluster import CORE, STAYS, Build, Cluster, Namespace, condition, config_map
from tests.contract.http import Answer, Json
from tests.contract.waiting import holds, until


def _get(ns: Namespace) -> Answer:
    return ns.http.request("GET", f"{CORE}/namespaces/{ns.name}")


def _delete(ns: Namespace) -> Answer:
    return ns.http.request("DELETE", f"{CORE}/namespaces/{ns.name}")


def test_a_namespace_brings_an_account_and_the_clusters_ca(ns: Namespace) -> None:
    ns.wait("configmaps", "kube-root-ca.crt", lambda found: "BEGIN CERTIFICATE" in found["data"]["ca.crt"])
    assert ns.get("serviceaccounts", "default").code == 200
    found = _get(ns).json
    assert found["metadata"]["labels"]["kubernetes.io/metadata.name"] == ns.name
    assert (found["status"]["phase"], found["spec"]["finalizers"]) == ("Active", ["kubernetes"])


def test_a_deleted_namespace_takes_everything_along(ns: Namespace, build: Build) -> None:
    ns.create("configmaps", config_map("a"))
    ns.create("jobs", build.job("j", STAYS, 2))
    ns.wait("jobs", "j", lambda job: job["status"].get("ready") == 2)
    answer = _delete(ns)
    assert (answer.code, answer.json["status"]["phase"]) == (200, "Terminating")
    until(lambda: _get(ns).code == 404, ns.cluster.s(90), "the namespace is gone")
    assert ns.items("pods") == ns.items("configmaps") == ns.items("jobs") == []


def test_nothing_new_goes_into_a_terminating_namespace(ns: Namespace) -> None:
    ns.create("configmaps", config_map("held", finalizers=["example.com/hold"]))
    _delete(ns)
    answer = ns.post("configmaps", config_map("late"))
    assert (answer.code, answer.json["reason"]) == (403, "Forbidden")
    assert answer.json["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    ns.patch("configmaps", "held", {"metadata": {"finalizers": None}})


def test_a_finalizer_holds_its_namespace_which_says_so(ns: Namespace) -> None:
    ns.create("configmaps", config_map("held", finalizers=["example.com/hold"]))
    ns.create("configmaps", config_map("plain"))
    _delete(ns)
    found: Json = until(
        lambda: _get(ns).json if condition(_get(ns).json, "NamespaceFinalizersRemaining") == "True" else None,
        ns.cluster.s(60),
        "the namespace says what holds it",
    )
    told = condition(found, "NamespaceFinalizersRemaining", "message") or ""
    assert "example.com/hold in 1 resource instances" in told
    assert "configmaps. has 1 resource instances" in (condition(found, "NamespaceContentRemaining", "message") or "")
    assert ns.get("configmaps", "plain").code == 404
    holds(lambda: _get(ns).code == 200, 0.5, "it stays")
    assert ns.patch("configmaps", "held", {"metadata": {"finalizers": None}}).code == 200
    until(lambda: _get(ns).code == 404, ns.cluster.s(90), "the namespace is gone")


def test_an_absent_namespace_is_404_on_creation(cluster: Cluster) -> None:
    answer = cluster.http.request("POST", f"{CORE}/namespaces/contract-absent/configmaps", config_map("a"))
    assert answer.code == 404
    assert answer.json["message"] == 'namespaces "contract-absent" not found'
    assert answer.json["details"] == {"name": "contract-absent", "kind": "namespaces"}


def test_the_default_namespace_cannot_be_deleted(cluster: Cluster) -> None:
    answer = cluster.http.request("DELETE", f"{CORE}/namespaces/default", query={"dryRun": "All"})
    assert (answer.code, answer.json["reason"]) == (403, "Forbidden")
