"""What others build on and must not change by accident: public names, exit codes, commands and their flags."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import gpuproof
from gpuproof import cli
from gpuproof.decision import DecisionOutcome, exit_code

COMMANDS = {
    "run": {
        "--profile", "--cluster", "--context", "--kubeconfig", "--in-cluster", "--out", "--only", "--nodes", "--image",
        "--resume", "--private-checks", "--sim-topology", "--sim-fault", "--baseline", "--quiet", "--plain",
        "--max-gpu-hours",
    },
    "verify": {"--allowed-signers", "--identity", "--sign-with"},
    "compare": {"--out", "--prices", "--alpha", "--least-change"},
    "history": {"--out"},
    "plan": {
        "--profile", "--cluster", "--context", "--kubeconfig", "--in-cluster", "--render", "--private-checks",
        "--sim-topology", "--sim-fault",
    },
    "report": set(),
    "explain": {"--profile", "--private-checks"},
    "sim": set(),
    "selftest": {"--only", "--jobs"},
    "clean": {"--context", "--kubeconfig", "--in-cluster", "--run", "--older-than", "--yes"},
}  # fmt: skip


def test_public_names() -> None:
    expected = [
        "Answer",
        "ClusterSubject",
        "FollowLoad",
        "GangSubject",
        "Hold",
        "KillTraining",
        "NodeSubject",
        "Observe",
        "ReadExporter",
        "ReadPrometheus",
        "ReadPull",
        "RunExperiment",
        "RunWorkload",
        "TryClaims",
    ]
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
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


WRONG_USAGE = [
    (["bogus"], "No such command"),
    (["run"], "--profile"),
    (["run", "--profile", "thresholds/simulated.toml", "--cluster", "real"], "--context"),
    (["plan", "--profile", "absent.toml", "--cluster", "sim"], "absent.toml"),
    (["plan", "--profile", "thresholds/simulated.toml"], "exactly one cluster"),
    (["plan", "--profile", "thresholds/simulated.toml", "--cluster", "sim", "--in-cluster"], "exactly one cluster"),
    (["plan", "--profile", "thresholds/simulated.toml", "--context", "absent-context"], "kubeconfig"),
    (["plan", "--profile", "thresholds/simulated.toml", "--cluster", "real"], "--context"),
    (["explain", "absent"], "there is no check 'absent'"),
    (["report", "absent"], "absent"),
    (["clean"], "exactly one cluster"),
    (["verify", "absent"], "holds no run"),
    (["verify", ".", "--identity", "somebody"], "belong together"),
    (["compare", "absent"], "two runs or more"),
    (["compare", "absent", "also-absent"], "holds no run that can be read"),
    (["history", "absent"], "no such folder of runs"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG_USAGE, ids=[" ".join(words) for words, _ in WRONG_USAGE])
def test_wrong_usage_is_two_with_a_sentence_on_standard_error(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    done = CliRunner().invoke(cli.app, arguments)
    assert (done.exit_code, said in done.stderr) == (2, True), done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--profile", "absent.toml", "--cluster", "sim"], "absent.toml"),
        (
            ["--profile", "thresholds/simulated.toml", "--cluster", "sim", "--private-checks", "absent"],
            "no such folder",
        ),
    ],
)
def test_a_run_that_cannot_start_is_two_and_no_traceback(arguments: list[str], said: str, tmp_path: Path) -> None:
    done = gpuproof_command("run", *arguments, "--out", str(tmp_path / "run"))
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run" / "record.jsonl").exists()


def test_help_of_every_command_is_free() -> None:
    for command in COMMANDS:
        assert CliRunner().invoke(cli.app, [command, "--help"]).exit_code == 0
