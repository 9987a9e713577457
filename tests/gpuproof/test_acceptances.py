"""When each node was last accepted: from the runs beside this one, of the same cluster, whole and decided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuproof.acceptances import folders_beside, last_acceptances
from gpuproof.run_folder import RECORD
from tests.gpuproof.report import synthetic

HERE = {"name": "a", "uid": "one", "simulated": False}
NODES = synthetic.names(3)


def left(run: Path, lines: synthetic.Lines, day: int, **cluster: Any) -> Path:
    run.mkdir(parents=True)
    lines[0] |= {"cluster": {**HERE, **cluster}, "t": f"2026-11-{day:02d}T09:00:00.000Z"}
    (run / RECORD).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Three nodes accepted, then two of them; then rejected, torn, and accepted on another cluster and a simulated."""
    left(tmp_path / "all", synthetic.run(3), 1)
    left(tmp_path / "two", synthetic.run(2), 2)
    left(tmp_path / "rejected", synthetic.run(3, short=["gpu-1"]), 3)
    left(tmp_path / "torn", synthetic.run(3)[:-1], 4)
    left(tmp_path / "other", synthetic.run(3), 5, uid="two")
    left(tmp_path / "simulated", synthetic.run(3), 6, simulated=True)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / RECORD).write_text("what?\n")
    return tmp_path


def test_the_last_accepted_run_of_the_same_cluster_counts_for_its_nodes(runs: Path) -> None:
    found = last_acceptances(folders_beside(runs / "new", None), HERE, [*NODES, "gpu-9"])
    assert found.runs == 4
    assert {node: each["run"] for node, each in found.nodes.items()} == {"gpu-1": "two", "gpu-2": "two", "gpu-3": "all"}
    assert found.nodes["gpu-3"]["at"].startswith("2026-11-01T09:00")


def test_a_run_that_did_not_accept_or_cannot_be_read_counts_for_nobody(runs: Path) -> None:
    others = [runs / name for name in ("rejected", "torn", "empty", "absent", "other", "simulated")]
    assert last_acceptances(others, HERE, NODES).nodes == {}


def test_simulated_clusters_go_by_their_name_since_each_run_makes_one(runs: Path) -> None:
    found = last_acceptances(folders_beside(runs / "new", None), {**HERE, "uid": "new", "simulated": True}, NODES)
    assert {each["run"] for each in found.nodes.values()} == {"simulated"}


def test_the_baseline_is_looked_at_wherever_it_is_and_the_run_itself_is_not(runs: Path, tmp_path: Path) -> None:
    assert folders_beside(tmp_path / "deep" / "new", runs / "all" / RECORD) == (runs / "all",)
    assert runs / "all" not in folders_beside(runs / "all", runs / "all")
