"""A run's namespace goes away, or it is said what holds it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpuproof.cluster.backoff import Patience
from gpuproof.cluster.kube import KubeCluster, connect
from gpuproof.run_namespace import RunNamespace, delete_namespace, leftovers
from tests.gpuproof.cluster import rude_server as rude

PATH = "/api/v1/namespaces"
FAST = Patience(first_s=0.01, longest_s=0.05, give_up_s=1.0, connect_s=1.0, call_s=1.0, quiet_watch_s=5.0)


def namespace(name: str = "run", **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "resourceVersion": "5", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"kind": "Namespace", "metadata": metadata, "status": {"phase": "Terminating", **status}}


@pytest.fixture
def server() -> Iterator[rude.RudeServer]:
    with rude.serving() as running:
        yield running


@pytest.fixture
def cluster(server: rude.RudeServer, tmp_path: Path) -> Iterator[KubeCluster]:
    connected = connect(kubeconfig=server.kubeconfig(tmp_path), patience=FAST)
    yield connected
    connected.close()


def test_deleted_and_waited_for_with_two_requests(server: rude.RudeServer, cluster: KubeCluster) -> None:
    server.on(f"{PATH}/run", rude.answer(namespace()))
    gone = {"type": "DELETED", "object": namespace()}
    server.on(PATH, rude.stream({"type": "MODIFIED", "object": namespace()}, gone, then_hang=True))
    done = RunNamespace(cluster, namespace()).delete(5)
    assert done.deleted
    assert done.left == ()
    assert cluster.counters.requests == 2
    assert server.asked[-1][2]["resourceVersion"] == "5"


def test_what_holds_it_is_said(server: rude.RudeServer, cluster: KubeCluster) -> None:
    holding = [
        {
            "type": "NamespaceFinalizersRemaining",
            "status": "True",
            "message": "example.com/hold in 1 resource instances",
        },
        {"type": "NamespaceContentRemaining", "status": "False", "message": "nothing"},
    ]
    server.on(f"{PATH}/run", rude.answer(namespace()), rude.answer(namespace(conditions=holding)))
    server.on(PATH, rude.stream(then_hang=True))
    done = RunNamespace(cluster, namespace()).delete(0.3)
    assert not done.deleted
    assert done.left == ("NamespaceFinalizersRemaining: example.com/hold in 1 resource instances",)


def test_a_pod_that_no_kubelet_ends_is_removed_by_force_and_named(
    server: rude.RudeServer, cluster: KubeCluster
) -> None:
    stuck = {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "run", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": "n1"},
    }
    server.on(f"{PATH}/run", rude.answer(namespace()))
    gone = {"type": "DELETED", "object": namespace()}
    server.on(PATH, rude.stream(then_hang=True), rude.stream(gone, then_hang=True))
    server.on(f"{PATH}/run/pods", rude.answer({"kind": "PodList", "metadata": {}, "items": [stuck, {"metadata": {}}]}))
    server.on(f"{PATH}/run/pods/p", rude.answer(stuck))
    done = delete_namespace(cluster, "run", 5, stuck_after_s=0.3)
    assert done.deleted
    assert done.left == ("pod p on n1 was removed by force: its kubelet did not confirm its end",)
    assert ("DELETE", f"{PATH}/run/pods/p", {}) in server.asked


def test_gone_already(server: rude.RudeServer, cluster: KubeCluster) -> None:
    assert RunNamespace(cluster, namespace()).delete(1).deleted


def test_an_unreachable_cluster_is_said_not_raised(server: rude.RudeServer, cluster: KubeCluster) -> None:
    server.on(f"{PATH}/run", rude.fail(500, "InternalError", "etcd is away"))
    done = RunNamespace(cluster, namespace()).delete(1)
    assert not done.deleted
    assert "etcd is away" in done.left[0]


def test_what_is_left_of_old_runs_only(server: rude.RudeServer, cluster: KubeCluster) -> None:
    young = namespace("young")
    young["metadata"]["creationTimestamp"] = "2026-01-01T02:00:00Z"
    undated = {"metadata": {"name": "undated"}}
    server.on(PATH, rude.answer({"kind": "NamespaceList", "metadata": {}, "items": [namespace("old"), young, undated]}))
    now = datetime(2026, 1, 1, 2, 30, tzinfo=UTC)
    assert leftovers(cluster, older_than=timedelta(hours=1), now=now) == ("old",)
    assert leftovers(cluster, now=now) == ("old", "young", "undated")
    assert server.asked[0][2]["labelSelector"] == "app.kubernetes.io/managed-by=gpuproof"
