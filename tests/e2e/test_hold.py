"""A check whose `hold(...)` line is deleted judges nothing, and a run with it is not accepted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.catalogue import load_checks
from gpuproof.record import read_record

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("acceptance", "gpuproof", "manifests", "simcluster", "thresholds", "workloads")
CHECKS = load_checks()


def a_copy_of_the_project(directory: Path) -> Path:
    for name in PACKAGES:
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
    return directory


@pytest.mark.parametrize("check", [check.name for check in CHECKS])
def test_a_check_without_its_hold_line_is_an_error_and_the_run_is_undecided(check: str, tmp_path: Path) -> None:
    copy = a_copy_of_the_project(tmp_path / "project")
    (file,) = [check_.file for check_ in load_checks([copy / "acceptance"]) if check_.name == check]
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = ["    pass\n" if line.lstrip().startswith("hold(") else line for line in lines]
    assert kept != lines
    file.write_text("".join(kept), encoding="utf-8")
    command = [sys.executable, "-c", "from gpuproof.cli import main; main()", "run", "--cluster", "sim"]
    command += ["--profile", "thresholds/simulated.toml", "--out", str(tmp_path / "run")]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=100, check=False)
    assert done.returncode == 3, done.stdout + done.stderr
    verdicts = [line for line in read_record(tmp_path / "run" / "record.jsonl") if line["event"] == "verdict"]
    of_check = [line for line in verdicts if line["check"] == check]
    assert {line["verdict"] for line in of_check} == {"ERROR"}
    assert all("judged nothing" in line["reasons"][0] for line in of_check)
