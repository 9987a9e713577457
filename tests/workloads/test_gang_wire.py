"""Signed words: who lacks the secret, says it again, or says it elsewhere is refused."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator

import pytest

from workloads.gang_wire import Channel, Disconnected, OrderBook, Refused, sign_order

SECRET = b"s" * 64


def order(epoch: int, number: int, run: str = "r1") -> str:
    return sign_order(SECRET, {"run": run, "epoch": epoch, "number": number, "kind": "assemble"})


def test_an_order_counts_once_and_later_epochs_win() -> None:
    book = OrderBook(SECRET, "r1")
    assert book.read(order(1, 1))["kind"] == "assemble"
    assert book.read(order(1, 2))["number"] == 2
    assert book.read(order(2, 3))["epoch"] == 2
    for old in (order(2, 3), order(1, 9), order(1, 1)):
        with pytest.raises(Refused, match="again"):
            book.read(old)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (sign_order(b"x" * 64, {"run": "r1", "epoch": 1, "number": 1}), "not signed"),
        (order(1, 1).replace('"number":1', '"number":2'), "not signed"),
        (order(1, 1, run="r2"), "another run"),
        ('{"run":"r1","epoch":1,"number":1}', "not signed"),
        ("", "not signed"),
        ("é é", "not signed"),
    ],
)
def test_what_is_not_signed_for_this_run_is_no_order(text: str, said: str) -> None:
    book = OrderBook(SECRET, "r1")
    with pytest.raises(Refused, match=said):
        book.read(text)
    assert book.read(order(1, 1))["number"] == 1


Sockets = Callable[[], tuple[socket.socket, socket.socket]]


@pytest.fixture
def sockets() -> Iterator[Sockets]:
    """Makes connected pairs, and closes them after the test."""
    made: list[socket.socket] = []

    def make() -> tuple[socket.socket, socket.socket]:
        both = socket.socketpair()
        made.extend(both)
        return both

    yield make
    for one in made:
        one.close()


def pair(
    sockets: Sockets, caller_secret: bytes = SECRET, challenge: bytes = b"c" * 32
) -> tuple[Channel, Channel, socket.socket]:
    near, far = sockets()
    called = Channel.answer(far, SECRET, challenge)
    received = near.recv(32, socket.MSG_WAITALL)
    return Channel(near, caller_secret, received, calling=True), called, near


def test_messages_go_both_ways_in_order(sockets: Sockets) -> None:
    caller, called, _ = pair(sockets)
    for number in range(3):
        caller.send({"n": number})
        called.send({"m": number})
    assert [called.receive()["n"] for _ in range(3)] == [0, 1, 2]
    assert [caller.receive()["m"] for _ in range(3)] == [0, 1, 2]
    caller.close()
    with pytest.raises(Disconnected):
        called.receive()


def test_who_lacks_the_secret_is_refused(sockets: Sockets) -> None:
    caller, called, _ = pair(sockets, caller_secret=b"guess" * 12)
    caller.send({"epoch": 1})
    with pytest.raises(Refused, match="forged"):
        called.receive()


def test_a_recorded_message_is_refused_here_and_elsewhere(sockets: Sockets) -> None:
    near, far = sockets()
    called = Channel.answer(far, SECRET, b"c" * 32)
    challenge = near.recv(32, socket.MSG_WAITALL)
    tap, out = sockets()
    Channel(out, SECRET, challenge, calling=True).send({"run": "once"})
    recorded = tap.recv(1 << 16)
    near.sendall(recorded)
    assert called.receive() == {"run": "once"}
    near.sendall(recorded)
    with pytest.raises(Refused, match="not the next one"):
        called.receive()
    _, other, raw = pair(sockets, challenge=b"d" * 32)
    raw.sendall(recorded)
    with pytest.raises(Refused, match="forged"):
        other.receive()


def test_a_message_sent_back_to_its_sender_is_refused(sockets: Sockets) -> None:
    near, far = sockets()
    caller = Channel(near, SECRET, b"c" * 32, calling=True)
    caller.send({"echo": 1})
    far.sendall(far.recv(1 << 16))
    with pytest.raises(Refused):
        caller.receive()


def test_an_endless_message_is_refused_before_it_is_read(sockets: Sockets) -> None:
    _, called, near = pair(sockets)
    near.sendall(b"\xff\xff\xff\xff")
    with pytest.raises(Refused, match="bytes"):
        called.receive()


def test_the_order_is_json_after_its_signature() -> None:
    signature, _, body = order(1, 1).partition(" ")
    assert len(signature) == 64
    assert json.loads(body) == {"run": "r1", "epoch": 1, "number": 1, "kind": "assemble"}
