"""Stand-in for ibv_devinfo (and ibv_devices): what the verbs library says of each adapter.

Owns the text format, as public reports show it for ConnectX-6 and -7 adapters. It must not import the simulator.
"""

from __future__ import annotations

import sys
from itertools import pairwise

from simcluster.hardware.tools import ibsysfs

NO_DEVICES = 255
_MTU = {"1024": 3, "2048": 4, "4096": 5}
_STATES = {"1": "PORT_DOWN", "2": "PORT_INIT", "3": "PORT_ARMED", "4": "PORT_ACTIVE"}


def describe(device: str, root: str, *, verbose: bool = False) -> str:
    """One adapter's block."""

    def get(*path: str) -> str:
        return ibsysfs.read(device, *path, root=root)

    state = ibsysfs.before_colon(get("ports/1/state"))
    mtu = get("active_mtu") or "4096"
    rows = [
        ("transport", "InfiniBand (0)"),
        ("fw_ver", get("fw_ver")),
        ("node_guid", get("node_guid")),
        ("sys_image_guid", get("sys_image_guid")),
        ("vendor_id", get("device/vendor") or "0x02c9"),
        ("vendor_part_id", str(int(get("device/device") or "0x1021", 16))),
        ("hw_ver", "0x0"),
        ("board_id", get("board_id")),
        ("phys_port_cnt", "1"),
    ]
    port = [
        ("state", f"{_STATES.get(state, 'PORT_DOWN')} ({state or 1})"),
        ("max_mtu", "4096 (5)"),
        ("active_mtu", f"{mtu} ({_MTU.get(mtu, 5)})"),
        ("sm_lid", str(int(get("ports/1/sm_lid") or "0", 16))),
        ("port_lid", str(int(get("ports/1/lid") or "0", 16))),
        ("port_lmc", "0x00"),
        ("link_layer", get("ports/1/link_layer")),
    ]
    lines = [f"hca_id:\t{device}"]
    lines += [f"\t{name + ':':<32}{value}" for name, value in rows]
    lines.append("\t\tport:\t1")
    lines += [f"\t\t\t{name + ':':<24}{value}" for name, value in port]
    if verbose:
        lines += [f"\t\t\t{f'GID[{gid.index:3}]:':<24}{gid.gid}, {gid.kind}" for gid in ibsysfs.gids(device, root)]
    return "\n".join([*lines, "", ""])


def listing(names: list[str], root: str) -> str:
    """ibv_devices."""
    lines = ["    device          \t   node GUID", "    ------          \t----------------"]
    guids = {name: ibsysfs.read(name, "node_guid", root=root).replace(":", "") for name in names}
    return "\n".join([*lines, *(f"    {name:<16}\t{guid}" for name, guid in guids.items()), ""])


def answer(arguments: list[str], root: str = ibsysfs.ROOT) -> tuple[str, str, int]:
    """Standard output, standard error and the exit code."""
    names = ibsysfs.devices(root)
    if not names:
        return "", "No IB devices found\n", NO_DEVICES
    if "-l" in arguments or "--list" in arguments:
        return f"{len(names)} HCAs found:\n" + "".join(f"\t{name}\n" for name in names) + "\n", "", 0
    wanted = [word for before, word in pairwise(arguments) if before in ("-d", "--ib-dev")]
    if wanted and wanted[0] not in names:
        return "", f"IB device '{wanted[0]}' wasn't found\n", NO_DEVICES
    verbose = "-v" in arguments or "--verbose" in arguments
    return "".join(describe(name, root, verbose=verbose) for name in wanted or names), "", 0


def main() -> int:
    """Run."""
    text, error, code = answer(sys.argv[1:])
    sys.stdout.write(text)
    sys.stderr.write(error)
    return code


def main_devices() -> int:
    """Run as ibv_devices."""
    sys.stdout.write(listing(ibsysfs.devices(), ibsysfs.ROOT))
    return 0
