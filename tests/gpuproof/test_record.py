"""The record: its schema is frozen here, its lines survive a kill, and what cannot be read is said."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gpuproof.record import EVENTS, SCHEMA, Recorder, RecordError, read_record
from gpuproof.verdict import Verdict

FROZEN = {
    "run_started": "schema run_id gpuproof started_by profile cluster scope tier checks expected_nodes gpus_per_node "
    "limits waivers pod_patch",
    "inventory": "nodes server_version",
    "planned": "subjects",
    "baseline": "run decision simulated values",
    "acceptances": "runs nodes",
    "job_started": "workload check job namespace nodes follow_up",
    "measurement": "check workload subject pod index samples facts environment timings",
    "failure": "check workload subject pod reason message evidence",
    "telemetry": "check workload columns rows errors",
    "gpu_time": "nodes",
    "evidence": "subject check kind text",
    "verdict": "check subject verdict required reason_code reasons findings blocked_by duration_s",
    "interrupted": "signal",
    "resumed": "by",
    "cleanup": "namespace deleted seconds left",
    "decision": "outcome reasons scope counts waived exit_code",
    "run_finished": "seconds requests bytes_received",
}


def test_the_schema_is_frozen() -> None:
    assert SCHEMA == 1
    assert {event: " ".join(fields) for event, fields in EVENTS.items()} == FROZEN


def test_one_line_an_event(tmp_path: Path) -> None:
    path = tmp_path / "new" / "record.jsonl"
    with Recorder(path, now=lambda: datetime(2026, 1, 2, 3, 4, 5, 678999, UTC)) as record:
        record.append("interrupted", signal="SIGINT")
        assert read_record(path) == [
            {"seq": 1, "t": "2026-01-02T03:04:05.678Z", "event": "interrupted", "signal": "SIGINT"}
        ]


def test_numbers_that_json_has_no_word_for(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    with Recorder(path) as record:
        record.append("run_finished", seconds=float("nan"), requests=float("inf"), bytes_received=-float("inf"))
    (line,) = read_record(path)
    assert (line["seconds"], line["requests"], line["bytes_received"]) == ("NaN", "Infinity", "-Infinity")


def test_values_become_plain(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    with Recorder(path) as record:
        record.append("planned", subjects=({"check": Verdict.PASS, 3: {"b", "a"}},))
        with pytest.raises(TypeError, match="does not belong"):
            record.append("planned", subjects=object())
    assert read_record(path)[0]["subjects"] == [{"check": Verdict.PASS.value, "3": ["a", "b"]}]


@pytest.mark.parametrize(("event", "fields"), [("no_such", {}), ("resumed", {}), ("resumed", {"by": "x", "extra": 1})])
def test_unknown_events_and_fields_are_refused(tmp_path: Path, event: str, fields: dict[str, Any]) -> None:
    with Recorder(tmp_path / "record.jsonl") as record, pytest.raises(ValueError, match="expected"):
        record.append(event, **fields)


def test_threads_do_not_mix_lines(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    with Recorder(path) as record:

        def write() -> None:
            for _ in range(50):
                record.append("resumed", by="x" * 500)

        threads = [threading.Thread(target=write) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [line["seq"] for line in read_record(path)] == list(range(1, 401))


def test_a_torn_last_line_is_left_out_and_a_resumed_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    with Recorder(path) as record:
        record.append("resumed", by="a")
        record.append("resumed", by="b")
    path.write_bytes(path.read_bytes()[:-10])
    assert [line["by"] for line in read_record(path)] == ["a"]
    with Recorder(path) as record:
        record.append("resumed", by="c")
        record.append("resumed", by="d")
    assert [(line["seq"], line["by"]) for line in read_record(path)] == [(1, "a"), (2, "c"), (3, "d")]


@pytest.mark.parametrize("damage", [b"garbage\n", b'{"seq": "x"}\n', b"[]\n"])
def test_damage_in_the_middle_is_an_error(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "record.jsonl"
    good = [json.dumps({"seq": seq, "event": "resumed"}).encode() + b"\n" for seq in (1, 2, 3)]
    path.write_bytes(good[0] + damage + good[2])
    with pytest.raises(RecordError, match=r"record\.jsonl:2"):
        read_record(path)


def test_an_empty_record(tmp_path: Path) -> None:
    path = tmp_path / "record.jsonl"
    path.touch()
    assert read_record(path) == []
