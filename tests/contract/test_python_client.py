"""The official Python client: the calls that the harness makes, through its own models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import kubernetes
import kubernetes.stream
import pytest
from kubernetes.client.exceptions import ApiException

from tests.contract.cluster import STAYS, Build, Cluster, Namespace, config_map

Untyped = Any
client: Untyped = kubernetes.client  # its models say Optional of every field
_watch: Untyped = kubernetes.watch.Watch
_stream: Untyped = kubernetes.stream.stream


@pytest.fixture(scope="module")
def api(cluster: Cluster) -> Iterator[Untyped]:
    """The official client."""
    new: Untyped = kubernetes.config.new_client_from_config
    found = new(config_file=str(cluster.kubeconfig))
    yield found
    found.close()


def test_nodes_and_version_fit_its_models(api: Untyped) -> None:
    nodes = client.CoreV1Api(api).list_node().items
    assert all(node.status.node_info.kubelet_version for node in nodes)
    assert client.VersionApi(api).get_code().major == "1"


def test_a_job_from_creation_to_its_log(api: Untyped, ns: Namespace, build: Build) -> None:
    client.BatchV1Api(api).create_namespaced_job(ns.name, build.job("j", "echo $JOB_COMPLETION_INDEX", 2))
    ns.job_done("j")
    job = client.BatchV1Api(api).read_namespaced_job("j", ns.name)
    assert (job.status.succeeded, job.status.completed_indexes) == (2, "0,1")
    core = client.CoreV1Api(api)
    pods = core.list_namespaced_pod(ns.name, label_selector="job-name=j").items
    logs = {core.read_namespaced_pod_log(pod.metadata.name, ns.name).strip() for pod in pods}
    assert logs == {"0", "1"}


def test_its_watch_sees_a_pod_to_its_end(api: Untyped, ns: Namespace, build: Build) -> None:
    core = client.CoreV1Api(api)
    start = core.list_namespaced_pod(ns.name).metadata.resource_version
    core.create_namespaced_pod(ns.name, build.pod("p", "true"))
    watching = _watch()
    phases = []
    for event in watching.stream(core.list_namespaced_pod, ns.name, resource_version=start, timeout_seconds=60):
        phases.append(event["object"].status.phase)
        if phases[-1] == "Succeeded":
            watching.stop()
    assert (phases[0], phases[-1]) == ("Pending", "Succeeded")


def test_its_errors_carry_the_status(api: Untyped, ns: Namespace) -> None:
    with pytest.raises(ApiException) as refusal:
        client.CoreV1Api(api).read_namespaced_config_map("absent", ns.name)
    assert (refusal.value.status, refusal.value.reason) == (404, "Not Found")


def test_its_patches_and_deletes(api: Untyped, ns: Namespace) -> None:
    core = client.CoreV1Api(api)
    core.create_namespaced_config_map(ns.name, config_map("a", {"k": "1"}))
    assert core.patch_namespaced_config_map("a", ns.name, {"data": {"k": "2"}}).data == {"k": "2"}
    core.delete_namespaced_config_map("a", ns.name)
    assert ns.get("configmaps", "a").code == 404


def test_its_exec(api: Untyped, ns: Namespace, build: Build) -> None:
    ns.create("pods", build.pod("p", STAYS))
    ns.running("p")
    own = client.ApiClient(api.configuration)  # the client's stream helper swaps its request method for a while
    try:
        session = _stream(
            client.CoreV1Api(own).connect_get_namespaced_pod_exec,
            "p",
            ns.name,
            command=["echo", "hi"],
            stdout=True,
            stderr=True,
            stdin=False,
            tty=False,
            _preload_content=False,
        )
        session.run_forever(timeout=30)
        answer, code = session.read_stdout(), session.returncode
        session.sock.shutdown()  # its own close leaves the connection open once the server has closed
    finally:
        own.close()
    assert (answer, code) == ("hi\n", 0)
