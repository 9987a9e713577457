"""What others build on and must not change by accident: public names, exit codes, commands and their flags."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import gpuproof
from gpuproof import cli
from gpuproof.decision import DecisionOutcome, exit_code

COMMANDS = {
    "run": {
        "--profile", "--cluster", "--context", "--kubeconfig", "--in-cluster", "--out", "--only", "--nodes", "--image",
        "--resume", "--private-checks", "--sim-topology", "--sim-fault",
    },
    "plan": {
        "--profile", "--cluster", "--context", "--kubeconfig", "--in-cluster", "--render", "--sim-topology",
        "--sim-fault",
    },
    "report": set(),
    "explain": {"--profile"},
    "sim": set(),
    "selftest": {"--only", "--jobs"},
    "clean": {"--context", "--kubeconfig", "--in-cluster", "--run", "--yes"},
}  # fmt: skip


def test_public_names() -> None:
    expected = ["Answer", "ClusterSubject", "Hold", "NodeSubject", "Observe", "RunWorkload"]
    assert sorted(gpuproof.__all__) == expected
    assert all(hasattr(gpuproof, name) for name in expected)


def test_exit_codes() -> None:
    assert {outcome.value: exit_code(outcome) for outcome in DecisionOutcome} == {
        "ACCEPTED": 0,
        "REJECTED": 1,
        "UNDECIDED": 3,
    }
    assert (cli.ACCEPTED, cli.REJECTED, cli.USAGE, cli.UNDECIDED) == (0, 1, 2, 3)


def test_commands_and_flags() -> None:
    root = get_command(cli.app)
    commands = getattr(root, "commands")  # noqa: B009 - typer hands out click's group under its base type
    found = {
        name: {flag for option in command.params for flag in option.opts if flag.startswith("--")}
        for name, command in commands.items()
    }
    assert found == COMMANDS


def gpuproof_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from gpuproof.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bogus"], "No such command"),
        (["run"], "--profile"),
        (["run", "--profile", "absent.toml", "--cluster", "sim"], "absent.toml"),
        (["run", "--profile", "thresholds/simulated.toml"], "exactly one cluster"),
        (["run", "--profile", "thresholds/simulated.toml", "--cluster", "sim", "--in-cluster"], "exactly one cluster"),
        (["run", "--profile", "thresholds/simulated.toml", "--context", "absent-context"], "kubeconfig"),
        (["plan", "--profile", "thresholds/simulated.toml", "--cluster", "real"], "--context"),
        (["explain", "absent"], "there is no check 'absent'"),
        (["report", "absent"], "absent"),
    ],
)
def test_wrong_usage_is_two_with_a_sentence_on_standard_error(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    done = gpuproof_command(*arguments)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr


def test_help_of_every_command_is_free() -> None:
    for command in COMMANDS:
        assert gpuproof_command(command, "--help").returncode == 0
