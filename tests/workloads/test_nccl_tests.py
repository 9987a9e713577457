# ruff: noqa: E501  (tables as the tool prints them)
"""Tables of nccl-tests from 2.5 to 2.18: read by header, or not understood. Hosts and numbers are made up."""

from __future__ import annotations

import pytest

from workloads.nccl_tests import NotUnderstood, parse

DEVICES = """\
#   Rank  0 Pid   4100 on     host-1 device  0 [0x07] Some GPU
#   Rank  1 Pid   4100 on     host-1 device  1 [0x0f] Some GPU
"""
OLD = (
    "# nThread 1 nGpus 2 minBytes 1048576 maxBytes 2097152 step: 2(factor) warmup iters: 5 iters: 20 validation: 1 \n#\n"
    "# Using devices\n" + DEVICES + "#\n"
    "#                                                     out-of-place                       in-place          \n"
    "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
    "#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       \n"
    "     1048576        262144   float     sum    40.10   26.15   26.15  0e+00    39.80   26.35   26.35  0e+00\n"
    "     2097152        524288   float     sum    60.20   34.84   34.84  1e-06    59.90   35.01   35.01  0e+00\n"
    "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 30.5875 \n#\n"
)
MIDDLE = (
    "# nThread 1 nGpus 2 minBytes 1048576 maxBytes 2097152 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 "
    "validation: 1 graph: 0\n#\n# Using devices\n"
    "#  Rank  0 Group  0 Pid   7001 on     host-1 device  0 [0x07] Some GPU\n"
    "#  Rank  1 Group  0 Pid   7001 on     host-1 device  1 [0x0f] Some GPU\n#\n"
    "#                                                              out-of-place                       in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
    "host-1:7001:7010 [0] NCCL INFO a word of the library in between\n"
    "     1048576        262144     float     sum      -1    40.10   26.15   26.15      0    39.80   26.35   26.35      3\n"
    "     2097152        524288     float     sum      -1    60.20   34.84   34.84    N/A    59.90   35.01   35.01    N/A\n"
    "# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 30.5875 FAILED\n#\n"
)
NEW = (
    "# nccl-tests version 2.18.2 nccl-headers=22907 nccl-library=22907\n"
    "# Collective test starting: all_reduce_perf\n"
    + MIDDLE.replace("[0x07]", "[0009:01:00]").replace("0 OK", "0 OK").replace("3 FAILED", "0 OK")
    + "# Collective test concluded: all_reduce_perf\n"
)


@pytest.mark.parametrize("text", [OLD, MIDDLE, NEW], ids=["2.5", "2.13", "2.18"])
def test_columns_are_what_the_header_calls_them(text: str) -> None:
    found = parse(text, 2)
    assert [row.size for row in found.rows] == [1 << 20, 2 << 20]
    assert [row.out_of_place.busbw for row in found.rows] == [26.15, 34.84]
    assert [row.in_place.time_us for row in found.rows] == [39.80, 59.90]
    assert (found.ranks, found.hosts) == (2, 1)


def test_wrong_elements_are_counted_and_not_checked_is_not_nought() -> None:
    old, middle = parse(OLD, 2), parse(MIDDLE, 2)
    assert [row.out_of_place.wrong for row in old.rows] == [0, 1]
    assert [row.in_place.wrong for row in middle.rows] == [3, None]
    assert middle.out_of_bounds == 3
    assert parse(NEW, 2).version == "2.18.2"


def test_a_size_that_was_lowered_is_told() -> None:
    assert parse("# Reducing maxBytes to 1048576 due to memory limitation\n" + OLD, 2).reduced_to == 1 << 20


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (OLD + OLD, "ranks"),
        (OLD.replace("Rank  1", "Rank  0"), "ranks"),
        (OLD.replace(DEVICES, DEVICES.splitlines()[0] + "\n"), "ranks"),
        (OLD.replace("# Avg bus bandwidth", "# gone"), "averages"),
        ("\n".join(line for line in OLD.splitlines() if not line.startswith("     ")), "no row"),
        (OLD.replace("     2097152", "     1048576"), "more than once"),
        (OLD.replace("39.80", " 0.31"), "quick"),
        (OLD.replace("39.80", " -nan"), "quick"),
        ("", "ranks"),
    ],
)
def test_what_is_not_one_whole_table_is_not_understood(text: str, said: str) -> None:
    with pytest.raises(NotUnderstood, match=said):
        parse(text, 2)
