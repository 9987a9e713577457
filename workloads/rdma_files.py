"""The character devices by which a container opens RDMA adapters; must not know libibverbs."""

from __future__ import annotations

import os
import resource
from typing import List

DEVICES = "/dev/infiniband"
VERBS = "uverbs"


def present(root: str = DEVICES) -> List[str]:
    """Every device file there is."""
    try:
        return sorted(os.listdir(root))
    except OSError:
        return []


def openable(root: str = DEVICES) -> List[str]:
    """The files of adapters that this process may open."""
    return [name for name in present(root) if name.startswith(VERBS) and _opens(os.path.join(root, name))]


def _opens(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def memlock() -> str:
    """How much memory a process may pin, in words."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return "unlimited" if soft == resource.RLIM_INFINITY else "%d KiB" % (soft // 1024)
