"""Trainings that other controllers restart, or that wait in a queue: killed in every way they are the same training.

Not in `make test`: each is a run with all kills on a cluster of its own, minutes in all. The operators are stand-ins.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof import simulation
from gpuproof.record import read_record
from gpuproof.selftest import Reached, rows_of, run_once
from gpuproof.verification import judged_again
from tests.e2e.test_rights import as_the_account

SMALL = Path(__file__).parents[2] / "simcluster" / "topologies" / "small.toml"
KILLS = ("killed_pod", "killed_in_save", "evicted", "stopped", "all_killed", "elsewhere", "damaged")
CHECKS = tuple(f"checkpoint_{kill}" for kill in KILLS)
FIRST = CHECKS[0]
KUEUE = 'queue = "gpuproof-tests"'
pytestmark = [pytest.mark.every_fault, pytest.mark.timeout(900)]


def site(folder: Path, *lines: str) -> Path:
    """The simulated profile with these words about its trainings."""
    said = ["schema = 1", 'profile = "site"', 'extends = "simulated"', "", "[workload.checkpoint_killed_pod]", *lines]
    path = folder / "site.toml"
    path.write_text("\n".join(said) + "\n", encoding="utf-8")
    return path


def topology(folder: Path, *operators: str, trouble: str = "") -> Path:
    """The small cluster with these operators, one of which may misbehave."""
    names = ", ".join(f'"{name}"' for name in operators)
    lines = f"operators = [{names}]\n" + (f"operator_troubles = {{ {trouble} }}\n" if trouble else "")
    path = folder / "cluster.toml"
    path.write_text(SMALL.read_text(encoding="utf-8").replace("\n[[pools]]", f"{lines}\n[[pools]]", 1), "utf-8")
    return path


def reached(folder: Path, profile: Path, cluster: Path, *checks: str) -> Reached:
    got = run_once((), folder / "run", profile, only=checks, topology=str(cluster))
    assert judged_again(read_record(folder / "run" / "record.jsonl"), folder / "run") == []
    return got


@pytest.mark.parametrize(
    ("operators", "lines"),
    [
        pytest.param(("kueue",), (KUEUE, "admitted_within_s = 60"), id="queued Job"),
        pytest.param(("jobset",), ('controller = "JobSet"',), id="JobSet"),
        pytest.param(("jobset", "kueue"), ('controller = "JobSet"', KUEUE), id="queued JobSet"),
        pytest.param(("jobset", "trainer"), ('controller = "TrainJob"',), id="TrainJob"),
        pytest.param(("jobset", "trainer", "kueue"), ('controller = "TrainJob"', KUEUE), id="queued TrainJob"),
        pytest.param(("volcano",), ('controller = "VolcanoJob"', 'queue = "default"'), id="Volcano Job"),
    ],
)
def test_it_is_the_same_training_after_every_kill(tmp_path: Path, operators: tuple[str], lines: tuple[str]) -> None:
    got = reached(tmp_path, site(tmp_path, *lines), topology(tmp_path, *operators), *CHECKS)
    for check in CHECKS:
        row = got.rows[check, "cluster"]
        assert row.verdict == "PASS", (check, row, got.output)


@pytest.mark.parametrize(
    ("operators", "controller", "trouble", "within_s"),
    [
        # The first two say that they gave up: nobody waits so long.
        pytest.param(("jobset",), "JobSet", 'jobset = "never-restarts"', 600, id="JobSet"),
        pytest.param(("jobset", "trainer"), "TrainJob", 'jobset = "never-restarts"', 600, id="TrainJob"),
        pytest.param(("volcano",), "VolcanoJob", 'volcano = "never-restarts"', 25, id="Volcano Job"),
    ],
)
def test_a_training_that_its_controller_never_restarts_did_not_come_back(
    tmp_path: Path, operators: tuple[str], controller: str, trouble: str, within_s: int
) -> None:
    profile = site(tmp_path, f'controller = "{controller}"', f"recover_within_s = {within_s}")
    got = reached(tmp_path, profile, topology(tmp_path, *operators, trouble=trouble), FIRST)
    row = got.rows[FIRST, "cluster"]
    assert (row.verdict, row.reason_code) == ("FAIL", "limit_missed"), (row, got.output)
    assert "came_back is false" in " ".join(row.reasons)


@pytest.mark.parametrize(
    ("operators", "lines"),
    [
        pytest.param(("kueue",), (), id="Job"),
        pytest.param(("jobset", "kueue"), ('controller = "JobSet"',), id="JobSet"),
    ],
)
def test_a_queue_that_never_admits_is_an_error_in_its_own_words(
    tmp_path: Path, operators: tuple[str], lines: tuple[str]
) -> None:
    profile = site(tmp_path, *lines, KUEUE, "admitted_within_s = 5")
    cluster = topology(tmp_path, *operators, trouble='kueue = "never-admits"')
    got = reached(tmp_path, profile, cluster, FIRST, "checkpoint_damaged")
    for check in (FIRST, "checkpoint_damaged"):
        row = got.rows[check, "cluster"]
        assert (row.verdict, row.reason_code) == ("ERROR", "not_admitted"), (row, got.output)
        assert "did not admit reference within 5 s" in " ".join(row.reasons)
        assert "nvidia.com/gpu" in " ".join(row.reasons), "the queue's own words"


def kubectl(kubeconfig: Path, *arguments: str) -> list[str]:
    return ["kubectl", "--kubeconfig", str(kubeconfig), *arguments]


def test_what_a_queue_takes_out_in_the_middle_was_not_killed_by_us(tmp_path: Path) -> None:
    profile = site(tmp_path, 'controller = "TrainJob"', KUEUE)
    with simulation.start(str(topology(tmp_path, "jobset", "trainer", "kueue"))) as simulated:
        account = as_the_account(simulated.kubeconfig, tmp_path / "account.yaml")  # whose rights must be enough
        command = [sys.executable, "-c", "from gpuproof.cli import main; main()", "run", "--profile", str(profile)]
        command += ["--kubeconfig", str(account), "--out", str(tmp_path / "run"), "--only", FIRST]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
            seen = kubectl(simulated.kubeconfig, "get", "pods", "-A", "-w", "-l", "gpuproof.dev/job=killed-1")
            with subprocess.Popen(seen, stdout=subprocess.PIPE, text=True) as pods:
                assert pods.stdout is not None
                assert any(" Running " in line for line in pods.stdout), "the killed training never ran"
                drain = '{"spec": {"stopPolicy": "HoldAndDrain"}}'
                patch = kubectl(simulated.kubeconfig, "patch", "clusterqueue", "gpuproof-tests", "--type=merge")
                subprocess.run([*patch, "-p", drain], check=True, timeout=60)
                pods.terminate()
            output, _ = run.communicate(timeout=600)
    row = rows_of(read_record(tmp_path / "run" / "record.jsonl"))[FIRST, "cluster"]
    assert (row.verdict, row.reason_code) == ("ERROR", "not_admitted"), (row, output)
    assert "took killed-1 out again: ClusterQueueStopped" in " ".join(row.reasons)


@pytest.mark.parametrize(
    ("operator", "lines", "said"),
    [
        pytest.param("kueue", ('queue = "nobody"',), "nobody", id="Kueue"),
        pytest.param("volcano", ('controller = "VolcanoJob"', 'queue = "nobody"'), "nobody", id="Volcano"),
    ],
)
def test_a_queue_that_is_not_there_is_an_error(
    tmp_path: Path, operator: str, lines: tuple[str, ...], said: str
) -> None:
    profile = site(tmp_path, *lines, "admitted_within_s = 5")
    row = reached(tmp_path, profile, topology(tmp_path, operator), FIRST).rows[FIRST, "cluster"]
    assert row.verdict == "ERROR", row
    assert said in " ".join(row.reasons), row


@pytest.mark.parametrize(
    ("lines", "group"),
    [
        pytest.param(('controller = "JobSet"',), "jobset.x-k8s.io/v1alpha2", id="JobSet"),
        pytest.param((KUEUE,), "kueue.x-k8s.io/v1beta1", id="Kueue"),
    ],
)
def test_what_a_cluster_does_not_serve_is_named_before_any_pod_is_made(
    tmp_path: Path, lines: tuple[str], group: str
) -> None:
    got = reached(tmp_path, site(tmp_path, *lines), SMALL, FIRST)
    row = got.rows[FIRST, "cluster"]
    assert (row.verdict, row.reason_code) == ("ERROR", "harness_error"), (row, got.output)
    assert "the cluster does not serve" in " ".join(row.reasons)
    assert group in " ".join(row.reasons)
    made = {line["job"] for line in read_record(tmp_path / "run" / "record.jsonl") if line["event"] == "job"}
    assert made == set()
