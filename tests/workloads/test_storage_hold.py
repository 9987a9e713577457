"""A file held open: in order as long as it is the same file on the same mount, and every way of losing it named."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from workloads import storage_hold
from workloads.storage_hold import Held, Steps, measure

STEPS = ["held_open", "held_stat", "held_read", "held_write", "held_path", "held_close"]
PAYLOAD = 4096


@pytest.fixture
def claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("workloads.claim_meeting.CLAIMS", str(tmp_path))
    monkeypatch.setenv("GPUPROOF_NODE", "n1")
    monkeypatch.setenv("GPUPROOF_RUN_ID", "r1")
    return tmp_path / "shared" / ".gpuproof" / "r1" / "storage_hold" / "n1"


def held(meanwhile: Callable[[], None]) -> dict[str, object]:
    return dict(measure(PAYLOAD, 5.0, meanwhile).facts)


def test_a_file_that_nobody_touched_works_and_is_gone_afterwards(claim: Path) -> None:
    there: list[bool] = []
    assert held(lambda: there.append(claim.exists())) == dict.fromkeys(STEPS, "works")
    assert there == [True]
    assert not claim.exists()


def exchange(file: Path) -> None:
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content)


def cut(file: Path) -> None:
    os.truncate(file, 10)


def damage(file: Path) -> None:
    with file.open("r+b") as out:
        out.write(bytes(8))


@pytest.mark.parametrize(
    ("meanwhile", "step", "said"),
    [
        (exchange, "held_path", "another file"),
        (Path.unlink, "held_path", "ENOENT"),
        (cut, "held_stat", "10 bytes"),
        (damage, "held_read", "other content"),
    ],
    ids=["exchanged", "removed", "cut", "damaged"],
)
def test_what_happened_meanwhile_is_named(claim: Path, meanwhile: Callable[[Path], None], step: str, said: str) -> None:
    found = held(lambda: meanwhile(claim))
    assert said in str(found[step])
    assert found["held_open"] == "works"


def test_a_storage_that_cannot_be_written_says_so_at_the_beginning(claim: Path) -> None:
    claim.parent.parent.mkdir(parents=True)
    claim.parent.write_text("no directory")
    assert str(held(lambda: None)["held_open"]).startswith(("EEXIST", "ENOTDIR"))


def test_a_call_that_hangs_ends_the_trial_and_is_infinitely_slow() -> None:
    forever = threading.Event()
    steps = Steps(0.01)

    def hang() -> str:
        forever.wait()
        return "works"

    steps.take("held_read", hang)
    steps.take("held_write", lambda: "works")
    forever.set()
    assert steps.facts == {
        "held_read": "no answer within 0.01 s",
        "held_write": "not tried: an earlier call hangs",
    }
    assert steps.slowest_s == float("inf")


def test_the_pod_is_told_by_a_file_that_is_no_longer_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    word = tmp_path / "word"
    monkeypatch.setattr(storage_hold, "TOLD", str(word))
    said = [storage_hold.told()]
    for text in ("", "measure"):
        word.write_text(text)
        said.append(storage_hold.told())
    assert said == [False, False, True]


def test_a_handle_that_was_never_opened_is_no_success() -> None:
    steps = Steps(5.0)
    steps.take("held_stat", Held("/nowhere", b"x").stat)
    assert str(steps.facts["held_stat"]).startswith("EBADF")
