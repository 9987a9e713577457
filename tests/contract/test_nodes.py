"""Nodes: what they say, cordons, taints, pods bound past the scheduler, daemons."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.cluster import CORE, STAYS, Build, Cluster, Namespace, condition, phase
from tests.contract.http import Json
from tests.contract.waiting import until

MERGE = "application/merge-patch+json"


@pytest.fixture
def node(cluster: Cluster) -> Iterator[str]:
    """A worker that the test may cordon and taint; put back as it was."""
    if not cluster.simulated:
        pytest.skip("changes a node: only on a cluster of our own")
    name = cluster.workers()[-1]
    before = _node(cluster, name)["spec"].get("taints")
    yield name
    _patch(cluster, name, {"unschedulable": None, "taints": before})


def _node(cluster: Cluster, name: str) -> Json:
    return cluster.http.request("GET", f"{CORE}/nodes/{name}").json


def _patch(cluster: Cluster, name: str, spec: Json) -> None:
    answer = cluster.http.request("PATCH", f"{CORE}/nodes/{name}", {"spec": spec}, content_type=MERGE)
    assert answer.code == 200, answer.text


def _pin(cluster: Cluster, name: str) -> Json:
    return {
        "nodeSelector": {"kubernetes.io/hostname": _node(cluster, name)["metadata"]["labels"]["kubernetes.io/hostname"]}
    }


def test_a_node_says_what_it_has_and_how_it_is(cluster: Cluster) -> None:
    for found in cluster.nodes():
        status = found["status"]
        assert {"cpu", "memory", "pods", "ephemeral-storage"} <= set(status["capacity"])
        assert set(status["allocatable"]) <= set(status["capacity"])
        assert all(isinstance(value, str) for value in status["capacity"].values())
        assert {"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"} <= {c["type"] for c in status["conditions"]}
        assert status["nodeInfo"]["kubeletVersion"].startswith("v1.")
        assert {"Hostname", "InternalIP"} <= {address["type"] for address in status["addresses"]}
        assert found["metadata"]["labels"]["kubernetes.io/hostname"]


def test_a_node_renews_its_lease(cluster: Cluster) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{cluster.workers()[0]}"
    first = cluster.http.request("GET", path).json["spec"]["renewTime"]
    until(lambda: cluster.http.request("GET", path).json["spec"]["renewTime"] > first, cluster.s(60), "a renewal")


def test_a_cordon_is_a_taint_and_keeps_new_pods_away(cluster: Cluster, ns: Namespace, build: Build, node: str) -> None:
    ns.create("pods", build.pod("before", STAYS, **_pin(cluster, node), tolerations=_all_but_cordon()))
    ns.running("before")
    _patch(cluster, node, {"unschedulable": True})
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    until(
        lambda: any(taint.items() <= found.items() for found in _node(cluster, node)["spec"].get("taints") or []),
        cluster.s(10),
        "the taint of the cordon",
    )
    ns.create("pods", build.pod("after", "true", **_pin(cluster, node), tolerations=_all_but_cordon()))
    ns.create("pods", build.pod("bound", "true", nodeName=node))
    pod = ns.wait("pods", "after", lambda found: condition(found, "PodScheduled") == "False")
    assert "1 node(s) were unschedulable" in (condition(pod, "PodScheduled", "message") or "")
    assert phase(ns.finished("bound")) == "Succeeded", "a pod with nodeName goes past the scheduler"
    assert phase(ns.read("pods", "before")) == "Running", "what runs stays"
    _patch(cluster, node, {"unschedulable": None})
    assert phase(ns.finished("after")) == "Succeeded"


def _all_but_cordon() -> list[Json]:
    return [{"key": "nvidia.com/gpu", "operator": "Exists"}]


def test_an_untolerated_taint_keeps_a_pod_pending(cluster: Cluster, ns: Namespace, build: Build, node: str) -> None:
    taints = _node(cluster, node)["spec"].get("taints") or []
    _patch(cluster, node, {"taints": [*taints, {"key": "gold", "value": "yes", "effect": "NoSchedule"}]})
    ns.create("pods", build.pod("p", "true", **_pin(cluster, node), tolerations=_all_but_cordon()))
    pod = ns.wait("pods", "p", lambda found: condition(found, "PodScheduled") == "False")
    assert "untolerated taint(s)" in (condition(pod, "PodScheduled", "message") or "")
    _patch(cluster, node, {"taints": taints})
    assert phase(ns.finished("p")) == "Succeeded"


def test_a_no_execute_taint_evicts(cluster: Cluster, ns: Namespace, build: Build, node: str) -> None:
    ns.create("pods", build.pod("p", STAYS, **_pin(cluster, node)))
    ns.running("p")
    taints = _node(cluster, node)["spec"].get("taints") or []
    with ns.watch("pods") as watch:
        _patch(cluster, node, {"taints": [*taints, {"key": "gold", "effect": "NoExecute"}]})
        ns.gone("pods", "p")
        last = watch.events[-1]["object"]
    assert condition(last, "DisruptionTarget", "reason") == "DeletionByTaintManager"


def test_a_pod_bound_beyond_a_nodes_gpus_is_refused_by_the_kubelet(
    cluster: Cluster, ns: Namespace, build: Build
) -> None:
    with_gpus = [found for found in cluster.nodes() if int(found["status"]["allocatable"].get("nvidia.com/gpu", 0))]
    if not with_gpus:
        pytest.skip("no node has nvidia.com/gpu")
    amount = int(with_gpus[0]["status"]["allocatable"]["nvidia.com/gpu"])
    limits = {"resources": {"limits": {"nvidia.com/gpu": str(amount + 1)}}}
    node = with_gpus[0]["metadata"]["name"]
    ns.create("pods", build.pod("p", "", containers=[build.container("c", "true", **limits)], nodeName=node))
    status = ns.finished("p")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfnvidia.com/gpu")
    assert status["message"].startswith(
        "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, requested: "
    )
    assert "containerStatuses" not in status


def test_a_selector_that_does_not_fit_is_refused_by_the_kubelet(cluster: Cluster, ns: Namespace, build: Build) -> None:
    ns.create("pods", build.pod("p", "true", nodeName=cluster.workers()[0], nodeSelector={"no": "such"}))
    status = ns.finished("p")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "NodeAffinity")


def test_a_pod_of_an_absent_node_is_collected(cluster: Cluster, ns: Namespace, build: Build) -> None:
    ns.create("pods", build.pod("p", "true", nodeName="contract-absent"))
    with ns.watch("pods") as watch:
        ns.gone("pods", "p", 120)
        told = [event["object"] for event in watch.events]
    assert any(condition(pod, "DisruptionTarget", "reason") == "DeletionByPodGC" for pod in told)


def _daemon(build: Build, name: str, tolerations: list[Json]) -> Json:
    spec = build.pod_spec(STAYS, restartPolicy="Always", tolerations=tolerations)
    template = {"metadata": {"labels": {"d": name}}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"d": name}}, "template": template},
    }


def test_a_daemon_runs_on_tolerated_nodes_only(cluster: Cluster, ns: Namespace, build: Build) -> None:
    tainted = [
        n for n in cluster.nodes() if any(t["effect"] != "PreferNoSchedule" for t in n["spec"].get("taints") or [])
    ]
    everywhere, free = len(cluster.nodes()), len(cluster.nodes()) - len(tainted)
    ns.create("daemonsets", _daemon(build, "plain", []))
    ns.create("daemonsets", _daemon(build, "tol", [{"operator": "Exists"}]))
    found = ns.wait("daemonsets", "tol", lambda ds: ds["status"].get("numberReady") == everywhere, 120)
    assert found["status"]["desiredNumberScheduled"] == everywhere
    found = ns.wait("daemonsets", "plain", lambda ds: ds["status"].get("observedGeneration") == 1)
    assert found["status"]["desiredNumberScheduled"] == free, "a tainted node is not wanted at all"
    pods = ns.items("pods", labelSelector="d=tol")
    assert len({pod["spec"]["nodeName"] for pod in pods}) == everywhere
    names = {pod["spec"]["nodeName"] for pod in pods}
    terms = {
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][
            0
        ]["matchFields"][0]["values"][0]
        for pod in pods
    }
    assert terms == names, "bound by an affinity for the node's name"
