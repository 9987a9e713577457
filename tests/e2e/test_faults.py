"""Every injected fault is caught by the checks it names, for its reason, and by no other check.

Faults of single nodes share a run where they concern different nodes and checks, and a run asks the checks that its
faults name and those that they require. `make test` takes the quick runs and as many more as make every check fail,
`make faults` all of them, those that take minutes each alone; `gpuproof selftest` runs every fault alone and asks
everything.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from gpuproof.catalogue import load_checks
from gpuproof.record import read_record
from gpuproof.report.terminal import MOST_REASONS
from gpuproof.selftest import ALL, CLUSTER, MISSING, Fault, complaints, list_faults, run_once
from gpuproof.verification import judged_again

QUICK = {"gpu_inventory", "cuda_runtime"}
FAULTS = [fault for fault in list_faults() if not fault.only_in_selftest]
LONG = [fault for fault in list_faults() if fault.only_in_selftest]
"""They take minutes in pods: `make test` shows them outside of pods, by tests/workloads/test_training.py."""


def nodes_of(fault: Fault) -> set[str]:
    """The single nodes a fault concerns; empty for one that concerns more than single nodes."""
    subjects = {expected.subject for expected in fault.expects}
    return set() if subjects & {ALL, CLUSTER, MISSING} else subjects


def grouped(faults: Iterable[Fault]) -> list[list[Fault]]:
    """Faults that can be injected together: no two concern one node, or one check, which may compare nodes."""
    groups: list[list[Fault]] = []
    for fault in faults:
        mine = nodes_of(fault)
        home = next((g for g in groups if mine and all(nodes_of(f) and apart(f, fault) for f in g)), None)
        if home is None:
            groups.append([fault])
        else:
            home.append(fault)
    return groups


def apart(one: Fault, other: Fault) -> bool:
    """Whether two faults of single nodes concern neither one node nor one check."""
    checks = [{expected.check for expected in fault.expects} for fault in (one, other)]
    return not nodes_of(one) & nodes_of(other) and not checks[0] & checks[1]


def chosen(groups: list[list[Fault]]) -> list[list[Fault]]:
    """The quick groups, and of the others those that make a check fail which no earlier one did, widest first."""
    failing = {
        id(group): {expected.check for fault in group for expected in fault.expects if expected.verdict == "FAIL"}
        for group in groups
    }
    taken = [group for group in groups if set(asked(together(group))) <= QUICK]
    seen = {check for group in taken for check in failing[id(group)]}
    for group in sorted(groups, key=lambda group: -len(failing[id(group)])):
        if failing[id(group)] - seen:
            taken.append(group)
            seen |= failing[id(group)]
    return taken


def together(faults: list[Fault]) -> Fault:
    """What a group of faults must cause."""
    names = "+".join(fault.id for fault in faults)
    expects = tuple(expected for fault in faults for expected in fault.expects)
    return Fault(id=names, title=names, mechanism="several", expects=expects)


def asked(fault: Fault) -> list[str]:
    """The checks a fault names and all that these require."""
    requires = {check.name: check.requires for check in load_checks()}
    found: dict[str, None] = {}
    wanted = [expected.check for expected in fault.expects]
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = None
            wanted += requires[name]
    return list(found)


def first_screen(directory: Path) -> str:
    """The text of the report above its grid, without markup."""
    page = (directory / "report.html").read_text(encoding="utf-8")
    body = page.partition("<main")[2].partition("<table")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


GROUPS = grouped(FAULTS)
CHOSEN = chosen(GROUPS)
RUNS = [
    pytest.param(group, id="+".join(f.id for f in group), marks=() if group in CHOSEN else pytest.mark.every_fault)
    for group in GROUPS
]


def test_no_fault_is_left_out() -> None:
    assert sorted(fault.id for group in GROUPS for fault in group) == sorted(fault.id for fault in FAULTS)


@pytest.mark.timeout(900)
def test_the_clean_cluster_is_accepted(tmp_path: Path) -> None:
    reached = run_once((), tmp_path / "run")
    assert complaints(None, reached) == [], reached.output
    assert "SIMULATED" in first_screen(tmp_path / "run")
    assert judged_again(read_record(tmp_path / "run" / "record.jsonl"), tmp_path / "run") == []
    for name in ("report.html", "report.json", "junit.xml", "pytest.html", "record.jsonl"):
        assert (tmp_path / "run" / name).stat().st_size > 0


def test_every_check_that_a_fault_fails_is_failed_in_every_run_of_the_tests() -> None:
    everything = {e.check for group in GROUPS for fault in group for e in fault.expects if e.verdict == "FAIL"}
    in_every_run = {e.check for group in CHOSEN for fault in group for e in fault.expects if e.verdict == "FAIL"}
    assert in_every_run == everything


@pytest.mark.parametrize("group", RUNS)
def test_faults_are_caught_by_the_checks_they_name_and_by_no_other(group: list[Fault], tmp_path: Path) -> None:
    hold_to(together(group), [fault.id for fault in group], tmp_path)


@pytest.mark.every_fault
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", LONG, ids=lambda fault: fault.id)
def test_a_fault_that_takes_minutes_is_caught_as_the_others_are(fault: Fault, tmp_path: Path) -> None:
    hold_to(fault, [fault.id], tmp_path)


def hold_to(caused: Fault, faults: list[str], tmp_path: Path) -> None:
    """Run with these faults, ask what they name, and hold it to what they must cause, everywhere it is said."""
    checks = asked(caused)
    reached = run_once(faults, tmp_path / "run", only=checks)
    assert complaints(caused, reached, checks) == [], reached.output
    lines = read_record(tmp_path / "run" / "record.jsonl")
    assert judged_again(lines, tmp_path / "run") == []
    (decision,) = [line for line in lines if line["event"] == "decision"]
    shown = first_screen(tmp_path / "run")
    said = " ".join(reached.output.split())
    assert decision["reasons"]
    reasons = [" ".join(reason.split()) for reason in decision["reasons"]]
    assert [reason for reason in reasons if reason not in shown] == []
    assert [reason for reason in reasons[:MOST_REASONS] if reason not in said] == []
