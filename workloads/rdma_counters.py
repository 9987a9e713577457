"""Error and discard counters of RDMA ports, and what they have grown by.

Layout: kernel documentation, Documentation/ABI/stable/sysfs-class-infiniband; drivers add files of their own to
hw_counters. Owns which counters mean an error, and reading. It must not know which growth is too much.
"""

from __future__ import annotations

import os
from typing import Dict, List, NamedTuple, Optional

from workloads.rdma_sysfs import SYSFS

FLAPS = ("link_downed",)
ERRORS = (
    "counters/VL15_dropped",
    "counters/excessive_buffer_overrun_errors",
    "counters/link_downed",
    "counters/link_error_recovery",
    "counters/local_link_integrity_errors",
    "counters/port_rcv_constraint_errors",
    "counters/port_rcv_errors",
    "counters/port_rcv_remote_physical_errors",
    "counters/port_xmit_constraint_errors",
    "counters/port_xmit_discards",
    "counters/symbol_error",
    "hw_counters/local_ack_timeout_err",
    "hw_counters/out_of_buffer",
    "hw_counters/packet_seq_err",
    "hw_counters/retrans_timeout_events",
    "hw_counters/rnr_nak_retry_err",
    "hw_counters/roce_adp_retrans",
    "hw_counters/rx_drops",
)
TRAFFIC = ("counters/port_xmit_data", "counters/port_rcv_data")
WORD_BYTES = 4
Counts = Dict[str, int]


class Growth(NamedTuple):
    """What the counters of one port have grown by; `compared` is how many could be read before and after."""

    errors: Counts
    compared: int
    set_back: List[str]

    @property
    def total(self) -> float:
        """All errors together; infinite where a counter went backwards, after which nobody knows."""
        return float("inf") if self.set_back else float(sum(self.errors.values()))

    @property
    def flaps(self) -> int:
        """How often the link was lost."""
        return sum(self.errors.get(name, 0) for name in FLAPS)


def read(device: str, port: int, names: "tuple[str, ...]" = ERRORS, root: str = SYSFS) -> Counts:
    """The counters that exist and can be read, by file name without folder."""
    found = {}
    for name in names:
        value = _count(os.path.join(root, device, "ports", str(port), name))
        if value is not None:
            found[name.rpartition("/")[2]] = value
    return found


def growth(before: Counts, after: Counts) -> Growth:
    """From `before` to `after`, of what both have."""
    both = sorted(set(before) & set(after))
    errors = {name: after[name] - before[name] for name in both if after[name] > before[name]}
    return Growth(errors, len(both), [name for name in both if after[name] < before[name]])


def traffic_bytes(device: str, port: int, root: str = SYSFS) -> Optional[int]:
    """All bytes that the port has sent and received; None where it does not tell."""
    found = read(device, port, TRAFFIC, root)
    return sum(found.values()) * WORD_BYTES if len(found) == len(TRAFFIC) else None


def _count(path: str) -> Optional[int]:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            text = file.read(64).strip()
    except OSError:
        return None
    return int(text) if text.isascii() and text.isdecimal() else None
