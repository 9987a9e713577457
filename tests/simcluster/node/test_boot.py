"""Whatever ends the simulator, nothing is left: no process, no mount, no directory of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.simcluster.node.cluster_process import (
    ROOT,
    Namespace,
    SimulatedCluster,
    close,
    first_line,
    start,
    wait_for,
)
from tests.simcluster.node.test_pods import shell


def started(directory: Path, *arguments: str) -> tuple[subprocess.Popen[bytes], SimulatedCluster, list[psutil.Process]]:
    """A cluster with one running pod, and all its processes."""
    process = start(directory, "--time-scale", "0.05", *arguments)
    cluster = SimulatedCluster(process, first_line(process))
    ns = Namespace(cluster, "left")
    ns.pod("p", shell("sleep 1234 & sleep 1234"))
    ns.until("p", lambda pod: pod["status"]["phase"] == "Running", "runs")
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    assert len(family) >= 4, "outer process, simulator, zygote, container"
    return process, cluster, family


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def assert_gone(family: list[psutil.Process], directory: Path) -> None:
    wait_for(lambda: not any(map(lives, family)), "all end")
    assert str(directory) not in Path("/proc/self/mounts").read_text()


@pytest.mark.parametrize("victim", ["outer", "inner"])
def test_kill_9_leaves_nothing(tmp_path: Path, victim: str) -> None:
    process, _, family = started(tmp_path)
    target = process.pid if victim == "outer" else psutil.Process(process.pid).children()[0].pid
    os.kill(target, signal.SIGKILL)
    assert_gone(family, tmp_path)
    assert process.wait(10) in (-9, 137)
    close(process)


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "stdin"])
def test_a_polite_end_is_quick_and_clean(tmp_path: Path, how: str) -> None:
    process, _, family = started(tmp_path, *(["--exit-with-stdin"] if how == "stdin" else []))
    if how == "stdin":
        assert process.stdin is not None
        process.stdin.close()
    else:
        process.send_signal(getattr(signal, how))
    assert process.wait(15) == 0
    assert_gone(family, tmp_path)
    close(process)


def test_the_ready_line_says_how_to_connect(cluster: SimulatedCluster) -> None:
    ready = cluster.ready
    assert ready["ready"] is True
    assert ready["server"].startswith("https://127.0.0.1:")
    assert ready["pid"] == cluster.process.pid
    assert Path(ready["kubeconfig"]).stat().st_mode & 0o777 == 0o600
    assert json.loads(cluster.api.raw("GET", "/version"))["gitVersion"] == "v1.36.2+simcluster"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--topology", "nowhere"], "no topology 'nowhere'"),
        (["--fault", "nothing"], "no fault 'nothing'"),
        (["--time-scale", "0"], "--time-scale must be greater than 0"),
    ],
)
def test_a_wrong_argument_is_one_clear_line(arguments: list[str], told: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "simcluster", "serve", *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_no_namespaces_is_one_clear_line_with_the_way_out(tmp_path: Path) -> None:
    """A seccomp-free way to forbid them: a user namespace whose own limit of user namespaces is 0."""
    forbid = (
        "import os\n"
        "from simcluster.node import boot\n"
        "boot.enter_namespaces()\n"
        "open('/proc/sys/user/max_user_namespaces', 'w').write('0')\n"
        "import sys\n"
        f"os.execv(sys.executable, [sys.executable, '-m', 'simcluster', 'serve', '--dir', {str(tmp_path)!r}])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", forbid], capture_output=True, text=True, timeout=30, check=False, cwd=ROOT
    )
    assert done.returncode == 1
    assert "user.max_user_namespaces" in done.stderr
    assert len(done.stderr.splitlines()) == 1
