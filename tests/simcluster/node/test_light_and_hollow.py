"""Many nodes on a small machine: light containers (real processes, one shared root) and hollow pods (no process)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simcluster.node.cluster_process import (
    Json,
    Namespace,
    SimulatedCluster,
    running,
    state,
    terminated,
    wait_for,
)
from tests.simcluster.node.test_pods import shell

TOPOLOGY = """
[[pools]]
prefix = "light-"
nodes = 8
mode = "light"
gpu = { count = 2 }

[[pools]]
prefix = "hollow-"
nodes = 64
mode = "hollow"
gpu = { count = 8, product = "NVIDIA-H100-80GB-HBM3", memory_mib = 81559 }
labels = { hollow = "yes" }
"""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedCluster]:
    directory = tmp_path_factory.mktemp("many")
    topology: Path = directory / "many.toml"
    topology.write_text(TOPOLOGY)
    with running(directory, "--time-scale", "0.05", "--topology", str(topology)) as cluster:
        yield cluster


def test_light_pods_have_volumes_variables_messages_and_logs(many: SimulatedCluster) -> None:
    ns = Namespace(many, "light")
    ns.create("configmaps", {"metadata": {"name": "cm"}, "data": {"a": "1"}})
    script = (
        "cat /v/a; echo $NODE; nvidia-smi -L | wc -l; printf bye > /dev/termination-log; printf x >> $TERMINATION_LOG"
    )
    ns.pod(
        "p",
        shell(
            script,
            env=[{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
            volumeMounts=[{"name": "v", "mountPath": "/v"}],
            resources={"limits": {"nvidia.com/gpu": "1"}},
        ),
        nodeName="light-03",
        volumes=[{"name": "v", "configMap": {"name": "cm"}}],
    )
    pod = ns.ended("p")
    assert pod["status"]["phase"] == "Succeeded", terminated(pod)
    assert ns.log("p").split() == ["1light-03", "1"]
    assert terminated(pod)["message"] == "byex"


def test_light_pods_do_not_share_their_messages(many: SimulatedCluster) -> None:
    ns = Namespace(many, "apart")
    names = [f"p{number}" for number in range(6)]
    for name in names:
        ns.pod(name, shell(f"sleep 0.2; printf {name} > /dev/termination-log"))
    assert [terminated(ns.ended(name))["message"] for name in names] == names


def test_a_deleted_light_pod_takes_its_children_with_it(many: SimulatedCluster) -> None:
    ns = Namespace(many, "children")
    ns.pod("p", shell("sleep 4321 & wait"), nodeName="light-01", terminationGracePeriodSeconds=0)
    ns.until("p", lambda pod: pod["status"]["phase"] == "Running", "runs")
    ns.delete("p")
    wait_for(lambda: ns.get("pods", "p") is None, "gone")
    wait_for(lambda: "sleep\x004321" not in command_lines(), "its child is gone")


def command_lines() -> str:
    lines = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(place.read_text())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return "\n".join(lines)


def sweep_job() -> Json:
    hold = {"name": "hold", "image": "simcluster.local/python:3"}
    measure = {**hold, "name": "measure", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    annotations = {
        "simcluster.local/duration-s": "0.2",
        "simcluster.local/termination-message": '{"node": "$(NODE)", "pod": "$(POD)"}',
    }
    return {
        "metadata": {"name": "sweep"},
        "spec": {
            "completions": 64,
            "parallelism": 64,
            "completionMode": "Indexed",
            "template": {
                "metadata": {"annotations": annotations},
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": {"hollow": "yes"},
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [measure, hold],
                },
            },
        },
    }


def test_a_sweep_visits_every_hollow_node_once_and_goes_when_deleted(many: SimulatedCluster) -> None:
    ns = Namespace(many, "sweep")
    many.api.call("POST", "/apis/batch/v1/namespaces/sweep/jobs", sweep_job())

    def measured() -> list[Json]:
        pods = many.api.call("GET", ns.path("pods"))["items"]
        done = [pod for pod in pods if pod["status"].get("containerStatuses") and terminated(pod, "measure")]
        return done if len(done) == 64 else []

    pods = wait_for(measured, "64 measurements")
    nodes = {pod["spec"]["nodeName"] for pod in pods}
    assert len(nodes) == 64
    for pod in pods:
        told = {"node": pod["spec"]["nodeName"], "pod": pod["metadata"]["name"]}
        assert terminated(pod, "measure")["message"] == '{{"node": "{node}", "pod": "{pod}"}}'.format(**told)
        assert "running" in state(pod, "hold")
    many.api.call("DELETE", "/apis/batch/v1/namespaces/sweep/jobs/sweep?propagationPolicy=Background")
    wait_for(lambda: not many.api.call("GET", ns.path("pods"))["items"], "all pods are gone")
