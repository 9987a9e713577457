"""A check whose `hold(...)` is deleted judges nothing, and a run with it is not accepted.

All checks lose it at once, and what they require with it, so that one run says it of each of them.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gpuproof.catalogue import load_checks, subjects_asked
from gpuproof.expectation import State
from gpuproof.profile import THRESHOLDS, load_profile
from gpuproof.record import read_record
from gpuproof.setting import today

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("acceptance", "gpuproof", "manifests", "simcluster", "thresholds", "workloads")
CHECKS = load_checks()
PROFILE = load_profile(THRESHOLDS / "simulated.toml", known_checks=subjects_asked(CHECKS), today=today())
ASKED = [check.name for check in CHECKS if PROFILE.checks[check.name].state is not State.NOT_APPLICABLE]
"""A check that the profile leaves out is not asked, with or without its last line."""

Verdicts = Sequence[Mapping[str, Any]]


def a_copy_of_the_project(directory: Path) -> Path:
    for name in PACKAGES:
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
    return directory


def without_hold(text: str) -> str:
    """The check with nothing in the place of each test's last statement, and without what it requires."""
    lines = text.splitlines(keepends=True)
    for item in ast.parse(text).body:
        if isinstance(item, ast.FunctionDef) and item.name.startswith("test_"):
            last = item.body[-1]
            assert ast.unparse(last).startswith("hold("), item.name
            first, end = last.lineno - 1, last.end_lineno
            assert end is not None
            lines[first:end] = ["    pass\n", *["\n"] * (end - first - 1)]
    return re.sub(r",\s*requires=\[[^\]]*\]", "", "".join(lines))


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Verdicts:
    directory = tmp_path_factory.mktemp("hold")
    copy = a_copy_of_the_project(directory / "project")
    for check in load_checks([copy / "acceptance"]):
        check.file.write_text(without_hold(check.file.read_text(encoding="utf-8")), encoding="utf-8")
    assert not any(check.requires for check in load_checks([copy / "acceptance"]))
    command = [sys.executable, "-c", "from gpuproof.cli import main; main()", "run", "--cluster", "sim"]
    command += ["--profile", "thresholds/simulated.toml", "--out", str(directory / "run")]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=300, check=False)
    assert done.returncode == 3, done.stdout + done.stderr
    return [line for line in read_record(directory / "run" / "record.jsonl") if line["event"] == "verdict"]


@pytest.mark.parametrize("check", ASKED)
def test_a_check_without_its_hold_line_is_an_error_and_the_run_is_undecided(check: str, verdicts: Verdicts) -> None:
    of_check = [line for line in verdicts if line["check"] == check]
    assert {line["verdict"] for line in of_check} == {"ERROR"}
    assert all("judged nothing" in line["reasons"][0] for line in of_check)
