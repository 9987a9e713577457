"""What one node's mount of a file system can do, capability by capability: "works", or the error it gave.

Each probe does what a program would do and looks at the outcome with a fresh descriptor. It must not know which
capabilities anybody needs, and touches nothing outside the directory it is given.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from functools import partial
from typing import Callable, Dict, Tuple

WORKS = "works"
PAYLOAD = b"0123456789abcdef" * 256
_PAGE = 4096


class Differs(Exception):
    """The call succeeded and what it should have done is not there."""


def probe_all(directory: str, entries: int) -> Dict[str, str]:
    """Every capability by name; `entries` is the number of files of the large directory."""
    found = {}
    for name, probe in PROBES:
        found[name] = _outcome(probe, os.path.join(directory, name))
    found["large_directory"] = _outcome(partial(large_directory, entries=entries), os.path.join(directory, "large"))
    return found


def _outcome(probe: Callable[[str], None], place: str) -> str:
    try:
        os.makedirs(place, exist_ok=True)
        probe(place)
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0, "error")
        return "%s: %s" % (code, os.strerror(error.errno or 0))
    except Differs as error:
        return "differs: %s" % error
    return WORKS


def _write(path: str, data: bytes, flags: int = os.O_WRONLY | os.O_CREAT | os.O_TRUNC) -> None:
    descriptor = os.open(path, flags, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)


def _holds(path: str, wanted: bytes) -> None:
    try:
        with open(path, "rb") as file:
            found = file.read()
    except FileNotFoundError:
        raise Differs("the file is gone after a close that reported success") from None
    if len(found) != len(wanted):
        raise Differs("%d bytes are there, %d were written" % (len(found), len(wanted)))
    if found != wanted:
        raise Differs("other bytes are there than were written")


def create(place: str) -> None:
    """A new file, exclusively: a second creation must be refused."""
    path = os.path.join(place, "file")
    _write(path, PAYLOAD, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    _holds(path, PAYLOAD)
    try:
        _write(path, b"", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return
    raise Differs("an exclusive creation replaced a file that was there")


def append(place: str) -> None:
    """Writes at the end of what is there."""
    path = os.path.join(place, "file")
    _write(path, PAYLOAD)
    _write(path, b"more", os.O_WRONLY | os.O_APPEND)
    _holds(path, PAYLOAD + b"more")


def overwrite(place: str) -> None:
    """Bytes in the middle of a file, in place."""
    path = os.path.join(place, "file")
    _write(path, PAYLOAD)
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.pwrite(descriptor, b"XY", 10)
    finally:
        os.close(descriptor)
    _holds(path, PAYLOAD[:10] + b"XY" + PAYLOAD[12:])


def rename_over(place: str) -> None:
    """A complete file takes the place of another at once: how checkpoints and staged objects are published."""
    old, new = os.path.join(place, "file"), os.path.join(place, "file.new")
    _write(old, b"old")
    _write(new, PAYLOAD)
    os.rename(new, old)
    _holds(old, PAYLOAD)


def chmod(place: str) -> None:
    """Permission bits stay as they were set."""
    path = os.path.join(place, "file")
    _write(path, PAYLOAD)
    os.chmod(path, 0o600)
    mode = os.stat(path).st_mode & 0o777
    if mode != 0o600:
        raise Differs("mode %o after chmod 600" % mode)


def link(place: str) -> None:
    """A second name for one file."""
    first, second = os.path.join(place, "file"), os.path.join(place, "second")
    _write(first, PAYLOAD)
    os.link(first, second)
    _holds(second, PAYLOAD)


def symlink(place: str) -> None:
    """A name that points to another, as "latest" does."""
    _write(os.path.join(place, "file"), PAYLOAD)
    os.symlink("file", os.path.join(place, "latest"))
    _holds(os.path.join(place, "latest"), PAYLOAD)


def fsync(place: str) -> None:
    """File and directory can be made durable."""
    path = os.path.join(place, "file")
    _write(path, PAYLOAD)
    for name in (path, place):
        descriptor = os.open(name, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def memory_map(place: str) -> None:
    """A file as memory: what is stored through the map is what a reader gets."""
    path = os.path.join(place, "file")
    _write(path, PAYLOAD)
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), len(PAYLOAD)) as mapped:
        mapped[:4] = b"WXYZ"
        mapped.flush()
    _holds(path, b"WXYZ" + PAYLOAD[4:])


def flock(place: str) -> None:
    """A second open file of the same node is refused the lock that the first one holds."""
    _exclusive(place, lambda descriptor: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB), refused=True)


def byte_range_lock(place: str) -> None:
    """POSIX record locks can be taken (whether they exclude other nodes is asked between nodes)."""
    _exclusive(place, lambda descriptor: fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB), refused=False)


def _exclusive(place: str, lock: Callable[[int], None], refused: bool) -> None:
    path = os.path.join(place, "file")
    _write(path, b"")
    first, second = os.open(path, os.O_RDWR), os.open(path, os.O_RDWR)
    try:
        lock(first)
        try:
            lock(second)
        except BlockingIOError:
            return
        if refused:
            raise Differs("two open files hold the same exclusive lock")
    finally:
        os.close(first)
        os.close(second)


def direct_io(place: str) -> None:
    """O_DIRECT with an aligned buffer, past the page cache."""
    path = os.path.join(place, "file")
    with mmap.mmap(-1, _PAGE) as page:
        page[:] = PAYLOAD[:_PAGE]
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_DIRECT", 0), 0o644)
        try:
            os.write(descriptor, page)
        finally:
            os.close(descriptor)
    _holds(path, PAYLOAD[:_PAGE])


def large_directory(place: str, entries: int) -> None:
    """Every name of a directory with many files is listed, once."""
    names = {"entry-%06d" % number for number in range(entries)}
    for name in names:
        os.close(os.open(os.path.join(place, name), os.O_WRONLY | os.O_CREAT, 0o644))
    listed = os.listdir(place)
    for name in listed:
        os.unlink(os.path.join(place, name))
    if sorted(listed) != sorted(names):
        raise Differs("%d names are listed, %d files were made" % (len(listed), entries))


PROBES: Tuple[Tuple[str, Callable[[str], None]], ...] = (
    ("create", create),
    ("append", append),
    ("overwrite", overwrite),
    ("rename_over", rename_over),
    ("chmod", chmod),
    ("link", link),
    ("symlink", symlink),
    ("fsync", fsync),
    ("memory_map", memory_map),
    ("flock", flock),
    ("byte_range_lock", byte_range_lock),
    ("direct_io", direct_io),
)
