"""The cluster's cables: one bridge a node with an uplink to the others, and faster ones for RDMA, one a rail.

Owns links, their rates and states, and what they have counted. It must not know pods: it gets names.
Everything lies in the simulator's own network namespace; a pod's interfaces are far ends of links on these bridges.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from simcluster.node.runtime import BRIDGE
from simcluster.node.shaping import Shaper

RAIL = "rail"
_COUNT_PERIOD_S = 0.05
Count = tuple[int, int]


class Counted(Protocol):
    """Something that shows counters of links."""

    def links(self) -> set[str]:
        """The links whose counts are wanted now."""
        ...

    def count(self, link: str, sent: Count, received: Count) -> None:
        """What has passed a link, seen from its pod."""
        ...


@dataclass(frozen=True)
class Uplink:
    """A node's own cable: `near` on the node's bridge, `far` on the cluster's."""

    bridge: str
    near: str
    far: str


class Fabric:
    """All cables. Every method is quick: a few messages to the kernel."""

    def __init__(self) -> None:
        self._shaper = Shaper()
        self._uplinks: dict[str, Uplink] = {}
        self._rails: set[int] = set()
        self._counting: asyncio.Task[None] | None = None
        self._counted: list[Counted] = []

    def close(self) -> None:
        """Stop counting; the kernel removes the links with the namespace."""
        if self._counting is not None:
            self._counting.cancel()
        self._shaper.close()

    def add_node(self, node: str, number: int, mbit: int) -> str:
        """Give a node its bridge and uplink, shaped both ways to `mbit` (0: not at all); the bridge's name."""
        uplink = Uplink(f"node{number}", f"near{number}", f"far{number}")
        self._shaper.add_bridge(uplink.bridge)
        bridge = socket.if_nametoindex(uplink.bridge)
        self._shaper.add_veth(uplink.near, bridge, uplink.far, os.getpid())
        far = socket.if_nametoindex(uplink.far)
        self._shaper.set_master(far, socket.if_nametoindex(BRIDGE))
        for index in (bridge, far):
            self._shaper.set_state(index, up=True)
        self._uplinks[node] = uplink
        self.limit_uplink(node, mbit)
        return uplink.bridge

    def limit_uplink(self, node: str, mbit: int) -> None:
        """Shape a node's uplink both ways."""
        for index in self._ends(node):
            self._shaper.limit(index, mbit)

    def impair_uplink(self, node: str, *, delay_ms: float, loss_percent: float) -> None:
        """Delay and lose packets from and to a node. Raises `NoNetemError`."""
        for index in self._ends(node):
            self._shaper.impair(index, delay_ms=delay_ms, loss_percent=loss_percent)

    def require_netem(self) -> None:
        """Raises `NoNetemError` where this kernel can neither delay nor lose packets."""
        index = socket.if_nametoindex(BRIDGE)
        self._shaper.impair(index, delay_ms=0.0, loss_percent=0.0)
        self._shaper.free(index)

    def cut_uplink(self, node: str, *, cut: bool) -> None:
        """Pull a node's cable, or plug it in again."""
        for index in self._ends(node):
            self._shaper.set_state(index, up=not cut)

    def _ends(self, node: str) -> list[int]:
        uplink = self._uplinks.get(node)
        return [] if uplink is None else [socket.if_nametoindex(name) for name in (uplink.near, uplink.far)]

    def rail(self, number: int) -> str:
        """The bridge of a rail of the RDMA network, made where there is none yet: rails do not reach each other."""
        bridge = f"{RAIL}{number}"
        if number not in self._rails:
            self._shaper.add_bridge(bridge)
            self._shaper.set_state(socket.if_nametoindex(bridge), up=True)
            self._rails.add(number)
        return bridge

    def plug_into_rail(self, link: str, number: int) -> None:
        """Move a pod's link to another rail."""
        with suppress(OSError):  # the pod is gone, and its link with it
            self._shaper.set_master(socket.if_nametoindex(link), socket.if_nametoindex(self.rail(number)))

    def limit_link(self, link: str, mbit: int) -> None:
        """Shape what a pod gets by one link (what it sends is shaped at its own end)."""
        with suppress(OSError):  # the pod is gone, and its link with it
            self._shaper.limit(socket.if_nametoindex(link), mbit)

    def limit_sources(self, link: str, mbit: int, sources: Sequence[str], sources_mbit: int) -> None:
        """Shape what a pod gets by one link: what comes from these addresses together to `sources_mbit`."""
        with suppress(OSError):  # the pod is gone, and its link with it
            self._shaper.limit_sources(socket.if_nametoindex(link), mbit, sources, sources_mbit)

    def set_link(self, link: str, *, up: bool) -> None:
        """Bring a pod's link up or down."""
        with suppress(OSError):  # as above
            self._shaper.set_state(socket.if_nametoindex(link), up=up)

    def count_for(self, counted: Counted) -> None:
        """Tell it often what its links have carried."""
        self._counted.append(counted)
        if self._counting is None:
            self._counting = asyncio.create_task(self._count(), name="link-counters")

    async def _count(self) -> None:
        while True:
            await asyncio.sleep(_COUNT_PERIOD_S)
            wanted = [(counted, link) for counted in self._counted for link in counted.links()]
            counts = read_counts() if wanted else {}
            for counted, link in wanted:
                if link in counts:
                    # What goes out at this end comes in at the pod's.
                    received, sent = counts[link]
                    counted.count(link, sent, received)


def read_counts(table: Path = Path("/proc/net/dev")) -> dict[str, tuple[Count, Count]]:
    """What each interface has sent and received, as (bytes, packets)."""
    counts = {}
    for line in table.read_text(encoding="ascii").splitlines()[2:]:
        name, _, rest = line.partition(":")
        numbers = [int(word) for word in rest.split()]
        counts[name.strip()] = ((numbers[8], numbers[9]), (numbers[0], numbers[1]))
    return counts
