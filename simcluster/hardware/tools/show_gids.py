"""Stand-in for show_gids: the GID tables of all adapters.

Owns the text format, as public reports of RoCE set-ups show it. It must not import the simulator.
"""

from __future__ import annotations

import sys

from simcluster.hardware.tools import ibsysfs


def table(root: str = ibsysfs.ROOT, only: str = "") -> str:
    """The whole output."""
    lines = [
        "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV",
        "---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---",
    ]
    count = 0
    for device in ibsysfs.devices(root):
        for gid in ibsysfs.gids(device, root) if only in ("", device) else []:
            count += 1
            address = f"{gid.address}  " if gid.address else "\t"
            version = "v2" if gid.kind.endswith("v2") else "v1"
            lines.append(f"{device}\t1\t{gid.index}\t{gid.gid}\t{address}\t{version}\t{gid.interface}")
    return "\n".join([*lines, f"n_gids_found={count}", ""])


def main() -> int:
    """Run."""
    sys.stdout.write(table(only=sys.argv[1] if len(sys.argv) > 1 else ""))
    return 0
