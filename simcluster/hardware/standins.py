"""Installs what containers on GPU nodes find: nvidia-smi and the driver libraries.

Owns where they lie and how they are built. It must not know pods.
"""

from __future__ import annotations

from pathlib import Path


def install_standins(directory: Path) -> None:
    """Fill `directory` with bin/ and lib/."""
    (directory / "bin").mkdir(parents=True)
    (directory / "lib").mkdir(parents=True)
