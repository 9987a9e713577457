"""Evictions and disruption budgets."""

from __future__ import annotations

from tests.contract.cluster import STAYS, Build, Namespace, condition, terminated
from tests.contract.http import Json
from tests.contract.waiting import until


def _budget(**spec: Json) -> Json:
    body = {"selector": {"matchLabels": {"app": "x"}}, **spec}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "pdb"}, "spec": body}


def _two(ns: Namespace, build: Build) -> None:
    for name in ("one", "two"):
        ns.create("pods", build.pod(name, STAYS, labels={"app": "x"}))
    for name in ("one", "two"):
        ns.running(name)


def _healthy(ns: Namespace, number: int) -> None:
    ns.wait("poddisruptionbudgets", "pdb", lambda pdb: pdb.get("status", {}).get("currentHealthy") == number)


def test_an_eviction_is_marked_on_the_pod_and_is_graceful(ns: Namespace, build: Build) -> None:
    ns.create("pods", build.pod("p", "trap 'exit 143' TERM; while :; do sleep 600 & wait $!; done"))
    ns.running("p")
    with ns.watch("pods") as watch:
        answer = ns.evict("p")
        assert (answer.code, answer.json["kind"], answer.json["status"]) == (201, "Status", "Success")
        ns.gone("pods", "p")
        told = [event["object"] for event in watch.events]
    assert condition(told[-1], "DisruptionTarget", "reason") == "EvictionByEvictionAPI"
    assert any(terminated(pod).get("exitCode") == 143 for pod in told)


def test_an_absent_pod_is_404(ns: Namespace) -> None:
    assert ns.evict("nobody").code == 404


def test_a_budget_refuses_with_429_and_says_why(ns: Namespace, build: Build) -> None:
    ns.create("poddisruptionbudgets", _budget(minAvailable=2))
    _two(ns, build)
    _healthy(ns, 2)
    answer = ns.evict("one")
    assert (answer.code, answer.json["reason"]) == (429, "TooManyRequests")
    assert answer.json["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    cause = answer.json["details"]["causes"][0]
    assert cause["reason"] == "DisruptionBudget"
    assert cause["message"] == "The disruption budget pdb needs 2 healthy pods and has 2 currently"
    assert "deletionTimestamp" not in ns.read("pods", "one")["metadata"]


def test_a_dry_run_is_judged_likewise(ns: Namespace, build: Build) -> None:
    ns.create("poddisruptionbudgets", _budget(minAvailable=2))
    _two(ns, build)
    _healthy(ns, 2)
    assert ns.evict("one", deleteOptions={"dryRun": ["All"]}).code == 429


def test_a_budget_counts_an_eviction_before_the_pod_is_gone(ns: Namespace, build: Build) -> None:
    ns.create("poddisruptionbudgets", _budget(minAvailable=1))
    _two(ns, build)
    ns.wait("poddisruptionbudgets", "pdb", lambda pdb: pdb.get("status", {}).get("disruptionsAllowed") == 1)
    assert ns.evict("one").code == 201
    assert ns.evict("two").code == 429


def test_max_unavailable_over_a_jobs_pods_allows_nothing(ns: Namespace, build: Build) -> None:
    ns.create("poddisruptionbudgets", _budget(maxUnavailable=1))
    ns.create("jobs", build.job("j", STAYS, 2, labels={"app": "x"}))
    ns.wait("jobs", "j", lambda job: job["status"].get("ready") == 2)
    ns.wait("poddisruptionbudgets", "pdb", lambda pdb: condition(pdb, "DisruptionAllowed") == "False")
    assert ns.evict(ns.job_pods("j")[0]["metadata"]["name"]).code == 429
    until(lambda: ns.events("pdb", "CalculateExpectedPodCountFailed"), ns.cluster.s(30), "an event that says why")
