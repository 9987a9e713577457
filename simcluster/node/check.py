"""Whether this host can run a simulated cluster, and what to do where it cannot.

Owns the questions. It must not know the cluster's parts.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from simcluster.node import boot, syscalls
from simcluster.node.network import make_bridge


def problems() -> list[str]:
    """One sentence a problem; empty where all is well. Tries everything in a child process."""
    if sys.platform != "linux":
        return ["The simulated cluster needs Linux: on other systems run it in a Linux virtual machine or container."]
    found = []
    message = _in_child()
    if message:
        found.append(message)
    if shutil.which("cc") is None and not _has_ziglang():
        found.append("No C compiler (cc) and no ziglang package: install either, it builds the driver stand-ins.")
    return found


def _has_ziglang() -> bool:
    from importlib.util import find_spec  # noqa: PLC0415

    return find_spec("ziglang") is not None


def _in_child() -> str:
    scratch = Path(tempfile.mkdtemp(prefix="simcluster-check-"))
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        os.write(write_end, _try_all(scratch).encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(pid, 0)
    scratch.rmdir()
    return text


def _try_all(scratch: Path) -> str:
    try:
        boot.enter_namespaces()
        syscalls.mount("tmpfs", str(scratch), "tmpfs")
        for name in ("upper", "work", "merged"):
            (scratch / name).mkdir()
        layers = f"lowerdir=/usr,upperdir={scratch}/upper,workdir={scratch}/work"
        syscalls.mount("overlay", str(scratch / "merged"), "overlay", data=layers)
        make_bridge()
    except boot.NamespacesForbiddenError as error:
        return str(error)
    except OSError as error:
        return f"{error}: this kernel lacks overlayfs in user namespaces (Linux 5.11 or later) or bridges."
    return ""
