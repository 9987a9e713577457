"""Stand-in for ibstat: ports of adapters as infiniband-diags prints them.

Owns the text format, as vendors' knowledge bases show it. It must not import the simulator.
"""

from __future__ import annotations

import sys

from simcluster.hardware.tools import ibsysfs

NO_DEVICES = 255
_STATES = {"1": "Down", "2": "Initializing", "3": "Armed", "4": "Active"}


def _hex(guid: str) -> str:
    return "0x" + guid.replace(":", "")


def describe(device: str, root: str) -> str:
    """One adapter's block."""

    def get(*path: str) -> str:
        return ibsysfs.read(device, *path, root=root)

    physical = ibsysfs.after_colon(get("ports/1/phys_state"))
    lines = [
        f"CA '{device}'",
        f"\tCA type: {get('hca_type')}",
        "\tNumber of ports: 1",
        f"\tFirmware version: {get('fw_ver')}",
        "\tHardware version: 0",
        f"\tNode GUID: {_hex(get('node_guid'))}",
        f"\tSystem image GUID: {_hex(get('sys_image_guid'))}",
        "\tPort 1:",
        f"\t\tState: {_STATES.get(ibsysfs.before_colon(get('ports/1/state')), 'Down')}",
        f"\t\tPhysical state: {physical}",
        f"\t\tRate: {get('ports/1/rate').partition(' ')[0]}",
        f"\t\tBase lid: {int(get('ports/1/lid') or '0', 16)}",
        "\t\tLMC: 0",
        f"\t\tSM lid: {int(get('ports/1/sm_lid') or '0', 16)}",
        f"\t\tCapability mask: {get('ports/1/cap_mask')}",
        f"\t\tPort GUID: {_hex(get('node_guid'))}",
        f"\t\tLink layer: {get('ports/1/link_layer')}",
    ]
    return "\n".join([*lines, ""])


def answer(arguments: list[str], root: str = ibsysfs.ROOT) -> tuple[str, int]:
    """The text and the exit code."""
    names = ibsysfs.devices(root)
    if "-l" in arguments:
        return "".join(f"{name}\n" for name in names), 0
    wanted = [word for word in arguments if not word.startswith("-")]
    if wanted and wanted[0] not in names:
        return f"ibpanic: [1] main: stat of IB device '{wanted[0]}' failed: No such device\n", NO_DEVICES
    return "".join(describe(name, root) for name in wanted[:1] or names), 0


def main() -> int:
    """Run."""
    text, code = answer(sys.argv[1:])
    sys.stdout.write(text)
    return code
