"""The pod network: one bridge in the simulator's own network namespace, one address a pod.

Owns the address range. It must not know what pods do with it.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass

from simcluster.node.netlink import Netlink
from simcluster.node.runtime import BRIDGE, GATEWAY

_PREFIX = 16
_FIRST_POD = 10
_LAST_POD = (1 << 16) - 2


def make_bridge() -> None:
    """Bring loopback up and create the pods' bridge with the gateway's address."""
    link = Netlink()
    link.set_up(1)
    link.add_bridge(BRIDGE)
    index = socket.if_nametoindex(BRIDGE)
    link.add_address(index, f"{GATEWAY}/{_PREFIX}")
    link.set_up(index)
    link.close()


@dataclass(frozen=True)
class Lease:
    """A pod's address: `number` names its link as well."""

    number: int

    @property
    def address(self) -> str:
        """Without prefix length."""
        return f"10.244.{self.number >> 8}.{self.number & 255}"

    @property
    def cidr(self) -> str:
        """With prefix length."""
        return f"{self.address}/{_PREFIX}"


class AddressPool:
    """Addresses handed out round robin, so that a fresh pod rarely gets the one of a pod that has just gone."""

    def __init__(self) -> None:
        self._used: set[int] = set()
        self._next = _FIRST_POD

    def take(self) -> Lease:
        """A free address; `RuntimeError` where all 65,000 are in use."""
        for _ in range(_LAST_POD):
            number = self._next
            self._next = _FIRST_POD if self._next >= _LAST_POD else self._next + 1
            if number not in self._used and number & 255 not in (0, 255):
                self._used.add(number)
                return Lease(number)
        raise RuntimeError("no pod address is free")

    def give_back(self, lease: Lease) -> None:
        """The pod is gone."""
        self._used.discard(lease.number)
