"""NVIDIA's XID errors: what each means, what is to be done, and how the kernel log writes them. Knows no limit.

Meanings and actions follow NVIDIA's XID documentation (docs.nvidia.com/deploy/xid-errors), in this project's words.
"""

from __future__ import annotations

import ctypes
import re
from typing import Dict, List, NamedTuple, Optional, Tuple

RESET = "drain the node and reset the GPU"
RESTART = "drain the node and restart it; if it comes back, service"
LINK = "look at NVLink, NVSwitch and fabric manager; reset; if it comes back, service"
INSPECT = "see NVIDIA's XID catalogue; reset the GPU if it does not recover"
APPLICATION = "restart the application; a fault of the node only if a known good program causes it again"


class Xid(NamedTuple):
    """What an XID means and what is to be done; `application` where the program, not the node, is to be suspected."""

    meaning: str
    action: str
    application: bool = False


XIDS: Dict[int, Xid] = {
    13: Xid("exception in a compute or graphics engine", APPLICATION, True),
    31: Xid("a program touched memory that is not mapped", APPLICATION, True),
    43: Xid("a program's channel was stopped after its own error", APPLICATION, True),
    45: Xid("work was cancelled, after another XID or a killed program", "look for the XID before it", True),
    46: Xid("the GPU has stopped processing", RESET),
    48: Xid("double-bit ECC error: memory that could not be corrected", "drain, reset, and look at row remaps"),
    54: Xid("auxiliary power is missing", "check power cables and mechanics"),
    62: Xid("the GPU's internal micro-controller has halted", RESET),
    63: Xid("a row of memory was remapped, or a page retired", "reset at the next chance, so that it takes effect"),
    64: Xid("remapping a row of memory, or retiring a page, has failed", RESET),
    68: Xid("exception in the video decoder", APPLICATION, True),
    69: Xid("error of an engine's class: wrong method or data", APPLICATION, True),
    74: Xid("NVLink error", LINK),
    79: Xid("the GPU has fallen off the bus", RESTART),
    92: Xid("high rate of corrected memory errors", "watch it; service if it stays"),
    94: Xid("contained memory error: only the program that used the memory is lost", APPLICATION, True),
    95: Xid("uncontained memory error: other programs may be affected", RESET),
    109: Xid("a context switch took too long", RESET),
    110: Xid("security fault", RESET),
    119: Xid("the GPU's system processor (GSP) does not answer", RESET),
    120: Xid("the GPU's system processor (GSP) reports an error", RESET),
    136: Xid("the driver asks for a reset", RESET),
    140: Xid("memory error that was not recovered", RESET),
    143: Xid("the GPU could not be initialised", RESET),
    **{number: Xid("NVLink error of the fifth generation", LINK) for number in range(144, 151)},
    151: Xid("the GPU's keys could not be renewed", "restart the virtual machine"),
    154: Xid("the driver says what recovers the GPU", "do what the line in the kernel log says"),
    155: Xid("the driver asks for a reset", RESET),
    156: Xid("the driver asks for a reset", RESET),
    158: Xid("the driver asks for a reset", RESET),
}

_LINE = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})(?:\.\d)?\): (\d{1,4})\b")
_READ_ALL, _SIZE_BUFFER = 3, 10
Found = Tuple[str, int]
"""PCI address ("0000:1b:00") and XID."""


def told(xid: int) -> str:
    """An XID in words: number, meaning, action."""
    known = XIDS.get(xid)
    return "XID %d: %s; %s" % (xid, known.meaning, known.action) if known else "XID %d: %s" % (xid, INSPECT)


def of_the_application(xid: int) -> bool:
    """Whether the program is to be suspected first; an XID that the table does not have is the node's."""
    return xid in XIDS and XIDS[xid].application


def in_log(text: str) -> List[Found]:
    """Every XID of a kernel log, in order."""
    return [(address(found.group(1)), int(found.group(2))) for found in _LINE.finditer(text)]


def address(pci: str) -> str:
    """A PCI address without function and with a domain of four digits, as the kernel log writes it."""
    domain, bus, device = pci.lower().split(".")[0].split(":")
    return "%s:%s:%s" % (domain[-4:].rjust(4, "0"), bus, device)


def kernel_log() -> Optional[str]:
    """The kernel's ring buffer; None where this pod may not read it (kernel.dmesg_restrict, seccomp)."""
    read = getattr(ctypes.CDLL(None, use_errno=True), "klogctl", None)
    if read is None:
        return None
    size = int(read(_SIZE_BUFFER, None, 0))
    if size <= 0:
        return None
    text = ctypes.create_string_buffer(size)
    got = int(read(_READ_ALL, text, size))
    return None if got < 0 else text.raw[:got].decode("utf-8", "replace")
