"""Which adapter of this node reaches which adapter of another, by connections that are bound to their interfaces.

A rail is the adapters of one place, by name, on all nodes. Each adapter listens at its own interface only and greets
with its node and name, so a connection proves both ends. Owns listening and trying. It must not know who is right.
"""

from __future__ import annotations

import re
import selectors
import socket
import threading
import time
from typing import Dict, List, NamedTuple, Optional, Tuple

from workloads import rdma_sysfs
from workloads.contract import could_not
from workloads.interface_addresses import ipv4
from workloads.rdma_attachment import own_gid
from workloads.rdma_sysfs import Port
from workloads.verbs import NoVerbsError, Verbs

SO_BINDTODEVICE = 25
GREETING_S = 10.0
MAX_GREETING_BYTES = 512


class Nic(NamedTuple):
    """One adapter: its port, and the interface with its IPv4 address ("" without one); `gid_index` -1 for none."""

    name: str
    port: int
    interface: str
    address: str
    gid_index: int


class Door(NamedTuple):
    """Where an adapter of some node listens; `port` 0 where it has no address to listen at."""

    adapter: str
    address: str
    port: int


Reached = Dict[Tuple[int, str, int], bool]
"""Whether own adapter number k reached adapter number j of a node, by (k, node, j)."""


def nics() -> List[Nic]:
    """This pod's adapters in the order of their names, numbers as numbers."""
    names = rdma_sysfs.devices()
    try:
        usable = set(Verbs().devices())
    except NoVerbsError:
        usable = set(names)
    # Shared devices show the whole node in sysfs; what the library lists is this pod's.
    ports = [rdma_sysfs.ports(name)[:1] for name in sorted(names, key=_in_order) if name in usable]
    return [_nic(port) for found in ports for port in found]


def _in_order(name: str) -> List[Tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", name) if part]


def _nic(port: Port) -> Nic:
    own = own_gid(port)
    for interface in dict.fromkeys(gid.interface for gid in port.gids if gid.interface):
        for address in ipv4(interface):
            return Nic(port.device, port.number, interface, address, own.place if own is not None else -1)
    return Nic(port.device, port.number, "", "", -1)


def bound(nic: Nic) -> socket.socket:
    """A socket whose packets take this adapter's interface and no other."""
    stream = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        stream.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, nic.interface.encode("ascii", "replace") + b"\0")
    except OSError as error:
        could_not("this kernel does not let the pod bind a socket to %s (%s): Linux 5.7 does" % (nic.interface, error))
    return stream


def open_doors(node: str, own: List[Nic]) -> List[Door]:
    """Listen at every adapter that has an address, in threads that end with the program."""
    doors = []
    for nic in own:
        if not nic.address:
            doors.append(Door(nic.name, "", 0))
            continue
        listener = bound(nic)
        listener.bind((nic.address, 0))
        listener.listen(128)
        greeting = ("%s %s\n" % (node, nic.name)).encode("ascii", "replace")
        threading.Thread(target=_greet, args=(listener, greeting), daemon=True).start()
        doors.append(Door(nic.name, nic.address, listener.getsockname()[1]))
    return doors


def _greet(listener: socket.socket, greeting: bytes) -> None:
    while True:
        try:
            stream, _ = listener.accept()
        except OSError:
            return
        with stream:
            try:
                stream.sendall(greeting)
            except OSError:
                continue


def reach(own: List[Nic], peers: Dict[str, List[Door]], within_s: float) -> Reached:
    """Try every own adapter to every adapter of the peers, all at once; what has not connected in time is unreached."""
    found: Reached = {}
    waiting: Dict[socket.socket, Tuple[int, str, int]] = {}
    with selectors.DefaultSelector() as selector:
        for place, nic in enumerate(own):
            for peer, doors in peers.items():
                for number, door in enumerate(doors):
                    if not nic.address or not door.port:
                        continue
                    found[place, peer, number] = False
                    stream = _knock(nic, door)
                    if stream is not None:
                        waiting[stream] = (place, peer, number)
                        selector.register(stream, selectors.EVENT_WRITE)
        until = time.monotonic() + within_s
        while waiting and time.monotonic() < until:
            for key, _ in selector.select(max(0.0, until - time.monotonic())):
                stream = key.fileobj  # type: ignore[assignment]
                selector.unregister(key.fileobj)
                place, peer, number = waiting.pop(stream)  # type: ignore[arg-type]
                found[place, peer, number] = _greeted(stream, peer, peers[peer][number])  # type: ignore[arg-type]
        for stream in waiting:
            stream.close()
    return found


def _knock(nic: Nic, door: Door) -> Optional[socket.socket]:
    stream = bound(nic)
    stream.setblocking(False)
    try:
        stream.bind((nic.address, 0))
        stream.connect((door.address, door.port))
    except BlockingIOError:
        return stream
    except OSError:
        stream.close()
        return None
    return stream


def _greeted(stream: socket.socket, peer: str, door: Door) -> bool:
    """Whether who answers is who was meant: two interfaces may have one address."""
    with stream:
        if stream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            return False
        stream.settimeout(GREETING_S)
        said = b""
        try:
            while not said.endswith(b"\n") and len(said) < MAX_GREETING_BYTES:
                more = stream.recv(MAX_GREETING_BYTES)
                if not more:
                    break
                said += more
        except OSError:
            return False
    return said.decode("ascii", "replace") == "%s %s\n" % (peer, door.adapter)
