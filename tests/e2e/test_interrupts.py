"""Runs that are stopped: nothing is left behind, what was known is kept, and nothing unfinished is ever accepted."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from gpuproof import simulation
from gpuproof.cluster.kube import connect
from gpuproof.cluster.port import NODES
from gpuproof.record import read_record
from tests.e2e.profiles import QUICK, few_checks

# A background job inherits an ignored SIGINT, and the tests may be one: a user at a terminal has it at its default.
AS_AT_A_TERMINAL = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
GPUPROOF = [sys.executable, "-c", f"{AS_AT_A_TERMINAL}; from gpuproof.cli import main; main()"]
PATIENCE_S = 90.0


@dataclass
class Started:
    """A `gpuproof run` in progress, with all processes that descend from it as last seen."""

    process: subprocess.Popen[bytes]
    out: Path
    family: list[psutil.Process]

    def events(self) -> list[str]:
        record = self.out / "record.jsonl"
        return [str(line["event"]) for line in read_record(record)] if record.exists() else []

    def verdicts(self) -> list[str]:
        record = self.out / "record.jsonl"
        return [line["verdict"] for line in read_record(record) if "verdict" in line] if record.exists() else []

    def wait_for(self, event: str) -> None:
        wait_until(lambda: event in self.events(), self)
        self.family = psutil.Process(self.process.pid).children(recursive=True)

    def family_is_gone(self) -> bool:
        return not psutil.wait_procs(self.family, timeout=20)[1]


def wait_until(happened: Callable[[], bool], run: Started) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert run.process.poll() is None, f"the run ended early: {(run.out.parent / 'output').read_text()}"
        assert time.monotonic() < deadline, f"did not happen within {PATIENCE_S} s"
        with suppress(subprocess.TimeoutExpired):
            run.process.wait(0.05)


@contextmanager
def running(out: Path, *arguments: str, cluster: Sequence[str] = ("--cluster", "sim")) -> Iterator[Started]:
    profile = few_checks(out.parent, *QUICK)
    command = [*GPUPROOF, "run", "--profile", str(profile), *cluster, "--out", str(out), *arguments]
    with (out.parent / "output").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
    started = Started(process, out, [])
    try:
        yield started
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def machine() -> tuple[str, list[str]]:
    """What a leftover mount or interface would change."""
    return Path("/proc/self/mountinfo").read_text(encoding="utf-8"), sorted(
        path.name for path in Path("/sys/class/net").iterdir()
    )


@pytest.mark.parametrize(("number", "moment"), [(signal.SIGINT, "verdict"), (signal.SIGTERM, "job_started")])
def test_an_interrupted_run_tidies_up_and_is_undecided(tmp_path: Path, number: signal.Signals, moment: str) -> None:
    before = machine()
    with running(tmp_path / "run") as run:
        run.wait_for("job_started")
        run.wait_for(moment)
        run.process.send_signal(number)
        assert run.process.wait(PATIENCE_S) == 3, (tmp_path / "output").read_text()
    assert run.family_is_gone()
    assert machine() == before
    lines = {line["event"]: line for line in read_record(tmp_path / "run" / "record.jsonl")}
    assert lines["interrupted"]["signal"] == number.name
    assert lines["cleanup"]["deleted"] is True
    assert lines["decision"]["outcome"] == "UNDECIDED"
    assert "UNDECIDED" in (tmp_path / "run" / "report.html").read_text()


def test_an_interrupt_after_a_failure_stays_rejected(tmp_path: Path) -> None:
    with running(tmp_path / "run", "--sim-fault", "node-offers-one-gpu") as run:
        wait_until(lambda: "FAIL" in run.verdicts(), run)
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(PATIENCE_S) == 1


def test_a_killed_run_leaves_no_process_and_is_rendered_as_undecided(tmp_path: Path) -> None:
    before = machine()
    out = tmp_path / "run"
    with running(out) as run:
        run.wait_for("job_started")
        run.process.kill()
        run.process.wait()
    assert run.family_is_gone()
    assert machine() == before
    assert "decision" not in run.events()
    done = subprocess.run([*GPUPROOF, "report", str(out)], capture_output=True, timeout=60, check=False)
    assert done.returncode == 3
    assert "UNDECIDED" in (out / "report.html").read_text()


def test_a_killed_run_is_resumed_on_its_cluster_and_on_no_other(tmp_path: Path) -> None:
    out = tmp_path / "run"
    resume = [*GPUPROOF, "run", "--profile", str(tmp_path / "few.toml"), "--resume", str(out)]
    with simulation.start() as simulated:
        here = ["--kubeconfig", str(simulated.kubeconfig)]
        with running(out, cluster=here) as run:
            wait_until(lambda: run.verdicts().count("PASS") >= 2, run)
            run.process.kill()
            run.process.wait()
        settled = {(line["check"], line["subject"]) for line in read_record(out / "record.jsonl") if "verdict" in line}
        elsewhere = subprocess.run([*resume, "--cluster", "sim"], capture_output=True, timeout=60, check=False)
        assert elsewhere.returncode == 2, elsewhere.stdout + elsewhere.stderr
        assert b"another cluster" in elsewhere.stderr
        resumed = subprocess.run([*resume, *here], capture_output=True, timeout=PATIENCE_S, check=False)
        assert resumed.returncode == 0, resumed.stdout + resumed.stderr
        lines = read_record(out / "record.jsonl")
        since = [line["seq"] for line in lines if line["event"] == "resumed"][-1]
        measured = {(m["check"], m["subject"]) for m in lines if m["event"] == "measurement" and m["seq"] > since}
        assert settled
        assert not measured & settled
        again = subprocess.run([*resume, *here], capture_output=True, timeout=60, check=False)
        assert (again.returncode, b"finished" in again.stderr) == (2, True)
        left = subprocess.run([*GPUPROOF, "clean", *here, "--yes"], capture_output=True, timeout=60, check=False)
        assert left.returncode == 0
        assert b"deleted" in left.stdout


def test_a_node_that_leaves_after_it_passed_has_not_passed(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with simulation.start() as simulated:
        cluster = connect(kubeconfig=simulated.kubeconfig)
        try:
            with running(out, cluster=["--kubeconfig", str(simulated.kubeconfig)]) as run:
                wait_until(lambda: run.verdicts().count("PASS") >= 6, run)
                cluster.delete(NODES, "gpu-01")
                assert run.process.wait(PATIENCE_S) == 1, (tmp_path / "output").read_text()
        finally:
            cluster.close()
    last = [line for line in read_record(out / "record.jsonl") if line["event"] == "verdict"]
    of_node = [line for line in last if line["subject"] == "gpu-01" and line["check"] == "gpu_inventory"]
    assert (of_node[-1]["verdict"], of_node[-1]["reason_code"]) == ("FAIL", "node_lost")


def test_two_runs_cannot_share_a_folder(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with running(out) as run:
        run.wait_for("planned")
        second = [*GPUPROOF, "run", "--profile", str(tmp_path / "few.toml"), "--cluster", "sim", "--out", str(out)]
        done = subprocess.run(second, capture_output=True, timeout=60, check=False)
        assert (done.returncode, b"already holds a run" in done.stderr) == (2, True)
