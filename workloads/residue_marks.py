"""The bytes that one pod of a run leaves behind and a later one looks for, and how places are written and searched.

Owns the mark, which is the run's own: what other people's programs left is not this run's to find. It must not know a
limit. What it writes on disk is gone with the pod, unless the place is one that outlives pods.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import List, Tuple

from workloads.contract import identity
from workloads.cuda_buffers import DeviceMemory
from workloads.cuda_driver import CudaError, Driver

MIB = 1 << 20
BLOCK_BYTES = 16 * MIB
OUT_OF_MEMORY = 2
FILE_NAME = "gpuproof-residue"


def mark(run_id: str = "") -> bytes:
    """32 bytes that only this run writes."""
    return hashlib.sha256(b"gpuproof residue " + (run_id or identity()["run_id"]).encode("utf-8")).digest()


def block(marked: bytes, size: int = BLOCK_BYTES) -> bytes:
    """`size` bytes that hold nothing but marks."""
    return (marked * (size // len(marked) + 1))[:size]


def fill_gpu(driver: Driver, gpu: int, mib: int, marked: bytes) -> Tuple[int, List[DeviceMemory]]:
    """Marks in `mib` MiB of the GPU's memory: bytes written, and the memory, which nobody gives back or clears."""
    driver.open(gpu)
    memory = []
    for start in range(0, mib * MIB, BLOCK_BYTES):
        size = min(BLOCK_BYTES, mib * MIB - start)
        memory.append(DeviceMemory(driver, size))
        memory[-1].write(block(marked, size))
    return sum(each.size for each in memory), memory


def search_gpu(driver: Driver, gpu: int, mib: int, marked: bytes) -> Tuple[int, int]:
    """(marks found, bytes searched) in up to `mib` MiB of the GPU's memory as it is handed out, without writing to it.

    All blocks are held until the end, so that each is another place. The search ends where the memory does.
    """
    driver.open(gpu)
    memory: List[DeviceMemory] = []
    found = searched = 0
    for start in range(0, mib * MIB, BLOCK_BYTES):
        size = min(BLOCK_BYTES, mib * MIB - start)
        try:
            memory.append(DeviceMemory(driver, size))
        except CudaError as error:
            if error.code == OUT_OF_MEMORY and memory:
                break
            raise
        found += memory[-1].read(0, size).count(marked)
        searched += size
    return found, searched


def fill_folder(folder: Path, mib: int, marked: bytes) -> int:
    """A file of `mib` MiB of marks, on the disk and not only in a cache; its size in bytes. Raises `OSError`."""
    with open(str(folder / FILE_NAME), "wb") as file:
        for start in range(0, mib * MIB, BLOCK_BYTES):
            file.write(block(marked, min(BLOCK_BYTES, mib * MIB - start)))
        file.flush()
        os.fsync(file.fileno())
        return file.tell()


def search_folder(folder: Path, marked: bytes) -> List[str]:
    """The files below a folder that hold a mark, by their paths in it. Raises `OSError` where it cannot be listed."""
    names = sorted(os.listdir(str(folder)))
    places = [place for name in names for place in _files(folder / name)]
    return [str(place.relative_to(folder)) for place in places if _holds(place, marked)]


def _files(place: Path) -> List[Path]:
    if place.is_symlink() or not place.is_dir():
        return [place] if place.is_file() and not place.is_symlink() else []
    return [found for found in sorted(place.rglob("*")) if found.is_file() and not found.is_symlink()]


def _holds(place: Path, marked: bytes) -> bool:
    try:
        with open(str(place), "rb") as file:
            before = b""
            while True:
                piece = file.read(BLOCK_BYTES)
                if marked in before + piece:
                    return True
                if not piece:
                    return False
                before = piece[-len(marked) :]
    except OSError:
        return False
