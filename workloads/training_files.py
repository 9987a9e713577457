"""The files of a checkpoint's folder: its name, the marker that is written last, and what describes a file.

It must not know who writes, or what is in the files. Python 3.9 syntax; standard library.
"""

from __future__ import annotations

import binascii
import json
import os
from typing import Any, Dict, List, Tuple

MARKER = "COMPLETE"
NO_MARKER = "no marker: the save did not end"
_CHUNK = 1 << 24


def name_of(step: int) -> str:
    """The folder of a step's checkpoint."""
    return "step-%08d" % step


def steps_in(folder: str) -> List[int]:
    """The steps for which there is a folder, complete or not."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return [int(name[5:]) for name in names if name.startswith("step-") and name[5:].isdigit()]


def read_marker(path: str) -> Tuple[Dict[str, Tuple[int, str]], str]:
    """(file name to size and checksum, why there is none: "" where there is one)."""
    marked, why = _marked(path)
    return {str(name): (int(size), str(sum_)) for name, (size, sum_) in marked.get("files", {}).items()}, why


def writer_of(path: str) -> str:
    """Who marked it; "" where nobody did."""
    return str(_marked(path)[0].get("by", ""))


def _marked(path: str) -> Tuple[Dict[str, Any], str]:
    try:
        with open(os.path.join(path, MARKER), encoding="utf-8") as file:
            checksum, _, text = file.read().partition(" ")
    except OSError:
        return {}, NO_MARKER
    if "%08x" % binascii.crc32(text.encode("utf-8")) != checksum:
        return {}, "the marker is damaged"
    return dict(json.loads(text)), ""


def write_marker(path: str, text: str) -> None:
    """Last of all, at once and for good: what is read is the whole marker or none."""
    half = os.path.join(path, MARKER + ".new")
    with open(half, "w", encoding="utf-8") as file:
        file.write("%08x %s" % (binascii.crc32(text.encode("utf-8")), text))
        file.flush()
        os.fsync(file.fileno())
    os.rename(half, os.path.join(path, MARKER))
    for folder in (path, os.path.dirname(path)):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def described(file: str) -> Tuple[int, str]:
    """Size in bytes and CRC-32 of a file's content."""
    checksum, size = 0, 0
    with open(file, "rb") as content:
        while True:
            piece = content.read(_CHUNK)
            if not piece:
                return size, "%08x" % checksum
            checksum, size = binascii.crc32(piece, checksum), size + len(piece)
