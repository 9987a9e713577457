"""What programs say of the GPUs that they see, hold and search, run against the stand-in libraries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simcluster.topology import GpuModel, Mig
from tests.workloads.standins import Bench, values
from workloads import gpus_seen, isolation_one, residue_marks


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench.of(tmp_path)


def test_every_witness_counts_what_a_container_was_given(bench: Bench) -> None:
    bench.show(bench.node.units()["nvidia.com/gpu"][:1])
    found = bench.measured(bench.start("isolation_none"))
    assert values(found, "asked", "by") == {
        ("gpus_seen", 0, "nvml"): 1.0,
        ("gpus_seen", 0, "nvidia-smi"): 1.0,
        ("gpus_seen", 0, "cuda"): 1.0,
        ("gpus_seen", 0, "device files"): float(gpus_seen.device_files()),
    }
    assert found.facts["uuids_seen_without_asking"] == [bench.node.gpus[0].uuid]


def test_a_container_without_gpus_sees_none(bench: Bench) -> None:
    bench.show([])
    found = bench.measured(bench.start("exclusive_first"))
    assert values(found) == {("gpus_granted",): 0.0}
    assert found.facts["granted_gpu_uuid"] == []


def test_shares_are_told_by_their_own_uuids(tmp_path: Path) -> None:
    model = GpuModel(model="H100", count=1, mig=Mig(strategy="single", profiles={"1g.10gb": 2}))
    bench = Bench.of(tmp_path, model)
    first, second = bench.node.units()["nvidia.com/gpu"]
    bench.show([second])
    assert bench.measured(bench.start("exclusive_first")).facts["granted_gpu_uuid"] == [second]
    inventory = bench.measured(bench.start("gpu_inventory"))
    assert inventory.facts["pod_gpu_uuid"] == [second]
    assert inventory.facts["pod_mig_profile"] == ["1g.10gb"]
    assert values(inventory)["gpus_visible",] == 1.0
    assert first not in str(inventory.facts)


def test_device_files_are_devices_and_not_files_of_their_name(tmp_path: Path) -> None:
    (tmp_path / "nvidia0").touch()
    (tmp_path / "nvidia1").symlink_to("/dev/null")
    (tmp_path / "nvidiactl").symlink_to("/dev/null")
    assert gpus_seen.device_files(str(tmp_path)) == 1
    assert gpus_seen.device_files(str(tmp_path / "absent")) == 0


def test_the_second_container_is_waited_for_and_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {"by": {"nvml": 1, "nvidia-smi": 0, "cuda": 0, "device files": 2}, "uuids": ["GPU-a"]}
    (tmp_path / "bystander.json").write_text(json.dumps(seen))
    monkeypatch.setenv("PATH", "/nonexistent")
    found = isolation_one.measure(tmp_path)
    told = values(found, "container", "by")
    assert told["gpus_seen", "bystander", "nvml"] == 1.0
    assert told["gpus_seen", "bystander", "device files"] == 2.0
    assert found.facts["uuids_seen_beside"] == ["GPU-a"]
    with pytest.raises(SystemExit, match="2"):
        isolation_one.told(tmp_path / "elsewhere", 0.0)


@pytest.mark.parametrize(("nvml", "init", "said"), [(999, 100, "999"), (18, 803, "18 RM has detected")])
def test_devices_that_close_under_a_running_container_are_a_loss_with_its_time(
    bench: Bench, nvml: int, init: int, said: str
) -> None:
    options = json.dumps({"stay_s": 60, "look_every_s": 0.05, "look_within_s": 60})
    process = bench.start("gpu_stays", GPUPROOF_PARAMS=options)
    assert process.stdout is not None
    assert process.stdout.readline() == "first look: 2 GPUs, error none\n"
    bench.node.refuse(nvml, init)
    found = bench.measured(process)
    lost = str(found.facts["gpu_lost"])
    assert lost.startswith("lost between 20")
    assert f"nvmlInit_v2: {said}" in lost
    # What was open already goes on working, as it does in a container whose device access was rewritten.
    assert found.facts["held_gpu_error"] == "none"
    assert values(found)["gpus_at_start",] == 2.0
    assert values(found)["gpus_at_end",] == 0.0
    assert values(found)["stayed",] < 60


def test_a_gpu_that_falls_off_the_bus_is_a_loss_too(bench: Bench) -> None:
    options = json.dumps({"stay_s": 60, "look_every_s": 0.05, "look_within_s": 60})
    process = bench.start("gpu_stays", GPUPROOF_PARAMS=options)
    assert process.stdout is not None
    process.stdout.readline()
    bench.node.change(1, lost=True)
    found = bench.measured(process)
    assert "15 GPU is lost" in str(found.facts["gpu_lost"])


def test_gpus_that_stay_are_looked_at_until_the_end(bench: Bench) -> None:
    options = json.dumps({"stay_s": 0.1, "look_every_s": 0.01, "look_within_s": 60})
    found = bench.measured(bench.start("gpu_stays", GPUPROOF_PARAMS=options))
    assert found.facts == {"gpu_lost": "none", "held_gpu_error": "none"}
    told = values(found)
    assert (told["gpus_at_start",], told["gpus_at_end",]) == (2.0, 2.0)
    assert told["looks",] >= 2
    assert told["stayed",] >= 0.1


def test_a_container_that_never_had_its_gpus_says_so(bench: Bench) -> None:
    bench.node.init_error = 802
    bench.node.publish()
    options = json.dumps({"stay_s": 60, "look_every_s": 1, "look_within_s": 60})
    found = bench.measured(bench.start("gpu_stays", GPUPROOF_PARAMS=options))
    assert str(found.facts["gpu_lost"]).startswith("never had: cuInit: 802")


def test_marks_are_found_in_files_wherever_they_lie_and_only_this_runs(tmp_path: Path) -> None:
    mine, other = residue_marks.mark("run-1"), residue_marks.mark("run-2")
    assert residue_marks.search_folder(tmp_path, mine) == []
    assert residue_marks.fill_folder(tmp_path, 1, mine) == 1 << 20
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "tail").write_bytes(b"\0" * (residue_marks.BLOCK_BYTES - 7) + mine + b"\0")
    (deep / "cut").write_bytes(mine[:-1])
    (deep / "other").write_bytes(other)
    (tmp_path / "link").symlink_to(deep / "tail")
    assert residue_marks.search_folder(tmp_path, mine) == ["a/b/tail", residue_marks.FILE_NAME]
    assert residue_marks.search_folder(tmp_path, other) == ["a/b/other"]
    with pytest.raises(OSError, match="absent"):
        residue_marks.search_folder(tmp_path / "absent", mine)


def test_all_that_was_to_be_written_and_searched_is_counted(bench: Bench, tmp_path: Path) -> None:
    place = tmp_path / "scratch"
    place.mkdir()
    write = json.dumps({"memory_mib": 20, "file_mib": 1, "places": [str(place)]})
    left = values(bench.measured(bench.start("residue_write", GPUPROOF_PARAMS=write)), "gpu", "place")
    assert left == {
        ("residue_written", 0, None): 20.0 * 2**20,
        ("residue_written", 1, None): 20.0 * 2**20,
        ("residue_left", None, str(place)): 2.0**20,
    }
    look = json.dumps({"search_mib": 24, "places": [str(place)]})
    found = bench.measured(bench.start("residue_look", GPUPROOF_PARAMS=look))
    told = values(found, "gpu", "place")
    assert [told["residue_marks", gpu, None] for gpu in (0, 1)] == [0.0, 0.0]
    assert [told["residue_searched", gpu, None] for gpu in (0, 1)] == [24.0 * 2**20] * 2
    assert told["residue_files", None, str(place)] == 1.0
    assert found.facts["residue_in"] == [f"{place}/{residue_marks.FILE_NAME}"]


def test_a_place_that_is_not_there_cannot_be_measured(bench: Bench) -> None:
    look = json.dumps({"search_mib": 1, "places": ["/nonexistent"]})
    process = bench.start("residue_look", GPUPROOF_PARAMS=look)
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, "/nonexistent cannot be searched" in output) == (2, True)
