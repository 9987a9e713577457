"""CUDA's error codes in words: what each means on a cluster, and where to look first. Knows no limit and calls nothing.

Numbers are those of CUresult and cudaError_t (the CUDA driver and runtime API references); causes are those that
operators report most often beside them.
"""

from __future__ import annotations

import re
from typing import Optional

MEANINGS = {
    2: "out of memory: something else holds the device's memory; look for processes that outlived their pod",
    35: "the driver is older than the image's CUDA runtime needs: update the driver, or use an image of an older CUDA",
    46: "the device is busy or unavailable: exclusive compute mode, or a process that outlived its pod holds it",
    100: "no device in this container: the runtime hook did not inject one, or the device plugin granted none",
    214: "uncorrectable ECC error: the GPU's memory is damaged; drain the node, reset the GPU, look at its row remaps",
    217: "the two devices cannot reach each other: PCI ACS or IOMMU between them, or no NVLink where one is expected",
    700: "a kernel touched memory that is not its own: the program is wrong, or, if it is known good, the GPU",
    719: "a kernel failed on the device: look for an XID of this GPU in the kernel log",
    802: "system not yet initialised: the NVSwitch fabric is not up: does fabric manager run, in the driver's version?",
    803: "user-space libraries and kernel driver are of different versions: reboot after the driver's upgrade, or "
    "an image that brings its own libcuda",
    804: "forward compatibility is refused on this product: the image's compat libcuda shadows the host's; "
    "the driver must be new enough for the image's CUDA",
    999: "unknown error: often the container has lost access to its device files (cgroup rewritten by systemd), or the "
    "GPU has fallen off the bus; look for XID 79",
}
"""What to make of a code, by its number."""

_PHRASES = (
    ("driver version is insufficient", 35),
    ("driver on your system is too old", 35),
    ("no cuda-capable device", 100),
    ("system not yet initialized", 802),
    ("unsupported display driver / cuda driver combination", 803),
    ("forward compatibility was attempted", 804),
    ("uncorrectable ecc", 214),
    ("out of memory", 2),
    ("unknown error", 999),
)
_NUMBERED = re.compile(r"\b[Ee]rror (\d{1,3}):")


def meaning(code: int) -> Optional[str]:
    """What a code means on a cluster; None for one that this table does not have."""
    return MEANINGS.get(code)


def explained(text: str, code: int) -> str:
    """An error with its meaning behind it, where there is one."""
    words = MEANINGS.get(code)
    return "%s (%s)" % (text, words) if words else text


def code_in(text: str) -> int:
    """The code that a framework's message speaks of ("Error 802: …", or the runtime's own words); 0 where none."""
    numbered = _NUMBERED.search(text)
    if numbered:
        return int(numbered.group(1))
    low = text.lower()
    return next((code for phrase, code in _PHRASES if phrase in low), 0)
