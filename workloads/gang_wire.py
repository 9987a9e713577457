"""Signed words between harness, coordinator and agents of a gang: who lacks the run's secret cannot order or answer.

Owns signatures, sequence numbers and framing. It must not know what is ordered. Python 3.9 syntax, standard library
only.

An order of the harness is text, `<hmac-sha256, hex> <JSON>`, and names run, epoch and number: it counts once, and only
if its (epoch, number) is higher than that of all before. On a connection each message carries the connection's
challenge (random, made by the side that was called) and a number that grows by one each way, so that what was recorded
elsewhere or before is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import socket
import struct
import threading
from typing import Any, Dict, Mapping, Tuple

MAX_MESSAGE_BYTES = 16 << 20
_LENGTH = struct.Struct(">I")
_DIGEST_BYTES = hashlib.sha256().digest_size


class Refused(ValueError):
    """A word that is not by one who knows the secret, not of this run, or not new."""


class Disconnected(ConnectionError):
    """The other side is gone."""


def sign_order(secret: bytes, order: Mapping[str, Any]) -> str:
    """An order as text; `order` has the keys run, epoch and number beside what is ordered."""
    text = json.dumps(order, separators=(",", ":"), sort_keys=True)
    return "%s %s" % (_hex(secret, b"order", text.encode("utf-8")), text)


class OrderBook:
    """Reads orders; each counts once."""

    def __init__(self, secret: bytes, run: str) -> None:
        self._secret = secret
        self._run = run
        self._last: Tuple[int, int] = (0, 0)

    def read(self, text: str) -> Dict[str, Any]:
        """The order; raises `Refused` and says why."""
        signature, _, body = text.strip().partition(" ")
        if not hmac.compare_digest(
            signature.encode("utf-8"), _hex(self._secret, b"order", body.encode("utf-8")).encode()
        ):
            raise Refused("an order that is not signed with the run's secret")
        order = json.loads(body)
        if order.get("run") != self._run:
            raise Refused("an order of another run: %r" % str(order.get("run"))[:60])
        number = (int(order["epoch"]), int(order["number"]))
        if number <= self._last:
            raise Refused("order %d of epoch %d again, the last was %d of epoch %d" % (number[::-1] + self._last[::-1]))
        self._last = number
        return dict(order)


class Channel:
    """One connection between a coordinator and an agent: signed, numbered messages (JSON objects) each way."""

    def __init__(self, sock: socket.socket, secret: bytes, challenge: bytes, *, calling: bool) -> None:
        self._sock = sock
        self._secret = secret
        self._challenge = challenge
        self._out, self._in = (b">", b"<") if calling else (b"<", b">")
        self._sent = self._received = 0
        self._sending = threading.Lock()

    @classmethod
    def call(cls, address: Tuple[str, int], secret: bytes, timeout_s: float) -> "Channel":
        """Connect to an agent; raises OSError, or `Refused` where something else listens there."""
        sock = socket.create_connection(address, timeout=timeout_s)
        try:
            challenge = _exactly(sock, 32)
        except OSError:
            sock.close()
            raise
        return cls(sock, secret, challenge, calling=True)

    @classmethod
    def answer(cls, sock: socket.socket, secret: bytes, challenge: bytes) -> "Channel":
        """The called side: it sends the challenge."""
        sock.sendall(challenge)
        return cls(sock, secret, challenge, calling=False)

    def settimeout(self, seconds: float) -> None:
        """How long a `receive` waits at most; 0 is for ever."""
        self._sock.settimeout(seconds or None)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send it; raises OSError when the connection is broken."""
        body = json.dumps(message, separators=(",", ":")).encode("utf-8")
        with self._sending:
            self._sent += 1
            digest = self._digest(self._out, self._sent, body)
            self._sock.sendall(_LENGTH.pack(len(body)) + digest + body)

    def receive(self) -> Dict[str, Any]:
        """The next message; raises `Disconnected`, `socket.timeout`, or `Refused` for a forged or replayed one."""
        (length,) = _LENGTH.unpack(_exactly(self._sock, _LENGTH.size))
        if length > MAX_MESSAGE_BYTES:
            raise Refused("a message of %d bytes" % length)
        digest = _exactly(self._sock, _DIGEST_BYTES)
        body = _exactly(self._sock, length)
        self._received += 1
        if not hmac.compare_digest(digest, self._digest(self._in, self._received, body)):
            raise Refused("a message that is forged, or not the next one of this connection")
        message = json.loads(body.decode("utf-8"))
        if not isinstance(message, dict):
            raise Refused("a message that is no object")
        return message

    def close(self) -> None:
        """Break the connection, also under a thread that waits in `receive`."""
        with contextlib.suppress(OSError):  # it was broken already
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def _digest(self, direction: bytes, number: int, body: bytes) -> bytes:
        head = direction + self._challenge + struct.pack(">Q", number)
        return hmac.new(self._secret, head + body, hashlib.sha256).digest()


def _hex(secret: bytes, purpose: bytes, body: bytes) -> str:
    return hmac.new(secret, purpose + b"\n" + body, hashlib.sha256).hexdigest()


def _exactly(sock: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        piece = sock.recv(count)
        if not piece:
            raise Disconnected("the other side closed the connection")
        parts.append(piece)
        count -= len(piece)
    return b"".join(parts)
