"""The RDMA adapters of this container, from /sys/class/infiniband: port states, interfaces, bytes that went through.

Layout: kernel documentation, Documentation/ABI/stable/sysfs-class-infiniband; data counters count 4-byte words. Knows
no limit. Python 3.9 syntax, standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import List, Tuple

SYSFS = "/sys/class/infiniband"
_WORD_BYTES = 4


@dataclass(frozen=True)
class Port:
    """One port: "mlx5_0:1", whether it is active, its network interface ("" without one), sent and received bytes."""

    name: str
    active: bool
    state: str
    interface: str
    sent_bytes: int
    received_bytes: int


def ports(root: str = SYSFS) -> List[Port]:
    """Every port of every adapter, by name; empty where the container has none."""
    found = []
    for adapter in _names(Path(root)):
        interfaces = _names(Path(root, adapter, "device", "net"))
        for number in _names(Path(root, adapter, "ports")):
            place = Path(root, adapter, "ports", number)
            state = _word(place / "state")
            found.append(
                Port(
                    name="%s:%s" % (adapter, number),
                    active=state.endswith("ACTIVE"),
                    state=state or "unknown",
                    interface=interfaces[0] if interfaces else "",
                    sent_bytes=_count(place / "counters" / "port_xmit_data"),
                    received_bytes=_count(place / "counters" / "port_rcv_data"),
                )
            )
    return found


def bytes_through(found: List[Port]) -> Tuple[int, int]:
    """All that was sent and received."""
    return sum(port.sent_bytes for port in found), sum(port.received_bytes for port in found)


def _names(directory: Path) -> List[str]:
    try:
        return sorted(entry.name for entry in directory.iterdir())
    except OSError:
        return []


def _word(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _count(path: Path) -> int:
    text = _word(path)
    return int(text) * _WORD_BYTES if text.isascii() and text.isdigit() else 0
