"""The trainer outside pods: it goes on bit for bit after kills, and each faulty one is named by what it breaks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simcluster.faults.file import all_faults
from workloads import contract, training
from workloads import training_files as files
from workloads.training_state import by_part

REHEARSED = {
    fault.id: fault.expects[0].names
    for fault in all_faults()
    if all(action.do == "patch-workload" for action in fault.action)
    and fault.expects[0].check not in ("checkpoint_elsewhere",)
    and fault.id != "trainers-share-a-folder"
}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_clean_trainings_pass_and_every_faulty_trainer_is_named_by_what_it_breaks(tmp_path: Path) -> None:
    out = tmp_path / "came.json"
    command = [sys.executable, "-W", "ignore", "-m", "tests.workloads.training_outside", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    came: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    clean = {name: one["verdict"] for name, one in came.items() if name.startswith("clean")}
    assert len(clean) == 4
    assert set(clean.values()) == {"PASS"}, done.stdout
    assert came.keys() - clean.keys() == REHEARSED.keys()
    for fault, names in REHEARSED.items():
        assert came[fault]["verdict"] == "FAIL", (fault, came[fault])
        assert names, fault
        assert any(names in reason for reason in came[fault]["reasons"]), (fault, names, came[fault])


def marked(folder: Path, step: int, **contents: bytes) -> Path:
    path = folder / files.name_of(step)
    path.mkdir(parents=True)
    entries = {}
    for name, content in contents.items():
        (path / name).write_bytes(content)
        entries[name] = files.described(str(path / name))
    files.write_marker(str(path), json.dumps({"step": step, "world": 1, "files": entries}))
    return path


def test_a_marker_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    path = marked(tmp_path, 12, shard=b"numbers")
    assert files.steps_in(str(tmp_path)) == [12]
    assert files.read_marker(str(path)) == ({"shard": (7, files.described(str(path / "shard"))[1])}, "")
    whole = (path / files.MARKER).read_bytes()
    for length in range(len(whole)):
        (path / files.MARKER).write_bytes(whole[:length])
        found, why = files.read_marker(str(path))
        assert (found, bool(why)) == ({}, True), length
    (path / files.MARKER).unlink()
    assert files.read_marker(str(path)) == ({}, files.NO_MARKER)


def test_a_content_is_described_by_all_its_bytes(tmp_path: Path) -> None:
    file = tmp_path / "shard"
    file.write_bytes(b"0123456789")
    first = files.described(str(file))
    file.write_bytes(b"0123456788")
    assert first[0] == files.described(str(file))[0] == 10
    assert first[1] != files.described(str(file))[1]


def test_parts_have_one_checksum_each_and_names_count() -> None:
    sums = {"weights.a": "1", "weights.b": "2", "rank-0.random.torch": "3", "rank-1.random.torch": "3"}
    parts = by_part(sums)
    assert set(parts) == {"weights", "rank-0.random", "rank-1.random"}
    assert by_part({**sums, "weights.b": "9"})["weights"] != parts["weights"]
    assert by_part({key: sums[key] for key in sums if key != "weights.b"})["weights"] != parts["weights"]


def test_a_parallelism_that_there_is_not_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUPROOF_PARAMS", json.dumps({"parallelism": "pipeline"}))
    monkeypatch.setenv("TERMINATION_LOG", str(tmp_path / "log"))
    with pytest.raises(SystemExit, match=str(contract.EXIT_COULD_NOT)):
        training.main()
    assert "parallelism is 'pipeline', expected one of: ddp, fsdp" in capsys.readouterr().err
