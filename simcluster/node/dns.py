"""The cluster's name server: answers for Services and their pods, and says at once that other names do not exist.

Owns the wire format and the answers. It must not know pods; what names there are it is told.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import cast

PORT = 53
_A, _AAAA, _IN = 1, 28, 1
_TTL_S = 5
_NO_ERROR, _FORMAT_ERROR, _NO_SUCH_NAME = 0, 1, 3
_ANSWER = 0x8580  # a response, authoritative, recursion asked for and available
_POINTER = 0xC00C  # the name that stands right behind the header

Names = Mapping[str, Sequence[str]]
"""Full names in small letters, without the final dot, and their IPv4 addresses."""


class NameServer(asyncio.DatagramProtocol):
    """Answers queries over UDP; `names` is asked for the present names at each query."""

    def __init__(self, names: Callable[[], Names]) -> None:
        self._names = names
        self._transport: asyncio.DatagramTransport | None = None

    async def start(self, address: str) -> None:
        """Listen at an address. Raises OSError where the port is taken."""
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: self, local_addr=(address, PORT))

    def stop(self) -> None:
        """Listen no more."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is there."""
        # Not every event loop's datagram transport is one by inheritance.
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """One query."""
        answer = respond(data, self._names())
        if answer and self._transport is not None:
            self._transport.sendto(answer, addr)


def respond(query: bytes, names: Names) -> bytes:
    """The answer to a query with one question; b"" to what is no query at all."""
    if len(query) < 12 or query[2] & 0x80:
        return b""
    number = query[:2]
    try:
        name, end = _question(query)
        kind, family = struct.unpack_from("!HH", query, end)
    except (IndexError, struct.error, UnicodeDecodeError):
        return number + struct.pack("!HHHHH", _ANSWER | _FORMAT_ERROR, 0, 0, 0, 0)
    known = names.get(name)
    addresses = known or () if (kind, family) == (_A, _IN) else ()
    code = _NO_SUCH_NAME if known is None else _NO_ERROR
    head = number + struct.pack("!HHHHH", _ANSWER | code, 1, len(addresses), 0, 0)
    return head + query[12 : end + 4] + b"".join(_record(address) for address in addresses)


def _question(query: bytes) -> tuple[str, int]:
    labels, at = [], 12
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode("ascii"))
        at += 1 + length
    return ".".join(labels).lower(), at + 1


def _record(address: str) -> bytes:
    return struct.pack("!HHHIH", _POINTER, _A, _IN, _TTL_S, 4) + socket.inet_aton(address)
