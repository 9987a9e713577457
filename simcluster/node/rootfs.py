"""A container's file system, assembled inside its own mount namespace, and the search for its program.

Owns which mounts make a root. It must not know pods: it gets paths and lists, and runs in a freshly forked child that
will exec, so it may change the process as it likes. Errors are `StartError` with the words of a real runtime.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simcluster.node import syscalls

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
_MASKED = ("/proc/sysrq-trigger", "/proc/kcore", "/proc/keys")


class StartError(Exception):
    """The container cannot start; the text is what a runtime would report."""


@dataclass(frozen=True)
class RootPlan:
    """What to assemble: `base` is an empty directory outside; `overlays` top-level host directories to show with a
    writable layer; `links` top-level symlinks; `binds` (source, target, read_only) in order of their targets' depth."""

    base: str
    overlays: Sequence[str]
    links: Mapping[str, str]
    binds: Sequence[tuple[str, str, bool]]
    scratch: str = "size=1g"


def enter(plan: RootPlan) -> None:
    """Make the root described by `plan` this process's root. Needs fresh mount and pid namespaces."""
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    syscalls.mount("tmpfs", plan.base, "tmpfs", syscalls.MS_NOSUID, plan.scratch + ",mode=755")
    root = f"{plan.base}/root"
    Path(root).mkdir()
    syscalls.bind(root, root)
    for directory in plan.overlays:
        _overlay(plan.base, root, directory)
    for name, target in plan.links.items():
        Path(f"{root}/{name}").symlink_to(target)
    for name, mode in (("tmp", 0o1777), ("run", 0o755), ("mnt", 0o755), ("var", 0o755), ("etc", 0o755)):
        _directory(f"{root}/{name}", mode)
    _directory(f"{root}/var/run", 0o755)
    _system_mounts(root)
    for source, target, read_only in plan.binds:
        _bind_volume(root, source, target, read_only)
    _switch(root)


def prepare_light(root: str, directories: Sequence[str], links: Mapping[str, str]) -> None:
    """Build, once and in the simulator's own mount namespace, the root that all light containers share."""
    Path(root).mkdir(parents=True, exist_ok=True)
    syscalls.mount("tmpfs", root, "tmpfs", syscalls.MS_NOSUID, "size=256m,mode=755")
    for directory in (*directories, "/proc", "/sys"):
        Path(root + directory).mkdir(parents=True)
        syscalls.bind(directory, root + directory, recursive=True)
    for name, target in links.items():
        Path(f"{root}/{name}").symlink_to(target)
    for name, mode in (("tmp", 0o1777), ("run", 0o755), ("mnt", 0o755), ("dev", 0o755)):
        _directory(f"{root}/{name}", mode)
    _devices(root)
    Path(f"{root}/dev/termination-log").touch()


def enter_light(root: str, binds: Sequence[tuple[str, str, bool]]) -> None:
    """Make the shared root this process's root, with this container's volumes in it. Needs a fresh mount namespace."""
    for source, target, read_only in binds:
        _bind_volume(root, source, target, read_only)
    os.chroot(root)
    os.chdir("/")


def _directory(path: str, mode: int) -> None:
    if not os.path.lexists(path):
        Path(path).mkdir(parents=True)
        Path(path).chmod(mode)


def _overlay(base: str, root: str, directory: str) -> None:
    name = directory.strip("/").replace("/", "_")
    upper, work, target = f"{base}/upper/{name}", f"{base}/work/{name}", f"{root}{directory}"
    for path in (upper, work, target):
        Path(path).mkdir(parents=True)
    Path(upper).chmod(stat.S_IMODE(Path(directory).stat().st_mode))
    syscalls.mount("overlay", target, "overlay", data=f"lowerdir={directory},upperdir={upper},workdir={work}")


def _system_mounts(root: str) -> None:
    for name in ("proc", "sys", "dev"):
        Path(f"{root}/{name}").mkdir()
    harmless = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
    syscalls.mount("proc", f"{root}/proc", "proc", harmless)
    _show_sys(f"{root}/sys", harmless)
    syscalls.mount("tmpfs", f"{root}/dev", "tmpfs", syscalls.MS_NOSUID, "size=64k,mode=755")
    _devices(root)
    Path(f"{root}/dev/pts").mkdir()
    syscalls.mount("devpts", f"{root}/dev/pts", "devpts", syscalls.MS_NOSUID, "newinstance,ptmxmode=0666,mode=620")
    for path in _MASKED:
        if Path(root + path).is_file():
            syscalls.bind("/dev/null", root + path)


def _devices(root: str) -> None:
    for name in _DEVICES:
        target = Path(f"{root}/dev/{name}")
        target.touch()
        syscalls.bind(f"/dev/{name}", str(target))
    for name, where in _DEVICE_LINKS.items():
        Path(f"{root}/dev/{name}").symlink_to(where)
    Path(f"{root}/dev/shm").mkdir()
    syscalls.mount("shm", f"{root}/dev/shm", "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "size=64m,mode=1777")


def _show_sys(target: str, harmless: int) -> None:
    try:
        syscalls.mount("sysfs", target, "sysfs", harmless | syscalls.MS_RDONLY)
    except OSError:
        # Some hosts cover parts of /sys, and the kernel then shows no fresh one; only a recursive bind is allowed.
        syscalls.bind("/sys", target, recursive=True)


def _bind_volume(root: str, source: str, target: str, read_only: bool) -> None:
    place = Path(inside(root, target))
    directory = Path(source).is_dir()
    try:
        try:
            _create(place, directory=directory)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            _make_room(root, place, directory=directory)
        syscalls.bind(source, str(place), read_only=read_only)
    except OSError as error:
        raise StartError(
            f'error during container init: error mounting "{source}" to rootfs at "{target}": {_words(error)}'
        ) from error


def _create(place: Path, *, directory: bool) -> None:
    if directory:
        place.mkdir(parents=True, exist_ok=True)
    elif not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()


def _make_room(root: str, place: Path, *, directory: bool) -> None:
    """Let a directory that takes no new entries (sysfs, or a foreign owner) show one more, by an overlay of it."""
    above = next(parent for parent in place.parents if parent.exists())
    layers = Path(tempfile.mkdtemp(dir=Path(root).parent, prefix="room-"))
    for name in ("extra", "upper", "work"):
        (layers / name).mkdir()
    mode = stat.S_IMODE(above.stat().st_mode)
    for name in ("extra", "upper"):
        (layers / name).chmod(mode)
    _create(layers / "extra" / place.relative_to(above), directory=directory)
    lower = f"lowerdir={layers}/extra:{above}"
    syscalls.mount("overlay", str(above), "overlay", data=f"{lower},upperdir={layers}/upper,workdir={layers}/work")


def inside(root: str, path: str) -> str:
    """The path on this side of a container path, its symlinks resolved as if `root` were the root already."""
    done: list[str] = []
    todo = [part for part in path.split("/") if part not in ("", ".")][::-1]
    hops = 0
    while todo:
        part = todo.pop()
        if part == "..":
            done = done[:-1]
            continue
        here = Path("/".join([root, *done, part]))
        if here.is_symlink():
            hops += 1
            if hops > 40:
                raise StartError(f"too many levels of symbolic links in {path}")
            link = str(here.readlink())
            if link.startswith("/"):
                done = []
            todo.extend([step for step in link.split("/") if step not in ("", ".")][::-1])
            continue
        done.append(part)
    return "/".join([root, *done])


def _switch(root: str) -> None:
    os.chdir(root)
    syscalls.pivot_root(".", ".")
    # After pivot_root(".", ".") the old root lies on top of the new one: taking it off leaves the new one.
    syscalls.unmount(".")
    os.chdir("/")


def _words(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def enter_directory(path: str) -> None:
    """chdir, creating the directory as a container runtime does."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
        os.chdir(path)
    except FileExistsError as error:
        raise StartError(f"error during container init: mkdir {path}: not a directory") from error
    except OSError as error:
        raise StartError(f"error during container init: mkdir {path}: {_words(error)}") from error


def find_program(name: str, search_path: str) -> str:
    """The program's path, or `StartError` with the words of a real runtime."""
    if "/" in name:
        if not os.path.lexists(name):
            raise StartError(f'exec: "{name}": stat {name}: no such file or directory')
        if not os.access(name, os.X_OK) or Path(name).is_dir():
            raise StartError(f'exec: "{name}": permission denied')
        return name
    for directory in search_path.split(":"):
        candidate = f"{directory or '.'}/{name}"
        if os.access(candidate, os.X_OK) and Path(candidate).is_file():
            return candidate
    raise StartError(f'exec: "{name}": executable file not found in $PATH')
