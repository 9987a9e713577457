"""The line format: what is written is read back, and what was damaged is never taken for a line."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.line_stream import (
    END,
    MAX_LINE_BYTES,
    DamagedLine,
    Line,
    LineWriter,
    format_line,
    load,
    parse_line,
)


def written(*values: dict[str, Any]) -> list[str]:
    read_end, write_end = os.pipe()
    chunks: list[bytes] = []

    def drain() -> None:
        while piece := os.read(read_end, 1 << 16):
            chunks.append(piece)

    reader = threading.Thread(target=drain)
    reader.start()
    writer = LineWriter(write_end)
    for value in values:
        writer.write(value)
    writer.end()
    os.close(write_end)
    reader.join()
    os.close(read_end)
    return b"".join(chunks).decode("ascii").splitlines()


def test_values_long_and_short_come_back_whole_and_numbered() -> None:
    long = {"text": "é€\n" * 9000, "n": [1, 2.5, None, True]}
    lines = [parse_line(text) for text in written({"a": 1}, long)]
    found = [line for line in lines if line is not None]
    assert [line.number for line in found] == list(range(1, len(lines) + 1))
    assert all(len(format_line(line)) <= MAX_LINE_BYTES for line in found)
    assert load(found[0].piece) == {"a": 1}
    assert [line.more for line in found[1:-1]] == [True] * (len(found) - 3) + [False]
    assert load("".join(line.piece for line in found[1:-1])) == long
    assert load(found[-1].piece) == {END: True}


@given(st.integers(1, 10**9), st.booleans(), st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126)))
def test_a_line_is_read_back_also_behind_a_line_without_end(number: int, more: bool, piece: str) -> None:
    line = Line(number, more, piece)
    assert parse_line(format_line(line)) == line
    assert parse_line("NCCL INFO somebody's words" + format_line(line)) == line


@given(st.data())
def test_a_changed_byte_is_noticed(data: st.DataObject) -> None:
    text = format_line(Line(7, False, '{"a":1}')).rstrip("\n")
    place = data.draw(st.integers(len("gpuproof-line/1 "), len(text) - 1))
    letter = data.draw(st.characters(min_codepoint=33, max_codepoint=126).filter(lambda each: each != text[place]))
    with pytest.raises(DamagedLine):
        parse_line(text[:place] + letter + text[place + 1 :])


@pytest.mark.parametrize("text", ["", "some other output", "gpuproof/1 json 3 00000000"])
def test_what_is_none_of_ours_is_none(text: str) -> None:
    assert parse_line(text) is None


@pytest.mark.parametrize("text", ["gpuproof-line/1 1", "gpuproof-line/1 x 00000000 . {}", "gpuproof-line/1 ²  0 . {}"])
def test_a_line_cut_short_is_damaged(text: str) -> None:
    with pytest.raises(DamagedLine):
        parse_line(text)


@pytest.mark.parametrize("pieces", ["[1]", "{", "1", "[" * 100_000])
def test_a_value_is_an_object(pieces: str) -> None:
    with pytest.raises(DamagedLine):
        load(pieces)
