"""Rails: what reports and counters mean, who reaches whom over loopback, and that no damaged text reads as a rate."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from workloads import rail_reach, rdma_counters
from workloads.perftest import average_gbits
from workloads.rail_reach import Door, Nic, Reached, open_doors, reach
from workloads.rail_transfer import TCP, Amount, Receiver, listening_ports, send
from workloads.rdma_rails import Round, judged, shares, usual_rates

# The forms are those of perftest's manual page and its RESULT_FMT macros; numbers and addresses are made up.
RULE = "-" * 87
TEXT = f"""{RULE}
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Number of qps   : 1\t\tTransport type : IB
 Link type       : Ethernet
 GID index       : 3
{RULE}
 local address: LID 0000 QPN 0x0059 PSN 0x1f2e3d
 GID: 00:00:00:00:00:00:00:00:00:00:255:255:192:00:02:07
{RULE}
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             392.11             391.54 \t\t   0.746803
{RULE}
"""
JSON = json.dumps(
    {
        "test_info": {"test": "RDMA_Write BW Test", "BW_unit": "Gb/sec"},
        "results": {"MsgSize": 65536, "n_iterations": 5000, "BW_peak": 392.11, "BW_average": 391.54, "MsgRate": 0.75},
    }
)


@pytest.mark.parametrize(
    ("report", "gbits"),
    [
        (TEXT, 391.54),
        (JSON, 391.54),
        (TEXT.replace("Gb/sec", "MB/sec"), 391.54 * 8 * (1 << 20) / 1e9),
        (JSON.replace("Gb/sec", "MiB/sec"), 391.54 * 8 * (1 << 20) / 1e9),
        (JSON.replace('"BW_average"', '"BW_average[MB/sec]"'), 391.54 * 8 * (1 << 20) / 1e9),
    ],
)
def test_the_average_is_read_in_the_unit_of_its_header(report: str, gbits: float) -> None:
    assert average_gbits(report) == pytest.approx(gbits)


@pytest.mark.parametrize(
    "report",
    [
        "",
        RULE,
        TEXT.replace("Gb/sec", "furlongs"),
        TEXT.replace("391.54", "nan"),
        TEXT.replace("391.54", "0.00"),
        TEXT.replace("391.54", "-391.54"),
        TEXT.replace("0.746803", ""),
        TEXT.rpartition(RULE)[0],
        TEXT.replace(" 65536 ", " 32768      5000             1.0 2.0 3.0\n 65536 "),
        TEXT + TEXT,
        JSON.replace("391.54", "true"),
        JSON.replace("391.54", "1e400"),
        JSON.replace("391.54", "NaN"),
        JSON.replace("BW_unit", "BW"),
        JSON[:-1],
        "{" * 5000,
    ],
)
def test_a_report_that_is_not_wholly_understood_has_no_rate(report: str) -> None:
    assert average_gbits(report) is None


def test_fuzzed_reports_neither_crash_nor_read_as_another_rate() -> None:
    """Digits aside, a damaged report has the rate that it had or none: 400 of them, from both forms."""
    dice = random.Random(6)
    for number in range(400):
        whole = (TEXT, JSON)[number % 2]
        letters = list(whole)
        for _ in range(dice.randint(1, 12)):
            place = dice.randrange(len(letters))
            if not letters[place].isdigit():
                letters[place] = dice.choice(["", "\x00", "x", "-", "[", "}", "\n\n", "\u0664", "NaN"])
        found = average_gbits("".join(letters)[: dice.choice([len(letters), dice.randrange(len(letters))])])
        assert found in (None, 391.54)


def write_counters(root: Path, **values: str) -> None:
    place = root / "mlx5_0" / "ports" / "1" / "counters"
    place.mkdir(parents=True, exist_ok=True)
    for name, text in values.items():
        (place / name).write_text(text + "\n", encoding="utf-8")


def test_counters_that_grow_are_named_and_what_cannot_be_read_is_not_compared(tmp_path: Path) -> None:
    write_counters(tmp_path, symbol_error="3", link_downed="1", port_rcv_errors="0", port_xmit_discards="")
    before = rdma_counters.read("mlx5_0", 1, root=str(tmp_path))
    write_counters(tmp_path, symbol_error="5", link_downed="2", port_rcv_errors="0", VL15_dropped="7")
    grown = rdma_counters.growth(before, rdma_counters.read("mlx5_0", 1, root=str(tmp_path)))
    assert (grown.errors, grown.compared) == ({"link_downed": 1, "symbol_error": 2}, 3)
    assert (grown.total, grown.flaps) == (3.0, 1)


@pytest.mark.parametrize("text", ["-1", "0x10", "1.5", "", "\u0663", "N/A"])
def test_a_damaged_counter_is_none(tmp_path: Path, text: str) -> None:
    write_counters(tmp_path, symbol_error=text)
    assert rdma_counters.read("mlx5_0", 1, root=str(tmp_path)) == {}


def test_a_counter_that_was_set_back_has_grown_without_limit(tmp_path: Path) -> None:
    grown = rdma_counters.growth({"symbol_error": 9}, {"symbol_error": 0})
    assert (grown.total, grown.set_back) == (float("inf"), ["symbol_error"])
    assert rdma_counters.traffic_bytes("mlx5_0", 1, str(tmp_path)) is None


LOOPBACK = Nic("mlx5_0", 1, "lo", "127.0.0.1", -1)


def test_an_adapter_is_reached_where_it_greets_by_its_own_name() -> None:
    (door,) = open_doors("node-b", [LOOPBACK])
    listening = open_doors("node-c", [LOOPBACK._replace(name="mlx5_7")])
    closed = Door("mlx5_0", "127.0.0.1", 1)
    peers = {"node-b": [door], "node-c": [door], "node-d": listening, "node-e": [closed], "node-f": [Door("x", "", 0)]}
    found = reach([LOOPBACK], peers, 5.0)
    assert found == {(0, "node-b", 0): True, (0, "node-c", 0): False, (0, "node-d", 0): False, (0, "node-e", 0): False}


def test_adapters_are_in_the_order_of_their_numbers() -> None:
    names = ["mlx5_10", "mlx5_2", "mlx5_0", "rocep12s0"]
    assert sorted(names, key=rail_reach._in_order) == ["mlx5_0", "mlx5_2", "mlx5_10", "rocep12s0"]


def test_without_perftest_bytes_move_by_tcp_and_nobody_there_is_no_rate() -> None:
    amount = Amount(1 << 16, 64, 10.0)
    receiver = Receiver(TCP, LOOPBACK, 0, amount)
    assert receiver.listens()
    assert receiver._listener is not None
    port = receiver._listener.getsockname()[1]
    assert port in listening_ports()
    rate, why = send(TCP, LOOPBACK, "", "127.0.0.1", port, amount)
    assert (rate is not None and rate > 0, why) == (True, "")
    receiver.close()
    assert send(TCP, LOOPBACK, "", "127.0.0.1", 1, amount)[0] is None
    assert send(TCP, LOOPBACK._replace(address=""), "", "127.0.0.1", port, amount)[0] is None


def nic(place: int) -> Nic:
    return LOOPBACK._replace(name=f"mlx5_{place}")


def wired(wrong: set[str], nodes: tuple[str, ...] = ("b", "c", "d")) -> Reached:
    """Two rails that do not reach each other; the cables of `wrong` nodes are swapped."""
    pairs = [(own, node, far) for own in (0, 1) for node in nodes for far in (0, 1)]
    return {(own, node, far): (own == far) != (node in wrong) for own, node, far in pairs}


SWAPPED = (
    "mlx5_0: reaches its rail on 0 of 3 nodes, and reaches mlx5_1 of 3 nodes; "
    "mlx5_1: reaches its rail on 0 of 3 nodes, and reaches mlx5_0 of 3 nodes"
)

PEERS = {node: [Door("mlx5_0", "192.0.2.1", 1), Door("mlx5_1", "192.0.2.2", 1)] for node in ("b", "c", "d")}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (set[str](), "none"),
        ({"c"}, "none"),
        (
            {"b", "c", "d"},
            SWAPPED,
        ),
    ],
)
def test_a_swapped_pair_is_named_by_its_own_node_only(wrong: set[str], said: str) -> None:
    samples, facts = judged([nic(0), nic(1)], PEERS, wired(wrong), [])
    assert facts["rails_miswired"] == said
    reached = [sample.value for sample in samples if sample.metric == "rail_reached"]
    assert reached == [float(said == "none")] * 2


def test_rates_are_the_best_over_the_peers_and_nothing_moved_is_zero() -> None:
    rounds = [Round("b", [2.0, None], [1.0, None], ["mlx5_1 to b: no"]), Round("c", [0.5, None], [None, None], [])]
    samples, facts = judged([nic(0), nic(1)], PEERS, wired(set()), rounds)
    rates = {(s.at["adapter"], s.at["direction"]): s.value for s in samples if s.metric == "rdma_rate"}
    assert rates == {
        ("mlx5_0", "sent"): 2.0,
        ("mlx5_0", "received"): 1.0,
        ("mlx5_1", "sent"): 0.0,
        ("mlx5_1", "received"): 0.0,
    }
    assert facts["rdma_transfers_failed"] == "mlx5_1 to b: no"


def test_ports_without_an_address_are_judged_by_what_was_moved() -> None:
    rounds = [Round("b", [2.0], [2.0], []), Round("c", [None], [2.0], ["mlx5_0 to c: no"])]
    peers = {node: [Door("mlx5_0", "", 0)] for node in ("b", "c")}
    samples, facts = judged([LOOPBACK._replace(address="")], peers, {}, rounds)
    assert facts["rails_miswired"] == "mlx5_0: reaches its rail on 1 of 2 nodes"
    assert [s.value for s in samples if s.metric == "rail_reached"] == [0.0]


def test_a_rate_is_held_against_the_median_of_those_that_met() -> None:
    said = [{"a": [1.0, 2.0], "b": [None, 2.0], "c": [3.0, 2.0], "d": None}, {"a": [2.0, 1.0], "b": [0.2, None]}]
    assert usual_rates(said) == [2.0, 2.0]
    samples, _ = judged([nic(0), nic(1)], PEERS, wired(set()), [Round("b", [1.0, None], [4.0, 2.0], [])])
    assert [(s.at["adapter"], s.value) for s in shares(samples, [2.0, 2.0])] == [
        ("mlx5_0", 0.5),
        ("mlx5_0", 2.0),
        ("mlx5_1", 0.0),
        ("mlx5_1", 1.0),
    ]
    assert {s.value for s in shares(samples, [0.0, 0.0])} == {0.0}
