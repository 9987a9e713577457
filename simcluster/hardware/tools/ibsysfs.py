"""Reads /sys/class/infiniband, where real tools and stand-ins alike learn of RDMA adapters.

Owns that layout (kernel documentation: Documentation/ABI/stable/sysfs-class-infiniband). It must not import the
simulator.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

ROOT = "/sys/class/infiniband"


@dataclass(frozen=True)
class Gid:
    """One entry of a port's GID table; `kind` is "IB/RoCE v1" or "RoCE v2"."""

    index: int
    gid: str
    kind: str
    interface: str

    @property
    def address(self) -> str:
        """The IPv4 address that the GID maps, or ""."""
        parts = self.gid.split(":")
        if parts[:6] != ["0000"] * 5 + ["ffff"]:
            return ""
        return ".".join(str(int(part, 16)) for word in parts[6:] for part in (word[:2], word[2:]))


def _names(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return [each.name for each in entries]
    except OSError:
        return []


def devices(root: str = ROOT) -> list[str]:
    """Names of the adapters, none where there is no RDMA."""
    return sorted(_names(root))


def read(device: str, *path: str, root: str = ROOT) -> str:
    """A file's text without its line end; "" where it is absent."""
    try:
        with open("/".join([root, device, *path]), encoding="ascii") as file:  # noqa: PTH123 - starts fast
            return file.read().strip()
    except OSError:
        return ""


def interface(device: str, root: str = ROOT) -> str:
    """The network interface behind an adapter's port, "" where it has none."""
    names = _names(f"{root}/{device}/device/net")
    return names[0] if names else ""


def gids(device: str, root: str = ROOT) -> list[Gid]:
    """The port's GID table without its empty entries."""
    found = []
    for index in sorted(int(name) for name in _names(f"{root}/{device}/ports/1/gids")):
        gid = read(device, "ports/1/gids", str(index), root=root)
        if gid and gid != "0000:0000:0000:0000:0000:0000:0000:0000":
            kind = read(device, "ports/1/gid_attrs/types", str(index), root=root)
            found.append(Gid(index, gid, kind, read(device, "ports/1/gid_attrs/ndevs", str(index), root=root)))
    return found


def after_colon(text: str) -> str:
    """ACTIVE of "4: ACTIVE"."""
    return text.partition(":")[2].strip()


def before_colon(text: str) -> str:
    """4 of "4: ACTIVE"."""
    return text.partition(":")[0].strip()
