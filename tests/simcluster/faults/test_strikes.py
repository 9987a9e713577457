"""Faults strike: several at a time, each on another node of one cluster, seen as a client sees them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.simcluster.node.cluster_process import Namespace, SimulatedCluster, running, terminated, wait_for
from tests.simcluster.node.test_pods import python, shell

TWO_GPUS = {"resources": {"limits": {"nvidia.com/gpu": "2"}}}
ASK = """
import ctypes, json, subprocess
cuda = ctypes.CDLL("libcuda.so.1")
init = cuda.cuInit(0)
wrong = []
count = ctypes.c_int()
cuda.cuDeviceGetCount(ctypes.byref(count))
for gpu in range(count.value if init == 0 else 0):
    context, address = ctypes.c_void_p(), ctypes.c_uint64()
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), gpu)
    cuda.cuCtxSetCurrent(context)
    data, back = bytes(range(256)) * 16, ctypes.create_string_buffer(4096)
    cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4096))
    cuda.cuMemcpyHtoD_v2(address, data, ctypes.c_size_t(4096))
    cuda.cuMemcpyDtoH_v2(back, address, ctypes.c_size_t(4096))
    wrong.append(sum(a != b for a, b in zip(back.raw, data)))
query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
drivers = subprocess.run(query, capture_output=True, text=True).stdout.split()
print(json.dumps({"init": init, "wrong": wrong, "drivers": drivers}))
"""


@pytest.fixture(scope="module")
def sick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedCluster]:
    faults = ("node-offers-one-gpu", "gpu-compute-fails", "gpu-wrong-results", "driver-mismatch")
    arguments = [word for fault in faults for word in ("--fault", fault)]
    with running(tmp_path_factory.mktemp("sick"), "--time-scale", "0.05", *arguments) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedCluster]:
    faults = ("pod-never-starts", "black-hole-node", "node-vanishes", "image-pull-fails-on-one-node")
    arguments = [word for fault in faults for word in ("--fault", fault)]
    with running(tmp_path_factory.mktemp("refusing"), "--time-scale", "0.05", *arguments) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedCluster]:
    faults = ("quota-exhausted", "measurement-truncated", "gpu-missing-in-pod")
    arguments = [word for fault in faults for word in ("--fault", fault)]
    with running(tmp_path_factory.mktemp("closed"), "--time-scale", "0.05", *arguments) as cluster:
        yield cluster


def ask_gpus(ns: Namespace, node: str) -> dict[str, object]:
    ns.pod(f"ask-{node}", python(ASK, **TWO_GPUS), nodeName=node)
    ns.ended(f"ask-{node}")
    found: dict[str, object] = json.loads(ns.log(f"ask-{node}"))
    return found


def test_hardware_faults(sick: SimulatedCluster) -> None:
    ns = Namespace(sick, "hardware")
    node = sick.api.call("GET", "/api/v1/nodes/gpu-03")
    assert node["status"]["capacity"]["nvidia.com/gpu"] == "1"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "1"
    assert node["metadata"]["labels"]["nvidia.com/gpu.count"] == "1"
    healthy = sick.api.call("GET", "/api/v1/nodes/gpu-02")
    driver = healthy["metadata"]["labels"]["nvidia.com/cuda.driver-version.full"]
    assert ask_gpus(ns, "gpu-02") == {"init": 802, "wrong": [], "drivers": [driver, driver]}
    assert ask_gpus(ns, "gpu-04") == {"init": 0, "wrong": [0, 1], "drivers": [driver, driver]}
    assert ask_gpus(ns, "gpu-01") == {"init": 0, "wrong": [0, 0], "drivers": ["535.183.01", "535.183.01"]}


def test_kubelet_faults(refusing: SimulatedCluster) -> None:
    ns = Namespace(refusing, "kubelets")
    for node in ("gpu-01", "gpu-02", "gpu-03"):
        ns.pod(node, shell("true", image="simcluster.local/torch:2"), nodeName=node)
    rejected = ns.ended("gpu-02")
    assert rejected["status"]["reason"] == "UnexpectedAdmissionError"
    assert "containerStatuses" not in rejected["status"]
    wait_for(lambda: "FailedCreatePodSandBox" in dict(ns.reasons("gpu-03")), "FailedCreatePodSandBox")
    assert 'no runtime for "nvidia" is configured' in dict(ns.reasons("gpu-03"))["FailedCreatePodSandBox"]
    stuck = ns.get("pods", "gpu-03") or {}
    assert stuck["status"]["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    ns.until("gpu-01", lambda pod: "ErrImagePull" in str(pod["status"]), "ErrImagePull")


def test_a_node_vanishes_once_its_measurement_runs(refusing: SimulatedCluster) -> None:
    ns = Namespace(refusing, "vanishing")
    names = [item["metadata"]["name"] for item in refusing.api.call("GET", "/api/v1/nodes")["items"]]
    assert "gpu-04" in names
    ns.pod("p", shell("sleep 60", name="measure"), nodeName="gpu-04")

    def gone() -> bool:
        nodes = refusing.api.call("GET", "/api/v1/nodes")["items"]
        return all(item["metadata"]["name"] != "gpu-04" for item in nodes)

    wait_for(gone, "the Node object is deleted")
    assert (ns.get("pods", "p") or {"status": {"phase": "Gone"}})["status"]["phase"] != "Succeeded"


def test_quota_truncation_and_hidden_gpus(closed: SimulatedCluster) -> None:
    api = closed.api
    ns = Namespace(closed, "shut")
    body = {
        "metadata": {"name": "j"},
        "spec": {
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "simcluster.local/python:3", "command": ["true"]}],
                }
            }
        },
    }
    api.call("POST", "/apis/batch/v1/namespaces/shut/jobs", body)

    def refusal() -> str:
        events = api.call("GET", "/api/v1/namespaces/shut/events")["items"]
        return next((item["message"] for item in events if item["reason"] == "FailedCreate"), "")

    assert "exceeded quota" in wait_for(refusal, "FailedCreate")
    assert api.call("GET", ns.path("pods"))["items"] == []
    api.call("DELETE", ns.path("resourcequotas", "exhausted"))
    write = "import os; open('/dev/termination-log', 'w').write('x' * 300 + os.environ['NVIDIA_VISIBLE_DEVICES'])"
    ns.pod("p", python(write, **TWO_GPUS), nodeName="gpu-03")
    message = terminated(ns.ended("p"))["message"]
    assert len(message) == 200
    assert message.count("GPU-") == 1
