"""Every injected fault is caught by the checks it names, for its reason, and by no other check."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from gpuproof.record import read_record
from gpuproof.selftest import Fault, complaints, list_faults, run_once

FAULTS = list_faults()


def first_screen(directory: Path) -> str:
    """The text of the report above its grid, without markup."""
    page = (directory / "report.html").read_text(encoding="utf-8")
    body = page.partition("<main")[2].partition("<table")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


def test_the_clean_cluster_is_accepted(tmp_path: Path) -> None:
    reached = run_once(None, tmp_path / "run")
    assert complaints(None, reached) == [], reached.output
    assert "SIMULATED" in first_screen(tmp_path / "run")
    for name in ("report.html", "report.json", "junit.xml", "pytest.html", "record.jsonl"):
        assert (tmp_path / "run" / name).stat().st_size > 0


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.id for fault in FAULTS])
def test_a_fault_is_caught_by_the_check_it_names_and_by_no_other(fault: Fault, tmp_path: Path) -> None:
    reached = run_once(fault.id, tmp_path / "run")
    assert complaints(fault, reached) == [], reached.output
    lines = read_record(tmp_path / "run" / "record.jsonl")
    (decision,) = [line for line in lines if line["event"] == "decision"]
    shown = first_screen(tmp_path / "run")
    said = " ".join(reached.output.split())
    assert decision["reasons"]
    for reason in decision["reasons"][:1]:
        assert " ".join(reason.split()) in shown
        assert " ".join(reason.split()) in said
