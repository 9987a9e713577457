"""What every check must be: held, documented, free of numbers and conditions, and seen to fail."""

from __future__ import annotations

import ast
import datetime as dt
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpuproof.catalogue import Check, load_checks, subjects_asked
from gpuproof.profile import THRESHOLDS, Profile, load_profile

CHECKS = load_checks()
ids = [check.name for check in CHECKS]
PROFILES = sorted(THRESHOLDS.glob("*.toml"))


@cache
def faults() -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "simcluster", "faults"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def functions(check: Check) -> list[ast.FunctionDef]:
    tree = ast.parse(check.file.read_text(encoding="utf-8"))
    return [item for item in tree.body if isinstance(item, ast.FunctionDef) and item.name.startswith("test_")]


@pytest.mark.parametrize("check", CHECKS, ids=ids)
def test_every_check_ends_by_holding_its_answers(check: Check) -> None:
    for function in functions(check):
        last = function.body[-1]
        assert isinstance(last, ast.Expr), function.name
        assert isinstance(last.value, ast.Call), function.name
        assert ast.unparse(last.value.func) == "hold", function.name
        assert last.value.args, f"{function.name} holds nothing"


@pytest.mark.parametrize("check", CHECKS, ids=ids)
def test_no_check_holds_a_number_a_condition_or_a_wait(check: Check) -> None:
    for function in functions(check):
        for node in ast.walk(function):
            assert not isinstance(node, ast.If | ast.Try | ast.While | ast.For), f"{function.name}:{node!r}"
            number = isinstance(node, ast.Constant) and isinstance(node.value, int | float)
            assert not number, f"{function.name} line {getattr(node, 'lineno', '?')}"


def required_somewhere(check: Check) -> bool:
    return any(loaded(profile).required(check.name) for profile in PROFILES)


@cache
def loaded(profile: Path) -> Profile:
    return load_profile(profile, known_checks=subjects_asked(CHECKS), today=dt.datetime.now(dt.UTC).date())


def test_only_the_loss_of_a_node_is_left_to_a_site() -> None:
    """What no shipped profile asks is seen to fail in tests/e2e/test_node_lost.py, by a site's profile."""
    assert [check.name for check in CHECKS if not required_somewhere(check)] == ["checkpoint_node_lost"]


@pytest.mark.parametrize("check", [c for c in CHECKS if required_somewhere(c)], ids=lambda c: c.name)
def test_every_check_has_been_made_to_fail_by_two_different_mechanisms(check: Check) -> None:
    turning_red = [
        fault
        for fault in faults()
        if any(expected["check"] == check.name and expected["verdict"] == "FAIL" for expected in fault["expects"])
    ]
    mechanisms = {fault["mechanism"] for fault in turning_red}
    assert len(mechanisms) >= 2, f"{check.name} has been seen to fail only by {sorted(mechanisms)}"


@pytest.mark.parametrize("profile", PROFILES, ids=[path.stem for path in PROFILES])
def test_every_shipped_profile_names_every_check_and_bounds_the_required_ones(profile: Path) -> None:
    assert set(loaded(profile).checks) == set(ids)
    for check in CHECKS:
        if loaded(profile).required(check.name):
            assert any(limit.decisive for limit in loaded(profile).limits_for(check.name))
