"""The command that takes a node away: refused where it could take the wrong one, an error where it comes to nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpuproof.catalogue import load_checks
from gpuproof.failure import JobFailure, Reason
from gpuproof.node_loss import CHECK, NodeLoss, NodeLossError, read_node_loss
from gpuproof.options import LaunchError, Options
from gpuproof.preflight import read
from gpuproof.profile import THRESHOLDS

GOOD = {"command": ["/opt/site/off", "--host={node}"], "command_within_s": 30, "recover_within_s": 900}


def profile(folder: Path, table: str) -> Path:
    path = folder / "mine.toml"
    head = f'schema = 1\nprofile = "mine"\nextends = "{THRESHOLDS}/simulated.toml"\n'
    path.write_text(f'{head}[checks]\n{CHECK} = "required"\n{table}\n', encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("changed", "key", "said"),
    [
        ({"command": None}, "command", "found none"),
        ({"command": "off {node}"}, "command", "the words of a command"),
        ({"command": ["/opt/site/off", 3, "{node}"]}, "command", "the words of a command"),
        ({"command": ["{node}"]}, "command", "after the program"),
        ({"command_within_s": 0}, "command_within_s", "found 0"),
        ({"command_within_s": True}, "command_within_s", "more than 0"),
        ({"recover_within_s": None}, "recover_within_s", "found none"),
    ],
)
def test_what_could_take_no_node_or_the_wrong_one_is_refused_by_its_key(
    changed: dict[str, object], key: str, said: str
) -> None:
    with pytest.raises(NodeLossError, match=said) as caught:
        read_node_loss({**GOOD, **changed})
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("table", "key", "said"),
    [
        ('command = ["/opt/site/off", "gpu-01"]', "command", 'a word with "{node}"'),
        ('command = ["off", "{node}"]\ncomand_within_s = 5', "comand_within_s", "write command_within_s"),
    ],
)
def test_a_profile_is_refused_by_file_and_key(table: str, key: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(LaunchError) as caught:
        read(Options(profile=profile(tmp_path, f"[workload.{CHECK}]\n{table}")))
    assert f"mine.toml: [workload.{CHECK}] {key}\n" in str(caught.value)
    assert said in str(caught.value)


def test_a_training_of_whatever_kill_needs_its_parameters(tmp_path: Path) -> None:
    others = [check.name for check in load_checks() if check.kills and check.name != "checkpoint_killed_pod"]
    assert CHECK in others
    for left in others:
        gone = {"checkpoint_killed_pod", *others} - {left}
        states = "".join(f'{name} = {{ state = "not-applicable", reason = "x" }}\n' for name in sorted(gone))
        site = tmp_path / f"{left}.toml"
        site.write_text(f'schema = 1\nprofile = "site"\nextends = "simulated"\n[checks]\n{left} = "required"\n{states}')
        with pytest.raises(LaunchError, match="checkpoint_killed_pod is not-applicable") as caught:
            read(Options(profile=site))
        assert f"{left}.toml: [checks] {left}\n" in str(caught.value)


def test_a_site_that_opts_in_is_held_to_what_holds_for_the_other_kills(tmp_path: Path) -> None:
    table = f'[workload.{CHECK}]\ncommand = ["off", "{{node}}"]\ncommand_within_s = 5\nrecover_within_s = 900'
    _, loaded = read(Options(profile=profile(tmp_path, table)))
    mine = {limit.name for limit in loaded.limits_for(CHECK) if limit.decisive}
    assert mine == {limit.name for limit in loaded.limits_for("checkpoint_killed_pod") if limit.decisive}
    assert {"came_back", "copies_of_a_rank", "other_writers"} <= mine


def test_the_name_is_put_wherever_it_is_asked_for() -> None:
    assert read_node_loss(GOOD).words("gpu-07") == ("/opt/site/off", "--host=gpu-07")


def failed(program: str, within_s: float = 20.0, word: str = "") -> JobFailure:
    loss = NodeLoss((word or sys.executable, "-c", program, "{node}"), within_s, 1.0, {"KUBECONFIG": "/a/place"})
    found = loss.take("gpu-07")
    assert found is not None
    assert found.reason is Reason.HARNESS_ERROR
    assert "gpu-07" in found.message
    return found


def test_a_command_that_fails_is_an_error_with_what_it_said() -> None:
    said = failed("import os, sys; sys.exit(' '.join((sys.argv[1], os.environ['KUBECONFIG'], 'has no outlet')))")
    assert said.evidence == ("gpu-07 /a/place has no outlet",)
    assert "ended with 1, expected 0" in said.message


def test_a_command_that_does_not_end_or_is_not_there_is_an_error() -> None:
    assert "did not end within 0.5 s" in failed("import signal; signal.pause()", 0.5).message
    assert "could not be run" in failed("", word="/no/such/program").message


def test_a_command_that_ends_well_is_believed_for_the_moment() -> None:
    assert NodeLoss((sys.executable, "-c", "", "{node}"), 20.0, 1.0).take("gpu-07") is None
