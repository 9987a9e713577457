"""A site that lets a node be lost: the training comes back where the cluster gives dead nodes up, and not elsewhere.

Not in `make test`: each is a training that loses a node beside one that loses none, minutes in all.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpuproof.record import read_record
from gpuproof.selftest import Reached, run_once
from gpuproof.verification import judged_again

CHECK = "checkpoint_node_lost"
SMALL = Path(__file__).parents[2] / "simcluster" / "topologies" / "small.toml"
pytestmark = pytest.mark.every_fault


def site(folder: Path, how: str, recover_within_s: int = 150) -> Path:
    """A profile that opts in, with the power switch of the simulated cluster as its command."""
    command = [sys.executable, "-m", "simcluster", "lose-node", "{node}", "--how", how]
    lines = ["schema = 1", 'profile = "site"', 'extends = "simulated"', "", "[checks]", f'{CHECK} = "required"']
    lines += ["", f"[workload.{CHECK}]", f"command = {command}", "command_within_s = 30"]
    lines += [f"recover_within_s = {recover_within_s}", ""]
    path = folder / "site.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def topology(folder: Path, *, remediation: bool) -> Path:
    """The small cluster, with or without somebody who gives dead nodes up."""
    path = folder / "cluster.toml"
    lines = "remediation = { after_s = 30 }\n" if remediation else ""
    path.write_text(SMALL.read_text(encoding="utf-8").replace("\n[[pools]]", f"{lines}\n[[pools]]", 1), "utf-8")
    return path


def reached(folder: Path, profile: Path, cluster: Path) -> Reached:
    got = run_once((), folder / "run", profile, only=[CHECK, "gpu_inventory"], topology=str(cluster))
    assert judged_again(read_record(folder / "run" / "record.jsonl"), folder / "run") == []
    return got


def test_a_training_survives_a_lost_node_where_somebody_gives_the_node_up(tmp_path: Path) -> None:
    got = reached(tmp_path, site(tmp_path, "power"), topology(tmp_path, remediation=True))
    row = got.rows[CHECK, "cluster"]
    assert row.verdict == "PASS", (row, got.output)
    lines = read_record(tmp_path / "run" / "record.jsonl")
    facts = next(line["facts"] for line in lines if line["event"] == "measurement" and line["check"] == CHECK)
    lost = facts["node_before"]
    assert facts["node_after"] not in ("", lost)
    # What had been found on the node stands, and the report says what became of it, and by whom.
    assert got.rows["gpu_inventory", lost].verdict == "PASS"
    said = [line["text"] for line in lines if line["event"] == "evidence" and line["check"] == CHECK]
    assert any(f"{lost} was taken away on purpose" in text and "no longer ready" in text for text in said), said


def test_nothing_comes_back_where_nobody_gives_the_node_up(tmp_path: Path) -> None:
    got = reached(tmp_path, site(tmp_path, "power", recover_within_s=40), topology(tmp_path, remediation=False))
    row = got.rows[CHECK, "cluster"]
    assert (row.verdict, row.reason_code) == ("FAIL", "limit_missed"), (row, got.output)
    assert "came_back is false" in " ".join(row.reasons)


def test_a_node_that_is_given_up_while_its_pods_run_on_leaves_two_copies(tmp_path: Path) -> None:
    profile = site(tmp_path, "kubelet", recover_within_s=60)
    with profile.open("a", encoding="utf-8") as file:
        file.write("[workload.checkpoint_killed_pod]\nhold_s = 30\n")  # the frozen node's rank goes on after it
    got = reached(tmp_path, profile, topology(tmp_path, remediation=True))
    row = got.rows[CHECK, "cluster"]
    assert (row.verdict, row.reason_code) == ("FAIL", "limit_missed"), (row, got.output)
    assert "copies_of_a_rank is 2" in " ".join(row.reasons)


def test_a_command_that_takes_nothing_judges_nothing(tmp_path: Path) -> None:
    profile = site(tmp_path, "power", recover_within_s=10)
    text = profile.read_text(encoding="utf-8")
    start = text.index("command = ")
    words = 'command = ["/bin/echo", "not today:", "{node}"]'
    profile.write_text(text[:start] + words + text[text.index("\n", start) :], encoding="utf-8")
    got = reached(tmp_path, profile, topology(tmp_path, remediation=True))
    row = got.rows[CHECK, "cluster"]
    assert row.verdict == "ERROR", (row, got.output)
    assert "is ready and has its pod" in " ".join(row.reasons)
