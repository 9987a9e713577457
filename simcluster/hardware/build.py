"""Compiles the driver stand-ins with the host's `cc`, or else PyPI's ziglang, once a version of the sources.

Owns the compiler call and the cache. It must not know what the libraries do.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

SOURCES = Path(__file__).resolve().parent / "native"
LIBRARIES = {"libcuda.so.1": "cuda.c", "libnvidia-ml.so.1": "nvml.c"}
VERBS = {"libibverbs.so.1": "verbs.c"}
KERNEL_LOG = {"libsimkernel.so": "kernel_log.c"}
STORAGE = {"libsimstorage.so": "storage.c"}


class CompilerMissingError(RuntimeError):
    """There is no C compiler; the text says which to install."""


def compiler() -> list[str]:
    """The command of a C compiler. Raises `CompilerMissingError`."""
    if shutil.which("cc"):
        return ["cc"]
    if find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise CompilerMissingError("no C compiler for the driver stand-ins: install `cc`, or `pip install ziglang`")


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")  # noqa: PTH111, PTH118
    digest = hashlib.sha256(os.uname().machine.encode())
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.read_bytes())
    return Path(home) / "gpuproof" / "standins" / digest.hexdigest()[:16]


def build_into(directory: Path, libraries: Mapping[str, str] = LIBRARIES) -> None:
    """Put the libraries into `directory`, from the cache where it can.

    Raises `CompilerMissingError`, `CalledProcessError`."""
    cache = _cache()
    for library, source in libraries.items():
        cached = cache / library
        if cached.is_file():
            shutil.copyfile(cached, directory / library)
            continue
        target = directory / library
        command = [
            *compiler(),
            "-shared",
            "-fPIC",
            "-O1",
            "-o",
            str(target),
            str(SOURCES / source),
            "-lpthread",
            "-ldl",
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        _remember(target, cached)


def _remember(built: Path, cached: Path) -> None:
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=cached.parent, delete=False) as copy:
            copy.write(built.read_bytes())
        Path(copy.name).rename(cached)
    except OSError:
        # A cache that cannot be written only costs the next start a tenth of a second.
        return
