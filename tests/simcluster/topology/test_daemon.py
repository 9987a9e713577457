"""A cluster in the background, by its command line: up, status, down, and nothing left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.simcluster.node.cluster_process import ROOT, Api, wait_for

Json = dict[str, Any]


def simcluster(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(home)}
    command = [sys.executable, "-m", "simcluster", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=60)


def test_up_status_down(tmp_path: Path) -> None:
    topology = tmp_path / "t.toml"
    topology.write_text(
        '[[pools]]\nprefix = "a-"\nnodes = 1\ngpu = { model = "A100", count = 4 }\nbusy = { gpus = 3 }\n'
        'taints = [{ key = "dedicated", value = "team-a", effect = "NoSchedule" }]\n'
    )
    home = tmp_path / "state"
    assert simcluster(home, "status").returncode == 1
    up = simcluster(home, "up", "--topology", str(topology))
    try:
        assert up.returncode == 0, up.stderr
        kubeconfig = Path(up.stdout.strip())
        assert kubeconfig.is_file()
        ready = json.loads(simcluster(home, "status").stdout)
        assert ready["kubeconfig"] == str(kubeconfig)
        _check_node(Api(kubeconfig))
        again = simcluster(home, "up")
        assert (again.returncode, "runs already" in again.stderr) == (1, True)
    finally:
        down = simcluster(home, "down")
    assert down.returncode == 0, down.stderr
    assert _ended(ready["pid"])
    assert list(home.rglob("*")) == [home / "simcluster"]
    assert simcluster(home, "down").returncode == 1


def _ended(pid: int) -> bool:
    """Gone, or a zombie that a container's first process has not yet collected."""
    try:
        return not Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return True


def _check_node(api: Api) -> None:
    node = api.call("GET", "/api/v1/nodes/a-01")
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
    assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-80GB"
    assert node["spec"]["taints"] == [{"key": "dedicated", "value": "team-a", "effect": "NoSchedule"}]

    def running() -> bool:
        pod = api.call("GET", "/api/v1/namespaces/tenant/pods/training-a-01")
        return bool(pod["status"]["phase"] == "Running")

    wait_for(running, "somebody else's pod runs")


def test_a_bad_topology_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    refused = simcluster(tmp_path, "up", "--topology", "nonsense")
    assert refused.returncode == 2
    assert "no topology 'nonsense'" in refused.stderr
    assert list(tmp_path.iterdir()) == []
