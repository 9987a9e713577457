"""Re-execution inside fresh namespaces, so that the kernel removes every process, mount and network with the simulator.

Owns the two processes' parts: `outside` unshares, forks and waits; `inside` makes the new namespaces usable. It must
not know what the simulator does in there. Root and an unprivileged user take the same way.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from simcluster.node import syscalls

_MARK = "SIMCLUSTER_INSIDE"
_ALL = (
    syscalls.CLONE_NEWUSER
    | syscalls.CLONE_NEWNET
    | syscalls.CLONE_NEWNS
    | syscalls.CLONE_NEWPID
    | syscalls.CLONE_NEWUTS
    | syscalls.CLONE_NEWIPC
)

WAY_OUT = (
    "This host does not let an unprivileged process create user namespaces, which the simulated cluster needs to "
    "isolate its pods. Ways out: `sysctl -w user.max_user_namespaces=15000`; on Debian kernels `sysctl -w "
    "kernel.unprivileged_userns_clone=1`; on Ubuntu 24.04 and later `sysctl -w "
    "kernel.apparmor_restrict_unprivileged_userns=0`; in a container, start it with `--security-opt seccomp=unconfined "
    "--security-opt apparmor=unconfined` (Docker) or use a virtual machine."
)


class NamespacesForbiddenError(Exception):
    """The host refuses the namespaces; the text says what to do."""


@dataclass(frozen=True)
class Inside:
    """What the re-executed simulator was handed: descriptors of listening sockets, the read end of a pipe whose end of
    file says that the parent is gone, and the parent's pid as its own users see it."""

    sockets: Sequence[int]
    parent: int
    parent_pid: int


def inherited(environment: Mapping[str, str]) -> Inside | None:
    """What the parent handed over, or None in the process that a person started."""
    mark = environment.get(_MARK)
    if not mark:
        return None
    numbers = [int(number) for number in mark.split(",")]
    return Inside(numbers[2:], numbers[0], numbers[1])


def outside(arguments: Sequence[str], sockets: Sequence[int], own_directory: Path | None) -> int:
    """Unshare, re-execute `python -m simcluster <arguments>` inside, wait, forward signals; its exit code.

    `own_directory`, where given, is removed afterwards. Raises `NamespacesForbiddenError`.
    """
    own_pid = os.getpid()
    enter_namespaces()
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(write_end)
        _become_inside(arguments, sockets, read_end, own_pid)
    os.close(read_end)

    def forward(number: int, frame: FrameType | None) -> None:
        del frame
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, forward)
    _, status = os.waitpid(pid, 0)
    if own_directory is not None:
        shutil.rmtree(own_directory, ignore_errors=True)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def enter_namespaces() -> None:
    """Move this (single-threaded) process into new namespaces as their root. Raises `NamespacesForbiddenError`."""
    uid, gid = os.geteuid(), os.getegid()
    try:
        syscalls.unshare(_ALL)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
        syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    except OSError as error:
        raise NamespacesForbiddenError(f"{error.strerror}. {WAY_OUT}") from error


def _become_inside(arguments: Sequence[str], sockets: Sequence[int], parent: int, own_pid: int) -> None:
    syscalls.die_with_parent()
    # Mounts of its own: the parent still has to remove directories that must not be busy for it.
    syscalls.unshare(syscalls.CLONE_NEWNS)
    for descriptor in (parent, *sockets):
        os.set_inheritable(descriptor, True)
    environment = {**os.environ, _MARK: ",".join(str(number) for number in (parent, own_pid, *sockets))}
    package_root = str(Path(__file__).resolve().parents[2])
    environment["PYTHONPATH"] = os.pathsep.join(
        part for part in (package_root, os.environ.get("PYTHONPATH", "")) if part
    )
    os.execve(sys.executable, [sys.executable, "-m", "simcluster", *arguments], environment)


def inside(scratch: Path) -> None:
    """Make the namespaces usable: a /proc of our own and a tmpfs at `scratch`. Raises `NamespacesForbiddenError`."""
    syscalls.die_with_parent()
    os.environ.pop(_MARK, None)
    try:
        syscalls.mount("proc", "/proc", "proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)
        scratch.mkdir(parents=True, exist_ok=True)
        syscalls.mount("tmpfs", str(scratch), "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")
    except OSError as error:
        raise NamespacesForbiddenError(f"{error}. {WAY_OUT}") from error
