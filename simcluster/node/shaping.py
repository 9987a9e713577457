"""Rates, delays and states of links, by rtnetlink messages: what `tc` and `ip link` would set.

Owns the messages. It must not know which link belongs to whom. tbf is in every common kernel; netem may be missing.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Sequence

from simcluster.node.netlink import Netlink, attribute

_RTM_NEWLINK, _RTM_NEWQDISC, _RTM_DELQDISC = 16, 36, 37
_IFLA_MASTER = 10
_NLM_F_REPLACE, _NLM_F_CREATE = 0x100, 0x400
_ROOT, _HANDLE = 0xFFFFFFFF, 0x10000
_TCA_KIND, _TCA_OPTIONS = 1, 2
_TCA_TBF_PARMS, _TCA_TBF_BURST = 1, 6
_TCA_NETEM_RATE = 6
_RTM_NEWTCLASS, _RTM_NEWTFILTER, _NLM_F_EXCL = 40, 44, 0x200
_TCA_HTB_PARMS, _TCA_HTB_INIT = 1, 2
_TCA_U32_CLASSID, _TCA_U32_SEL = 1, 5
_ETH_P_IP, _SOURCE_OFFSET = 0x0800, 12
_LINKLAYER_ETHERNET = 1
_IFF_UP = 1
_TICK_NS = 64
_LEAST_BURST = 128 * 1024
_QUEUE_S = 0.02


class NoNetemError(RuntimeError):
    """This kernel cannot delay or lose packets."""

    def __init__(self) -> None:
        super().__init__("this kernel has no netem: delays and losses cannot be simulated on this host, rates can")


class Shaper(Netlink):
    """Sets what a link may do; indexes are of the network namespace in which it was opened."""

    def limit(self, index: int, mbit: int) -> None:
        """Shape what leaves by this link to `mbit` (10**6 bit/s); 0 takes any shaping away."""
        if mbit == 0:
            self.free(index)
            return
        rate = mbit * 125_000
        burst = max(_LEAST_BURST, rate // 250)
        queue = burst + max(2 * _LEAST_BURST, int(rate * _QUEUE_S))
        spec = struct.pack("=BBHhHI", 0, _LINKLAYER_ETHERNET, 0, 0, 0, rate)
        parameters = spec + bytes(12) + struct.pack("=III", queue, 0, 0)
        options = attribute(_TCA_TBF_PARMS, parameters) + attribute(_TCA_TBF_BURST, struct.pack("=I", burst))
        self._qdisc(index, "tbf", options)

    def limit_sources(self, index: int, mbit: int, sources: Sequence[str], sources_mbit: int) -> None:
        """Shape what leaves by this link to `mbit`, and what comes from these IPv4 addresses, together, to less."""
        self.free(index)
        usual, slow = 1, 2
        self._qdisc(index, "htb", attribute(_TCA_HTB_INIT, struct.pack("=IIIII", 3, 10, usual, 0, 0)))
        for minor, rate in ((usual, mbit), (slow, sources_mbit)):
            spec = struct.pack("=BBHhHI", 0, _LINKLAYER_ETHERNET, 0, -1, 0, rate * 125_000)
            burst_ticks = int(_LEAST_BURST / (rate * 125_000) * 1e9 / _TICK_NS)
            parameters = spec + spec + struct.pack("=IIIII", burst_ticks, burst_ticks, 1000, 0, 0)
            header = struct.pack("=BxxxiIII", socket.AF_UNSPEC, index, _HANDLE | minor, _HANDLE, 0)
            options = attribute(_TCA_OPTIONS, attribute(_TCA_HTB_PARMS, parameters))
            payload = header + attribute(_TCA_KIND, b"htb\0") + options
            self._send(_RTM_NEWTCLASS, payload, _NLM_F_CREATE | _NLM_F_REPLACE)
        for number, source in enumerate(sources, 1):
            self._from(index, number, source, _HANDLE | slow)

    def _from(self, index: int, priority: int, source: str, class_id: int) -> None:
        """What comes from an IPv4 address belongs to a class: a u32 filter on the header's source field."""
        information = priority << 16 | socket.htons(_ETH_P_IP)
        header = struct.pack("=BxxxiIII", socket.AF_UNSPEC, index, 0, _HANDLE, information)
        selector = struct.pack("=BBBBHHhhI", 1, 0, 1, 0, 0, 0, 0, 0, 0)
        key = struct.pack("=4s4sii", b"\xff" * 4, socket.inet_aton(source), _SOURCE_OFFSET, 0)
        options = attribute(_TCA_U32_CLASSID, struct.pack("=I", class_id))
        options += attribute(_TCA_U32_SEL, selector + key)
        payload = header + attribute(_TCA_KIND, b"u32\0") + attribute(_TCA_OPTIONS, options)
        self._send(_RTM_NEWTFILTER, payload, _NLM_F_CREATE | _NLM_F_EXCL)

    def impair(self, index: int, *, delay_ms: float, loss_percent: float, mbit: int = 0) -> None:
        """Delay and lose what leaves by this link, at a rate too where `mbit` is not 0. Raises `NoNetemError`."""
        loss = min(0xFFFFFFFF, int(loss_percent / 100 * 0xFFFFFFFF))
        options = struct.pack("=IIIIII", int(delay_ms * 1e6 / _TICK_NS), 10_000, loss, 0, 0, 0)
        if mbit:
            options += attribute(_TCA_NETEM_RATE, struct.pack("=IiIi", mbit * 125_000, 0, 0, 0))
        try:
            self.free(index)
            self._qdisc(index, "netem", options)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EOPNOTSUPP):
                raise NoNetemError from error
            raise

    def free(self, index: int) -> None:
        """Take any shaping away."""
        try:
            self._send(_RTM_DELQDISC, _tc_header(index, 0))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINVAL):
                raise

    def set_state(self, index: int, *, up: bool) -> None:
        """Bring a link up or down."""
        self._send(_RTM_NEWLINK, struct.pack("=BxHiII", 0, 0, index, _IFF_UP if up else 0, _IFF_UP))

    def set_master(self, index: int, bridge: int) -> None:
        """Put a link on a bridge."""
        payload = struct.pack("=BxHiII", 0, 0, index, 0, 0) + attribute(_IFLA_MASTER, struct.pack("=I", bridge))
        self._send(_RTM_NEWLINK, payload)

    def _qdisc(self, index: int, kind: str, options: bytes) -> None:
        payload = _tc_header(index, _HANDLE)
        payload += attribute(_TCA_KIND, kind.encode() + b"\0") + attribute(_TCA_OPTIONS, options)
        self._send(_RTM_NEWQDISC, payload, _NLM_F_CREATE | _NLM_F_REPLACE)


def _tc_header(index: int, handle: int) -> bytes:
    return struct.pack("=BxxxiIII", socket.AF_UNSPEC, index, handle, _ROOT, 0)
