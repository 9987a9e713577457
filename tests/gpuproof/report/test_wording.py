"""Numbers, times and hostile text as a reader sees them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuproof.report import wording


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (2.0, "count", "2"),
        (0, "count", "0"),
        (361.24567, "GB/s", "361.2 GB/s"),
        (1.23456e-7, "1", "1.23e-07"),
        (81_559, "MiB", "81\u202f559 MiB"),
        (12_345.678, "us", "12\u202f346 us"),
        (1536, "B", "1.5 KiB"),
        (8_589_934_592, "B", "8 GiB"),
        (float("nan"), "GB/s", "NaN GB/s"),
        (float("-inf"), None, "-infinity"),
        (None, "GB/s", "not measured"),
        (True, None, "true"),
        ("NVIDIA-H100-80GB-HBM3", "", "NVIDIA-H100-80GB-HBM3"),
    ],
)
def test_number_has_unit_and_sensible_digits(value: float | str | None, unit: str | None, shown: str) -> None:
    assert wording.number(value, unit) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.085, "85 ms"),
        (3.21, "3.2 s"),
        (59.99, "60.0 s"),
        (125, "2 min 05 s"),
        (3_840, "1 h 04 min"),
        (None, "unknown"),
    ],
)
def test_duration_reads_as_a_person_says_it(seconds: float | None, shown: str) -> None:
    assert wording.duration(seconds) == shown


def test_times_are_in_utc_whatever_zone_they_come_in() -> None:
    east = datetime(2026, 11, 30, 11, 0, tzinfo=timezone(timedelta(hours=2)))

    assert wording.utc(east) == wording.utc(east.astimezone(UTC)) == "2026-11-30 09:00:00 UTC"
    assert wording.utc(datetime(2026, 11, 30, 9, 0)) == "2026-11-30 09:00:00 UTC"  # noqa: DTZ001 - the case itself


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("a\x00b\x08", "a\\x00b\\x08"),
        ("gpu-1\u202egnp", "gpu-1\\u202egnp"),
        ("line\r\nnext\ttab", "line\nnext\ttab"),
        ("50 µs, Straße, 日本", "50 µs, Straße, 日本"),
    ],
)
def test_hostile_text_is_spelled_out(hostile: str, shown: str) -> None:
    assert wording.visible(hostile) == shown


@given(st.text())
def test_no_text_keeps_a_character_that_steers_a_terminal_or_reorders_a_line(text: str) -> None:
    shown = wording.visible(text)

    assert not set(shown) & {
        chr(c) for c in (*range(9), 11, 12, *range(14, 32), *range(127, 160), *range(0x202A, 0x202F))
    }
    assert wording.visible(shown) == shown


@given(st.floats(allow_nan=True), st.sampled_from(["B", "GB/s", "1", "count", None]))
def test_every_float_has_a_short_text(value: float, unit: str | None) -> None:
    assert 0 < len(wording.number(value, unit)) < 40


def test_natural_order_survives_odd_digits() -> None:
    assert sorted(["gpu-10", "gpu-9", "gpu-²", "missing-1", "10"], key=wording.natural)[0] == "10"
