"""Claims on a folder: a number is one writer's, a later claim is heard of, an earlier writer is seen while it lives."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from workloads.training_writers import AT_WORK, GAVE_WAY, TOOK_OVER, Claim

Heard = list[tuple[str, str]]


def claim(folder: Path, who: str) -> tuple[Claim, Heard]:
    heard: Heard = []
    return Claim(str(folder), who, lambda other, did: heard.append((other, did))), heard


def test_who_claims_later_is_told_to_who_claimed_earlier_and_once(tmp_path: Path) -> None:
    first, heard = claim(tmp_path, "a on n1")
    first.look()
    assert (first.number, heard) == (1, [])
    second, silent = claim(tmp_path, "b on n2")
    first.look()
    first.look()
    second.look()
    assert heard == [(second.who, TOOK_OVER)] == [("b on n2 (claim 2)", "claimed it later")]
    assert silent == []


def test_an_earlier_writer_that_gives_way_is_seen_to_have_been_there(tmp_path: Path) -> None:
    first, _ = claim(tmp_path, "a on n1")
    second, heard = claim(tmp_path, "b on n2")
    first.give_way()
    second.look()
    assert heard == [(first.who, GAVE_WAY)]


def test_an_earlier_writer_is_at_work_when_it_shows_it_twice(tmp_path: Path) -> None:
    first, _ = claim(tmp_path, "a on n1")
    second, heard = claim(tmp_path, "b on n2")
    first._beat()
    second.look()
    second.look()
    assert heard == [], "one sign may be an old one that was seen late"
    first._beat()
    second.look()
    assert heard == [(first.who, AT_WORK)]


def test_those_who_are_gone_are_not_heard_of(tmp_path: Path) -> None:
    for who in "abc":
        claim(tmp_path, who)
    last, heard = claim(tmp_path, "d")
    last.look()
    assert (last.number, heard) == (4, [])


@pytest.mark.parametrize("content", ["", '{"who": "x", "be'])
def test_half_a_claim_keeps_its_number_and_says_nothing(tmp_path: Path, content: str) -> None:
    first, heard = claim(tmp_path, "a")
    (tmp_path / "writer-00000007").write_text(content, encoding="ascii")
    first.look()
    assert heard == []
    assert claim(tmp_path, "b")[0].number == 8


def test_claims_at_once_have_each_a_number_of_their_own(tmp_path: Path) -> None:
    start = threading.Barrier(8)
    numbers: list[int] = []

    def work() -> None:
        start.wait()
        numbers.append(claim(tmp_path, "x")[0].number)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(1, 9))
