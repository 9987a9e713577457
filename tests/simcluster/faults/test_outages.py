"""Outages strike a running cluster: frozen, cut off and killed nodes, slow links, worn hardware."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.simcluster.node.cluster_process import (
    ROOT,
    Api,
    Json,
    Namespace,
    SimulatedCluster,
    close,
    first_line,
    running,
    start,
    state,
    wait_for,
)

_HEAD = 'id = "{id}"\ntitle = "t"\nmechanism = "m"\nsource = "this test"\n'
_TAIL = '[[expects]]\ncheck = "c"\nsubject = "all"\nverdict = "FAIL"\n'
SILENCE_S = 2.0
"""Of something that says every 0.2 s that it lives."""

# Strikes when a container of this name begins to run on the node.
_WHEN = 'at = {{ event = "measuring", node = "{node}", container = "{trigger}" }}\n'


def fault(directory: Path, name: str, node: str, action: dict[str, Any], trigger: str = "") -> str:
    """A fault file's path; it strikes at the start, or where a container `trigger` begins to run on the node."""
    at = _WHEN.format(node=node, trigger=trigger) if trigger else ""
    lines = [f"{key} = {json.dumps(value)}" for key, value in {"node": node, **action}.items()]
    place = directory / f"{name}.toml"
    place.write_text(_HEAD.format(id=name) + at + "[[action]]\n" + "\n".join(lines) + "\n" + _TAIL)
    return str(place)


def ready(api: Api, node: str) -> str:
    conditions = api.call("GET", f"/api/v1/nodes/{node}")["status"]["conditions"]
    return str(next(item["status"] for item in conditions if item["type"] == "Ready"))


def taints(api: Api, node: str) -> set[str]:
    return {item["key"] for item in api.call("GET", f"/api/v1/nodes/{node}")["spec"].get("taints") or []}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("outages")
    faults = [
        fault(folder, "frozen", "gpu-01", {"do": "freeze-node", "for_s": 90}, "freeze"),
        fault(folder, "cut", "gpu-02", {"do": "partition-node", "for_s": 90}, "cut"),
        fault(folder, "killed", "gpu-03", {"do": "kill-node", "for_s": 90}, "kill"),
        fault(folder, "lost", "*", {"do": "forsake-node", "node": "@", "for_s": 90}, "forsake"),
        fault(folder, "slow", "gpu-04", {"do": "limit-link", "mbit": 20}),
        fault(folder, "down", "gpu-04", {"do": "change-adapter", "adapter": "mlx5_1", "active": False}, "down"),
        fault(folder, "ill", "gpu-04", {"do": "mark-unhealthy"}),
    ]
    arguments = [word for path in faults for word in ("--fault", path)]
    # Longer than any of these nodes stays silent: only what is lost for good is given up.
    arguments += ["--topology", str(with_remediation(folder, after_s=100))]
    with running(folder / "run", "--time-scale", "0.03", *arguments) as started:
        yield started


def with_remediation(folder: Path, after_s: int) -> Path:
    """The small cluster, where somebody declares nodes out of service."""
    small = (ROOT / "simcluster" / "topologies" / "small.toml").read_text(encoding="utf-8")
    place = folder / "cluster.toml"
    place.write_text(small.replace("\n[[pools]]", f"remediation = {{ after_s = {after_s} }}\n\n[[pools]]", 1), "utf-8")
    return place


@pytest.fixture
def ns(cluster: SimulatedCluster, request: pytest.FixtureRequest) -> Namespace:
    return Namespace(cluster, request.node.name.replace("_", "-")[:40].strip("-"))


def sleeper(name: str) -> Json:
    return {"name": name, "command": ["sleep", "1000"]}


def seconds_of(ns: Namespace, pod: str) -> float:
    return float(ns.log(pod).split()[-1])


def test_a_frozen_node_is_tainted_and_comes_back_with_its_pods(ns: Namespace) -> None:
    ns.pod("p", sleeper("freeze"), nodeName="gpu-01", restartPolicy="Always")
    wait_for(lambda: ready(ns.api, "gpu-01") == "Unknown", "the silence is noticed")
    wait_for(lambda: "node.kubernetes.io/unreachable" in taints(ns.api, "gpu-01"), "the taint")
    wait_for(lambda: ready(ns.api, "gpu-01") == "True", "the node is back")
    wait_for(lambda: not taints(ns.api, "gpu-01") & {"node.kubernetes.io/unreachable"}, "the taint goes")
    found = ns.get("pods", "p")
    assert found is not None
    assert "running" in state(found, "freeze")
    assert found["status"]["containerStatuses"][0]["restartCount"] == 0


def test_pods_of_a_node_that_is_cut_off_reach_nobody_until_it_is_back(ns: Namespace) -> None:
    ns.pod("other", {"command": ["python3", "-m", "http.server", "8000"]}, nodeName="gpu-04")
    address = ns.until("other", lambda pod: pod["status"].get("podIP"), "an address")["status"]["podIP"]
    script = (
        "import socket, time\nfailed = False\nwhile True:\n"
        f"  try: socket.create_connection(('{address}', 8000), 0.3).close()\n"
        "  except OSError:\n    failed = True\n    time.sleep(0.05)\n    continue\n"
        "  if failed: print('back', flush=True); break\n  time.sleep(0.05)\n"
    )
    ns.pod("p", {"name": "cut", "command": ["python3", "-c", script]}, nodeName="gpu-02")
    wait_for(lambda: ready(ns.api, "gpu-02") == "Unknown", "the silence is noticed")
    assert ns.ended("p")["status"]["phase"] == "Succeeded"
    assert ns.log("p").strip().endswith("back")
    wait_for(lambda: ready(ns.api, "gpu-02") == "True", "the node is back")


def test_a_killed_node_boots_again_and_restarts_what_may_be(ns: Namespace) -> None:
    before = ns.api.call("GET", "/api/v1/nodes/gpu-03")["status"]["nodeInfo"]["bootID"]
    ns.pod("always", sleeper("c"), nodeName="gpu-03", restartPolicy="Always")
    ns.until("always", lambda pod: "running" in state(pod), "runs")
    ns.pod("never", sleeper("kill"), nodeName="gpu-03")
    wait_for(lambda: ready(ns.api, "gpu-03") == "Unknown", "the silence is noticed")
    wait_for(lambda: ready(ns.api, "gpu-03") == "True", "the node is back")
    assert ns.api.call("GET", "/api/v1/nodes/gpu-03")["status"]["nodeInfo"]["bootID"] != before
    ended = ns.ended("never")
    assert ended["status"]["phase"] == "Failed"
    assert state(ended, "kill")["terminated"]["reason"] == "ContainerStatusUnknown"
    ns.pod("after", {"command": ["true"]}, nodeName="gpu-03")
    assert ns.ended("after")["status"]["phase"] == "Succeeded"
    ns.until("always", lambda pod: "running" in state(pod), "runs again")


def test_pods_of_a_forsaken_node_run_on_though_the_api_has_lost_them(ns: Namespace) -> None:
    ns.pod("server", {"command": ["python3", "-m", "http.server", "8000"]}, nodeName="gpu-04")
    address = ns.until("server", lambda pod: pod["status"].get("podIP"), "an address")["status"]["podIP"]
    ask = f"wget -q -O /dev/null http://{address}:8000"
    script = f"while :; do {ask}/alive; sleep 0.2; done"
    ns.pod("p", {"name": "forsake", "command": ["sh", "-c", script]}, nodeName="gpu-02")
    wait_for(lambda: ns.get("pods", "p") is None, "the pod is removed by force")
    assert "node.kubernetes.io/out-of-service" in taints(ns.api, "gpu-02")
    before = ns.log("server").count("alive")
    wait_for(lambda: ns.log("server").count("alive") > before, "it runs on")
    wait_for(lambda: "node.kubernetes.io/out-of-service" not in taints(ns.api, "gpu-02"), "the node is back")
    heard = [(0, 0.0)]

    def silent() -> bool:
        count = ns.log("server").count("alive")
        if count != heard[-1][0]:
            heard.append((count, time.monotonic()))
        return time.monotonic() - heard[-1][1] > SILENCE_S

    wait_for(silent, "the kubelet that is back has ended it")


def lose(cluster: SimulatedCluster, *words: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "simcluster", "lose-node", *words]
    kubeconfig = {"KUBECONFIG": str(cluster.ready["kubeconfig"])}
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **kubeconfig}, capture_output=True, check=False)


def test_a_node_that_is_lost_for_good_is_given_up_and_its_pods_are_removed(
    ns: Namespace, cluster: SimulatedCluster
) -> None:
    unknown = lose(cluster, "gpu-99")
    assert (unknown.returncode, b"no node 'gpu-99'" in unknown.stderr) == (1, True), unknown.stderr
    ns.pod("p", sleeper("c"), nodeName="control-plane", tolerations=[])
    ns.until("p", lambda pod: "running" in state(pod), "runs")
    done = lose(cluster, "control-plane")
    assert done.returncode == 0, done.stderr
    wait_for(lambda: ready(ns.api, "control-plane") == "Unknown", "the silence is noticed")
    wait_for(lambda: "node.kubernetes.io/out-of-service" in taints(ns.api, "control-plane"), "somebody gives it up")
    wait_for(lambda: ns.get("pods", "p") is None, "the pod that cannot end is removed")


def test_a_slow_uplink_slows_what_passes_it(ns: Namespace) -> None:
    serve = "head -c 2000000 /dev/zero > /tmp/x; cd /tmp; python3 -m http.server 8000"
    ns.pod("server", {"command": ["sh", "-c", serve]}, nodeName="gpu-01", tolerations=[{"operator": "Exists"}])
    address = ns.until("server", lambda pod: pod["status"].get("podIP"), "an address")["status"]["podIP"]
    script = (
        "import time, urllib.request\nwhile True:\n"
        f"  try: urllib.request.urlopen('http://{address}:8000/', timeout=5).read(); break\n"
        "  except OSError: time.sleep(0.1)\n"
        f"t = time.monotonic(); urllib.request.urlopen('http://{address}:8000/x').read(); print(time.monotonic() - t)"
    )
    for name, node in (("fast", "gpu-02"), ("slow", "gpu-04")):
        ns.pod(name, {"command": ["python3", "-c", script]}, nodeName=node)
        ns.ended(name)
    # 16 Mbit at 20 Mbit/s, less the burst; the healthy link is 25 times as fast.
    assert seconds_of(ns, "slow") > 0.5
    assert seconds_of(ns, "slow") > 3 * seconds_of(ns, "fast")


def test_a_dead_port_shows_in_sysfs_and_tools(ns: Namespace) -> None:
    script = "sleep 0.5; ibstat; cat /sys/class/net/net2/carrier; ib_write_bw -d mlx5_1 2>&1"
    container = {"name": "down", "command": ["sh", "-c", script], "resources": {"limits": {"rdma/ib": "2"}}}
    ns.pod("p", container, nodeName="gpu-04")
    ns.ended("p")
    text = ns.log("p")
    assert "State: Down\n\t\tPhysical state: Disabled" in text.partition("CA 'mlx5_1'")[2]
    assert "State: Active" in text.partition("CA 'mlx5_1'")[0]
    assert "\n0\n" in text
    assert "state is Down" in text


def test_a_gpu_that_its_plugin_calls_unhealthy_is_not_allocatable(cluster: SimulatedCluster) -> None:
    def status() -> Json | None:
        found: Json = cluster.api.call("GET", "/api/v1/nodes/gpu-04")["status"]
        return found if found["allocatable"]["nvidia.com/gpu"] == "1" else None

    assert wait_for(status, "the plugin's word")["capacity"]["nvidia.com/gpu"] == "2"


def test_what_the_kernel_cannot_do_is_said_at_the_start(tmp_path: Path) -> None:
    path = fault(tmp_path, "lossy", "gpu-01", {"do": "impair-link", "loss_percent": 5})
    process = start(tmp_path / "run", "--fault", path)
    told = ""
    try:
        first_line(process)
    except AssertionError as ended:
        told = str(ended)
    finally:
        process.terminate()
        code = process.wait(10)
        close(process)
    if not told:
        pytest.skip("this kernel has netem")
    assert "no netem" in told
    assert code == 1
