"""Installs what containers on nodes with hardware find: vendors' tools and the driver libraries.

Owns where they lie. It must not know pods. Containers see `shim` as /opt/simcluster.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from simcluster.hardware.build import KERNEL_LOG, STORAGE, VERBS, build_into

_PACKAGE = Path(__file__).resolve().parents[1]
_MODULES = "/opt/simcluster/modules"
GPU_TOOLS = {"nvidia-smi": "nvidia_smi:main", "dcgm-exporter": "dcgm_exporter:main"}
MONITORING_TOOLS = {"prometheus": "prometheus_server:main"}
RDMA_TOOLS = {
    "ibv_devinfo": "ibv_devinfo:main",
    "ibv_devices": "ibv_devinfo:main_devices",
    "ibstat": "ibstat:main",
    "show_gids": "show_gids:main",
    "ib_write_bw": "ib_write_bw:main",
}


def install_standins(shim: Path, rdma: Path) -> None:
    """Fill `shim` with modules/, lib/, gpu/ and monitoring/, and `rdma` with bin/ and lib/, mounted for some.

    Raises `CompilerMissingError` where nothing can build the libraries.
    """
    tools = shim / "modules" / "simcluster" / "hardware" / "tools"
    tools.parent.mkdir(parents=True)
    for package in ("", "hardware"):
        (shim / "modules" / "simcluster" / package / "__init__.py").touch()
    shutil.copytree(_PACKAGE / "hardware" / "tools", tools, ignore=shutil.ignore_patterns("__pycache__"))
    libraries = shim / "gpu" / "lib"
    libraries.mkdir(parents=True)
    build_into(libraries)
    (shim / "lib").mkdir()
    build_into(shim / "lib", {**STORAGE, **KERNEL_LOG})
    _write_tools(shim / "gpu" / "bin", GPU_TOOLS)
    _write_tools(shim / "monitoring", MONITORING_TOOLS)
    _write_tools(rdma / "bin", RDMA_TOOLS)
    (rdma / "lib").mkdir()
    build_into(rdma / "lib", VERBS)
    (shim / "rdma").mkdir()


def _write_tools(directory: Path, tools: dict[str, str]) -> None:
    directory.mkdir(parents=True)
    for name, target in tools.items():
        module, _, function = target.partition(":")
        # -I and -S: a tool must not depend on what the container's own Python has installed.
        program = (
            f"import sys; sys.path.insert(0, '{_MODULES}'); sys.dont_write_bytecode = True; sys.argv[0] = '{name}'; "
            f"from simcluster.hardware.tools.{module} import {function}; sys.exit({function}())"
        )
        script = directory / name
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S -c "{program}" "$@"\n')
        script.chmod(0o755)
