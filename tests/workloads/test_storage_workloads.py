"""Storage workloads on a plain directory: pods meet by files, capabilities are told, what is missing is not right."""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from workloads import claim_meeting, dataset_objects, dataset_staging, storage_semantics
from workloads.claim_meeting import Meeting, lower_median
from workloads.contract import Measurement
from workloads.storage_capabilities import PROBES, WORKS, probe_all


def by_metric(measurement: Measurement) -> dict[tuple[str, str], float]:
    return {
        (sample.metric, ",".join(f"{key}={value}" for key, value in sorted(sample.at.items()))): sample.value
        for sample in measurement.samples
    }


GRANTED = ("peer_lock_granted", "peer_record_lock_granted", "peer_create_granted")


def on_nodes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(claim_meeting, "CLAIMS", str(tmp_path))
    monkeypatch.setattr(dataset_staging, "CLAIMS", str(tmp_path))
    monkeypatch.setattr(dataset_staging, "SCRATCH", str(tmp_path / "scratch"))


def test_pods_hear_each_other_and_nobody_waits_twice_for_one_who_is_not_there(tmp_path: Path) -> None:
    one, two = (Meeting(str(tmp_path), name, 3, 0.2) for name in ("n1", "n2"))
    assert one.say("hello", 1)
    assert two.say("hello", 2)
    assert one.wait("hello") == {"n1": 1, "n2": 2}
    one.wait("next", {"n1", "n2", "n3"})
    assert one.absent == {"n2", "n3"}
    one.within_s = math.inf
    one.wait("later", {"n1", "n2", "n3"})  # would never end otherwise
    two.within_s = math.inf
    one.leave()
    two.wait("next", {"n1", "n2"})
    assert two.absent == set()


def test_half_a_word_is_none(tmp_path: Path) -> None:
    meeting = Meeting(str(tmp_path), "n1", 2, 0.0)
    meeting.say("hello")
    (tmp_path / "hello" / "n2").write_text('{"a":')
    assert set(meeting.heard("hello")) == {"n1"}


def test_a_place_that_cannot_be_written_is_remembered(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    meeting = Meeting(str(tmp_path / "file"), "n1", 2, 0.0)
    assert not meeting.say("hello")
    assert "Not a directory at hello" in meeting.trouble


@pytest.mark.parametrize(
    ("values", "middle"), [([1.0], 1.0), ([1.0, 2.0], 1.0), ([9.0, 1.0, 1.0], 1.0), ([1.0, 2.0, 3.0, 9.0], 2.0)]
)
def test_one_bad_peer_of_several_does_not_set_the_median(values: list[float], middle: float) -> None:
    assert lower_median(values) == middle


def test_a_local_file_system_can_do_everything(tmp_path: Path) -> None:
    found = probe_all(str(tmp_path), 50)
    assert set(found) == {name for name, _ in PROBES} | {"large_directory"}
    assert {name: word for name, word in found.items() if word != WORKS and name != "direct_io"} == {}


def test_a_refusal_and_a_loss_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "rename", refuse)
    monkeypatch.setattr(os, "link", lambda *_: None)
    found = probe_all(str(tmp_path), 3)
    assert found["rename_over"] == "ENOTSUP: Operation not supported"
    assert found["link"] == "differs: the file is gone after a close that reported success"
    assert found["create"] == WORKS


def test_one_pod_alone_measures_nothing_between_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_nodes(monkeypatch, tmp_path)
    alone = storage_semantics.measure(nodes=1, entries=3, rounds=1, payload_bytes=10, meeting_s=0.1)
    assert alone.samples == ()


def test_a_pod_that_meets_nobody_has_a_bad_number_and_not_a_good_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_nodes(monkeypatch, tmp_path)
    found = by_metric(storage_semantics.measure(nodes=2, entries=3, rounds=1, payload_bytes=10, meeting_s=0.1))
    assert found["nodes_met", ""] == 1
    for metric in ("visibility_round_trip", "peer_content_wrong", *GRANTED):
        assert found[metric, "statistic=median"] == math.inf


def two_meet(tmp_path: Path) -> list[dict[str, dict[str, float]]]:
    """What two nodes find of each other's exclusions; in processes of their own, as a record lock is a process's."""
    program = (
        "import json, sys\nfrom workloads.claim_meeting import Meeting\n"
        "from workloads.storage_semantics import exclusions\n"
        "me, peer, place = sys.argv[1:]\nprint(json.dumps(exclusions(Meeting(place, me, 2, 20.0), [peer])))"
    )
    pods = [
        subprocess.Popen([sys.executable, "-c", program, me, peer, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for me, peer in (("n1", "n2"), ("n2", "n1"))
    ]
    return [json.loads(pod.communicate(timeout=60)[0]) for pod in pods]


def test_what_one_node_has_is_refused_to_the_other(tmp_path: Path) -> None:
    one, two = two_meet(tmp_path)
    assert one == {"flock": {"n2": 0}, "record_lock": {"n2": 0}, "create": {"n2": 0}}
    assert two == {"flock": {"n1": 0}, "record_lock": {"n1": 0}, "create": {"n1": 0}}


def test_nothing_is_found_out_of_a_peer_that_could_not_take_it_itself(tmp_path: Path) -> None:
    (tmp_path / "create-n2").touch()
    (tmp_path / "flock-n2").mkdir()
    one, two = two_meet(tmp_path)
    assert one == {"flock": {"n2": math.inf}, "record_lock": {"n2": 0}, "create": {"n2": math.inf}}
    assert set(two["create"].values()) == set(two["flock"].values()) == {0}


def test_staging_on_two_nodes_reports_every_number_that_profiles_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_nodes(monkeypatch, tmp_path)
    blocks = b"".join(dataset_objects.generated("s", 300_000))
    item = {"name": "a", "bytes": 300_000, "seed": "s", "sha256": hashlib.sha256(blocks).hexdigest()}
    given = {"nodes": 2, "attempts": 1, "source_timeout_s": 1, "small_files": 3, "small_file_bytes": 10}
    # Threads share an environment: who measures is told by hand.
    names = iter(("n1", "n2"))
    monkeypatch.setattr(dataset_staging, "identity", lambda: {"run_id": "r", "node": next(names), "pod": "p"})
    with ThreadPoolExecutor(2) as pool:
        params: Mapping[str, Any] = {**given, "meeting_s": 20, "staging_s": 20}
        one, two = pool.map(lambda _: dataset_staging.measure([item], params), range(2))
    for measurement in (one, two):
        assert measurement.facts == {
            "published_error": "none",
            "staging_error": "none",
            "local_staging_error": "none",
            "small_files_error": "none",
            "meeting_error": "none",
        }
        found = by_metric(measurement)
        assert found["verified_share", "cache=cold"] == found["verified_share", "cache=warm"] == 1
        assert found["partial_objects_seen", ""] == found["half_published", "destination=shared,nodes=all"] == 0
        assert found["staged_of_plain_copy", ""] > 0
        assert found["staged_rate_of_peers", ""] > 0
        assert found["nodes_met", ""] == 2
    place = tmp_path / "shared" / ".gpuproof" / "r" / "dataset_staging"
    assert (place / "objects" / "n1" / "a").read_bytes() == blocks
    assert not (place / "own" / "n1").exists()


def test_a_published_object_that_differs_is_counted_and_a_part_of_one_is_seen(tmp_path: Path) -> None:
    item = {"name": "a", "bytes": 4, "sha256": hashlib.sha256(b"data").hexdigest()}
    (tmp_path / "a").write_bytes(b"dat")
    assert dataset_staging.half_published(str(tmp_path), [item]) == 1
    assert not dataset_staging.verify(str(tmp_path / "a"), item, [])
    (tmp_path / "a").write_bytes(b"date")
    assert dataset_staging.half_published(str(tmp_path), [item]) == 0
    assert not dataset_staging.verify(str(tmp_path / "a"), item, [])
    (tmp_path / "a").write_bytes(b"data")
    assert dataset_staging.verify(str(tmp_path / "a"), item, [])
    assert dataset_staging.half_published(str(tmp_path / "nothing"), [item]) == 0


def test_credit_that_runs_out_shows_in_the_last_quartile() -> None:
    steady = [(float(number), 100) for number in range(16)]
    assert dataset_staging.quartile_ratio(steady) == pytest.approx(1)
    slowing = [(float(n), 100) for n in range(12)] + [(12.0 + 10 * n, 100) for n in range(4)]
    assert dataset_staging.quartile_ratio(slowing) < 0.2
