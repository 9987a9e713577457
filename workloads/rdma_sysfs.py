"""What the kernel says of RDMA ports below /sys/class/infiniband: state, rate, link layer, addresses.

Owns reading and the texts' formats (kernel documentation, Documentation/ABI/stable/sysfs-class-infiniband). What cannot
be read is None or "", never a good value. It must not know what is expected.
"""

from __future__ import annotations

import os
import re
from typing import List, NamedTuple, Optional

SYSFS = "/sys/class/infiniband"
_STATE = re.compile(r"[0-7]: ([A-Za-z_]+)")
_RATE = re.compile(r"([0-9]{1,5}(?:\.[0-9]{1,3})?) Gb/sec(?: \([^)]*\))?")
_GID = re.compile(r"[0-9a-f]{4}(:[0-9a-f]{4}){7}")
_NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
LINK_LOCAL = "fe80:"
ROCE_2 = "RoCE v2"
MAX_GIDS = 256


class Gid(NamedTuple):
    """One entry of a GID table that is in use: its place (the index), type and the interface it belongs to."""

    place: int
    gid: str
    kind: str
    interface: str


class Port(NamedTuple):
    """One port as the kernel shows it; a rate in Gb/s, a LID as a number."""

    device: str
    number: int
    state: str
    physical: str
    rate: Optional[float]
    link_layer: str
    lid: Optional[int]
    gids: List[Gid]


def devices(root: str = SYSFS) -> List[str]:
    """The adapters' names; none where there is no such class."""
    try:
        return sorted(name for name in os.listdir(root) if not name.startswith("."))
    except OSError:
        return []


def ports(device: str, root: str = SYSFS) -> List[Port]:
    """All ports of an adapter."""
    try:
        numbers = sorted(int(name) for name in os.listdir(os.path.join(root, device, "ports")) if name.isdecimal())
    except OSError:
        return []
    return [_port(os.path.join(root, device, "ports", str(number)), device, number) for number in numbers]


def _port(place: str, device: str, number: int) -> Port:
    return Port(
        device,
        number,
        state(_text(place, "state")),
        state(_text(place, "phys_state")),
        rate(_text(place, "rate")),
        _text(place, "link_layer"),
        lid(_text(place, "lid")),
        _gids(place),
    )


def state(text: str) -> str:
    """The word of "4: ACTIVE" or "5: LinkUp"; "" for anything else."""
    found = _STATE.fullmatch(text)
    return found.group(1) if found else ""


def rate(text: str) -> Optional[float]:
    """The number of "400 Gb/sec (4X NDR)"; None for anything else, and for a rate of nothing."""
    found = _RATE.fullmatch(text)
    value = float(found.group(1)) if found else 0.0
    return value if value > 0 else None


def lid(text: str) -> Optional[int]:
    """The number of "0x1a"; None for anything else, and for what is no LID of an adapter (0, and from 0xc000 on)."""
    if not re.fullmatch(r"0x[0-9a-f]{1,4}", text):
        return None
    value = int(text, 16)
    return value if 0 < value < 0xC000 else None


def _gids(place: str) -> List[Gid]:
    found = []
    for index in range(MAX_GIDS):
        gid = _text(place, "gids/%d" % index)
        if not gid:
            break
        # An entry of another network namespace has a GID whose type cannot be read: it is not this pod's.
        kind = _text(place, "gid_attrs/types/%d" % index)
        if _GID.fullmatch(gid) and gid != _NO_GID and kind:
            found.append(Gid(index, gid, kind, _text(place, "gid_attrs/ndevs/%d" % index)))
    return found


def _text(place: str, name: str) -> str:
    try:
        with open(os.path.join(place, name), encoding="ascii", errors="replace") as file:
            return file.read(4096).strip("\n")
    except OSError:
        return ""
