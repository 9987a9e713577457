"""The addresses of a network interface as GIDs, asked of the kernel. Knows nothing of RDMA but the form of a GID."""

from __future__ import annotations

import fcntl
import socket
import struct
from typing import List

SIOCGIFADDR = 0x8915
INET6 = "/proc/net/if_inet6"
_LINK_SCOPE = "20"


def mapped(address: str) -> str:
    """The GID of an IPv4 address: ::ffff:a.b.c.d, written out."""
    first, second = struct.unpack("!HH", socket.inet_aton(address))
    return "0000:0000:0000:0000:0000:ffff:%04x:%04x" % (first, second)


def ipv4(interface: str) -> List[str]:
    """The interface's IPv4 address; none where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        request = struct.pack("256s", interface.encode("ascii", "replace")[:15])
        try:
            answer = fcntl.ioctl(asked.fileno(), SIOCGIFADDR, request)
        except OSError:
            return []
    return [socket.inet_ntoa(answer[20:24])]


def own_gids(interface: str) -> List[str]:
    """Every GID that an address of the interface has, link-local ones left out."""
    try:
        with open(INET6, encoding="ascii") as file:
            lines = [line.split() for line in file]
    except OSError:
        lines = []
    return [mapped(address) for address in ipv4(interface)] + [
        ":".join(words[0][start : start + 4] for start in range(0, 32, 4))
        for words in lines
        if len(words) == 6 and words[5] == interface and words[3] != _LINK_SCOPE and len(words[0]) == 32
    ]
