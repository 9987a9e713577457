"""Which CUDA and NCCL an image carries, read from what lies in it: nothing is imported or initialised for it.

Owns the places where images keep this. It must not know a GPU or a limit; NONE is an image that has no such thing.
"""

from __future__ import annotations

import ast
import ctypes
import importlib.util
import os
import re
import sys
from pathlib import Path
from typing import List, Optional

NONE = "none"
_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+)+")


def cuda_of_image() -> str:
    """The CUDA version that torch was built for; without such a torch what the image says of itself (CUDA_VERSION)."""
    said = cuda_of_torch() or os.environ.get("CUDA_VERSION", "")
    match = _NUMBERS.match(said)
    return match.group() if match else NONE


def cuda_of_torch() -> Optional[str]:
    """`torch.version.cuda`, read from its file: importing torch would cost seconds of every pod."""
    spec = importlib.util.find_spec("torch")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        value = assigned(Path(folder) / "version.py", "cuda")
        if value:
            return value
    return None


def assigned(path: Path, name: str) -> Optional[str]:
    """The text that a Python file assigns to `name`; None where it assigns none, or cannot be read."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
    for item in tree.body:
        if isinstance(item, ast.Assign):
            targets, value = item.targets, item.value
        elif isinstance(item, ast.AnnAssign) and item.value is not None:
            targets, value = [item.target], item.value
        else:
            continue
        if any(isinstance(t, ast.Name) and t.id == name for t in targets) and isinstance(value, ast.Constant):
            return value.value if isinstance(value.value, str) else None
    return None


def nccl_of_image() -> str:
    """The version of the NCCL library that a program of this image would load."""
    for place in nccl_places():
        try:
            library = ctypes.CDLL(place)
            number = ctypes.c_int()
            if library.ncclGetVersion(ctypes.byref(number)) == 0:
                return nccl_version(number.value)
        except (OSError, AttributeError):
            continue
    return NONE


def nccl_places() -> List[str]:
    """Where the library may be: with torch's own packages first, as torch loads it, then wherever the loader looks."""
    bundled = [Path(folder, "nvidia", "nccl", "lib", "libnccl.so.2") for folder in sys.path]
    return [str(place) for place in bundled if place.is_file()] + ["libnccl.so.2"]


def nccl_version(number: int) -> str:
    """NCCL's own number as words: 22705 is 2.27.5, and before 2.9 it was 2804 for 2.8.4 (nccl.h, NCCL_VERSION)."""
    factor = 1000 if number < 10000 else 10000
    return "%d.%d.%d" % (number // factor, number % factor // 100, number % 100)
