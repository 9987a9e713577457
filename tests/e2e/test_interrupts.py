"""Runs that are stopped: nothing is left behind, what was known is kept, and nothing unfinished is ever accepted."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from gpuproof.record import read_record

GPUPROOF = [sys.executable, "-c", "from gpuproof.cli import main; main()"]
SIMULATED = ["--profile", "thresholds/simulated.toml", "--cluster", "sim"]
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

    def wait_for(self, event: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        pause = 0.05
        while event not in self.events():
            assert self.process.poll() is None, "the run ended early"
            assert time.monotonic() < deadline, f"no {event} within {PATIENCE_S} s"
            try:
                self.process.wait(pause)
            except subprocess.TimeoutExpired:
                continue
        self.family = psutil.Process(self.process.pid).children(recursive=True)

    def family_is_gone(self) -> bool:
        return not psutil.wait_procs(self.family, timeout=20)[1]


@contextmanager
def running(out: Path, *arguments: str) -> Iterator[Started]:
    command = [*GPUPROOF, "run", *SIMULATED, "--out", str(out), *arguments]
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


@pytest.mark.parametrize(("number", "moment"), [(signal.SIGINT, "measurement"), (signal.SIGTERM, "job_started")])
def test_an_interrupted_run_tidies_up_and_is_undecided(tmp_path: Path, number: signal.Signals, moment: str) -> None:
    before = machine()
    with running(tmp_path / "run") as run:
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
        run.wait_for("verdict")
        deadline = time.monotonic() + PATIENCE_S
        record = tmp_path / "run" / "record.jsonl"
        while not any(line.get("verdict") == "FAIL" for line in read_record(record)):
            assert time.monotonic() < deadline
            assert run.process.poll() is None
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(PATIENCE_S) == 1


def test_a_killed_run_leaves_no_process_and_its_record_is_rendered_and_resumed(tmp_path: Path) -> None:
    before = machine()
    out = tmp_path / "run"
    with running(out) as run:
        run.wait_for("verdict")
        run.process.kill()
        run.process.wait()
    assert run.family_is_gone()
    assert machine() == before
    assert "decision" not in run.events()
    done = subprocess.run([*GPUPROOF, "report", str(out)], capture_output=True, timeout=60, check=False)
    assert done.returncode == 3
    assert "UNDECIDED" in (out / "report.html").read_text()
    settled = [line for line in read_record(out / "record.jsonl") if line["event"] == "verdict"]
    assert settled
    resumed = subprocess.run(
        [*GPUPROOF, "run", *SIMULATED, "--resume", str(out)], capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    lines = read_record(out / "record.jsonl")
    measured = [line for line in lines if line["event"] == "measurement"]
    again = {(line["check"], line["subject"]) for line in settled}
    after = [line["seq"] for line in lines if line["event"] == "resumed"][-1]
    assert not [line for line in measured if line["seq"] > after and (line["check"], line["subject"]) in again]
