"""What a run may cost at most: by its deadlines, nodes and checks, and nothing for what does not apply."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from gpuproof.catalogue import WORKLOADS, load_checks, subjects_asked
from gpuproof.cost import costs, gpu_hours
from gpuproof.expectation import CheckState, State
from gpuproof.plan import make_plan
from gpuproof.profile import THRESHOLDS, Profile, load_profile
from tests.gpuproof.test_plan import TODAY

CHECKS = load_checks()
SIMULATED = load_profile(THRESHOLDS / "simulated.toml", known_checks=subjects_asked(CHECKS), today=TODAY)


def by_check(profile: Profile, nodes: str) -> dict[str, tuple[int, float]]:
    found = costs(CHECKS, profile, make_plan(CHECKS, profile, list(nodes)), [WORKLOADS])
    return {cost.check: (cost.pods, cost.gpu_minutes) for cost in found}


def test_a_check_of_whole_nodes_costs_their_gpus_for_its_deadlines() -> None:
    limits = SIMULATED.deadlines
    minutes = (limits.starting_s + limits.running_s) / 60
    four, six = by_check(SIMULATED, "abcd"), by_check(SIMULATED, "abcdef")
    assert four["cuda_runtime"][0] == 4
    assert four["cuda_runtime"][1] == pytest.approx(4 * SIMULATED.cluster.pod_gpus * minutes)
    assert six["cuda_runtime"][1] == pytest.approx(1.5 * four["cuda_runtime"][1])
    assert by_check(SIMULATED, "ab")["cuda_runtime"][0] == 2, "who is missing holds nothing"


def test_one_gang_serves_all_checks_of_the_network_and_storage_asks_for_no_gpu() -> None:
    found = by_check(SIMULATED, "abcd")
    assert sum(pods for check, (pods, _) in found.items() if check.startswith("nccl_")) == 4
    assert all(minutes > 0 for check, (_, minutes) in found.items() if check.startswith("nccl_"))
    assert {minutes for check, (_, minutes) in found.items() if check.startswith("storage_")} == {0}


def test_what_does_not_apply_costs_nothing() -> None:
    states = {**SIMULATED.checks, "gpu_load": CheckState(State.NOT_APPLICABLE, "not bought")}
    without = dataclasses.replace(SIMULATED, checks=states)
    assert by_check(without, "abcd")["gpu_load"] == by_check(without, "abcd")["checkpoint_node_lost"] == (0, 0)
    plan = make_plan(CHECKS, SIMULATED, list("abcd"))
    difference = gpu_hours(costs(CHECKS, SIMULATED, plan, [WORKLOADS]))
    difference -= gpu_hours(costs(CHECKS, without, plan, [WORKLOADS]))
    assert difference == pytest.approx(by_check(SIMULATED, "abcd")["gpu_load"][1] / 60)


def test_a_run_that_may_cost_more_than_was_said_does_not_begin(tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-c", "from gpuproof.cli import main; main()", "run", "--cluster", "sim", "--out"]
    command += [str(out), "--profile", "thresholds/simulated.toml", "--max-gpu-hours", "0.2", "--only", "gpu_load"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, stdin=subprocess.DEVNULL)
    said = " ".join((done.stdout + done.stderr).split())
    hours = by_check(SIMULATED, "abcd")["gpu_load"][1] / 60
    assert done.returncode == 2, said
    assert f"--max-gpu-hours 0.2: the checks asked for may hold GPUs for {hours:.2f} GPU-hours" in said
    assert not [*out.glob("*")], "and leaves nothing behind"
