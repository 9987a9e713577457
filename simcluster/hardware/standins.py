"""Installs what containers on GPU nodes find: nvidia-smi and the driver libraries.

Owns where they lie. It must not know pods.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from simcluster.hardware.build import build_into

_TOOL = Path(__file__).resolve().parent / "nvidia_smi.py"


def install_standins(directory: Path) -> None:
    """Fill `directory` with bin/ and lib/. Raises `CompilerMissingError` where nothing can build the libraries."""
    binaries, libraries = directory / "bin", directory / "lib"
    binaries.mkdir(parents=True)
    libraries.mkdir(parents=True)
    build_into(libraries)
    shutil.copyfile(_TOOL, libraries / "nvidia_smi.py")
    script = binaries / "nvidia-smi"
    # -I and -S: the tool must not depend on what the container's own Python has installed.
    script.write_text(
        f'#!/bin/sh\nexec {sys.executable} -I -S "$(dirname "$(readlink -f "$0")")/../lib/nvidia_smi.py" "$@"\n'
    )
    script.chmod(0o755)
