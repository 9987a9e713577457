"""Links, addresses and routes by rtnetlink messages: no `ip` process, and no need that the host has one.

Owns the message format. It must not know pods or nodes.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct

_NLM_F_REQUEST, _NLM_F_ACK, _NLM_F_EXCL, _NLM_F_CREATE = 0x1, 0x4, 0x200, 0x400
_RTM_NEWLINK, _RTM_NEWADDR, _RTM_NEWROUTE = 16, 20, 24
_NLMSG_ERROR = 2
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MASTER, _IFLA_LINKINFO, _IFLA_NET_NS_PID = 1, 3, 10, 18, 19
_IFLA_INFO_KIND, _IFLA_INFO_DATA, _VETH_INFO_PEER = 1, 2, 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_GATEWAY = 5
_IFF_UP = 1
_LINK_HEADER = "=BxHiII"
_NESTED = 0x8000


def _attribute(kind: int, payload: bytes) -> bytes:
    padding = (-len(payload)) % 4
    return struct.pack("=HH", len(payload) + 4, kind) + payload + b"\0" * padding


def _text(value: str) -> bytes:
    return value.encode() + b"\0"


class Netlink:
    """A route socket of the network namespace in which it was opened."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._socket.bind((0, 0))
        self._sequence = 0

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _send(self, kind: int, payload: bytes, flags: int = 0) -> None:
        self._sequence += 1
        header = struct.pack("=IHHII", 16 + len(payload), kind, _NLM_F_REQUEST | _NLM_F_ACK | flags, self._sequence, 0)
        self._socket.send(header + payload)
        answer = self._socket.recv(65536)
        code: int = struct.unpack_from("=i", answer, 16)[0]
        if struct.unpack_from("=H", answer, 4)[0] == _NLMSG_ERROR and code != 0:
            raise OSError(-code, f"rtnetlink message {kind}: {os.strerror(-code)}")

    def add_bridge(self, name: str) -> None:
        """Create a bridge."""
        info = _attribute(_IFLA_LINKINFO | _NESTED, _attribute(_IFLA_INFO_KIND, _text("bridge")))
        payload = struct.pack(_LINK_HEADER, 0, 0, 0, 0, 0) + _attribute(_IFLA_IFNAME, _text(name)) + info
        self._send(_RTM_NEWLINK, payload, _NLM_F_CREATE | _NLM_F_EXCL)

    def add_veth(self, name: str, master: int, peer: str, peer_pid: int) -> None:
        """Create a veth pair: `name` on the bridge of index `master`, up; `peer` where process `peer_pid` is."""
        far = struct.pack(_LINK_HEADER, 0, 0, 0, 0, 0) + _attribute(_IFLA_IFNAME, _text(peer))
        far += _attribute(_IFLA_NET_NS_PID, struct.pack("=I", peer_pid))
        data = _attribute(_IFLA_INFO_DATA | _NESTED, _attribute(_VETH_INFO_PEER | _NESTED, far))
        info = _attribute(_IFLA_LINKINFO | _NESTED, _attribute(_IFLA_INFO_KIND, _text("veth")) + data)
        payload = struct.pack(_LINK_HEADER, 0, 0, 0, _IFF_UP, _IFF_UP) + _attribute(_IFLA_IFNAME, _text(name))
        payload += _attribute(_IFLA_MASTER, struct.pack("=I", master)) + info
        self._send(_RTM_NEWLINK, payload, _NLM_F_CREATE | _NLM_F_EXCL)

    def set_up(self, index: int) -> None:
        """Bring the interface with this index up."""
        self._send(_RTM_NEWLINK, struct.pack(_LINK_HEADER, 0, 0, index, _IFF_UP, _IFF_UP))

    def add_address(self, index: int, address: str) -> None:
        """Give an interface an IPv4 address, written with its prefix length (10.0.0.2/16)."""
        interface = ipaddress.IPv4Interface(address)
        header = struct.pack("=BBBBI", socket.AF_INET, interface.network.prefixlen, 0, 0, index)
        packed = interface.ip.packed
        self._send(
            _RTM_NEWADDR, header + _attribute(_IFA_LOCAL, packed) + _attribute(_IFA_ADDRESS, packed), _NLM_F_CREATE
        )

    def add_default_route(self, gateway: str) -> None:
        """Route everything else to `gateway`."""
        header = struct.pack("=BBBBBBBBI", socket.AF_INET, 0, 0, 0, 254, 3, 0, 1, 0)
        self._send(
            _RTM_NEWROUTE, header + _attribute(_RTA_GATEWAY, ipaddress.IPv4Address(gateway).packed), _NLM_F_CREATE
        )
