"""The kernel log of a simulated node, as far as its GPU driver writes into it: lines of XIDs.

Owns the file and the form of its lines. It must not know GPUs or pods. The form is that of NVIDIA's XID documentation:
`NVRM: Xid (PCI:0000:1b:00): 79, pid=…, name=…, …`, after a level and seconds since boot.
"""

from __future__ import annotations

import time
from pathlib import Path


class KernelLog:
    """Lines so far; once it has a place, they lie in a file that containers read."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._place: Path | None = None

    def write_to(self, place: Path) -> None:
        """Keep the log in this file from now on; told again, nothing changes."""
        if self._place == place:
            return
        self._place = place
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("".join(self._lines), encoding="utf-8")

    def tell_xid(self, pci_bus_id: str, xid: int) -> None:
        """The driver reports an XID of the GPU at this bus id ("00000000:1B:00.0")."""
        domain, bus, device = pci_bus_id.split(".", maxsplit=1)[0].lower().split(":")
        seconds = time.clock_gettime(time.CLOCK_BOOTTIME)
        where = f"PCI:{domain[-4:]}:{bus}:{device}"
        line = f"<3>[{seconds:12.6f}] NVRM: Xid ({where}): {xid}, pid='<unknown>', name=<unknown>\n"
        self._lines.append(line)
        if self._place is not None:
            with self._place.open("a", encoding="utf-8") as file:
                file.write(line)
