"""What containers find on a simulated node: which host directories, which tools, which interpreter.

Owns the choice of host directories and the files under /opt/simcluster. It must not know pods.
"""

from __future__ import annotations

import sys
from pathlib import Path

from simcluster.node.rootfs import RootPlan

_STANDARD = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "var", "opt", "srv")
_SEARCH_PATH = "/opt/simcluster/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def interpreter_homes() -> list[Path]:
    """Directories that the interpreter of the simulator needs in order to run."""
    return sorted({Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve(), Path(sys.executable).resolve().parent})


def root_plan(base: Path) -> RootPlan:
    """The root of every container: standard directories and the interpreter's, each with a writable layer."""
    base.mkdir(parents=True, exist_ok=True)
    overlays, links = [], {}
    for name in _STANDARD:
        place = Path("/") / name
        if place.is_symlink():
            links[name] = str(place.readlink())
        elif place.is_dir():
            overlays.append(str(place))
    binds = []
    for home in interpreter_homes():
        top = f"/{home.parts[1]}"
        if top in overlays:
            continue
        if top in ("/tmp", "/run", "/dev", "/mnt"):
            binds.append((str(home), str(home), True))
        else:
            overlays.append(top)
    return RootPlan(str(base), overlays, links, binds)


def make_shim(directory: Path) -> None:
    """Fill the directory that containers see as /opt/simcluster."""
    binaries = directory / "bin"
    binaries.mkdir(parents=True)
    for name in ("python3", "python"):
        script = binaries / name
        script.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        script.chmod(0o755)


def base_environment(api_host: str, api_port: int) -> dict[str, str]:
    """Variables that every container has."""
    return {
        "PATH": _SEARCH_PATH,
        "HOME": "/root",
        "KUBERNETES_SERVICE_HOST": api_host,
        "KUBERNETES_SERVICE_PORT": str(api_port),
        "KUBERNETES_PORT": f"tcp://{api_host}:{api_port}",
        "KUBERNETES_SERVICE_PORT_HTTPS": str(api_port),
    }
