"""The small process that forks every container: `python -m simcluster.node.zygote FD`.

It owns processes and namespaces and nothing else; it must not know the API, pods or volumes. It stays small and
single-threaded, so that a fork costs a millisecond and namespaces can be entered.

Requests are JSON lines on the socket FD, descriptors travel with their first byte; answers are JSON lines:
`{"id", "pid"}` or `{"id", "error"}`, and `{"exit": pid, "code": N}` for each container that ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import selectors
import signal
import socket
import sys
import termios
from collections.abc import Callable, Sequence
from typing import Any

from simcluster.node import syscalls
from simcluster.node.netlink import Netlink
from simcluster.node.rootfs import (
    RootPlan,
    StartError,
    enter,
    enter_directory,
    enter_light,
    find_program,
    prepare_light,
)
from simcluster.node.shaping import Shaper

Request = dict[str, Any]

_SANDBOX_KINDS = (("net", syscalls.CLONE_NEWNET), ("uts", syscalls.CLONE_NEWUTS), ("ipc", syscalls.CLONE_NEWIPC))
_EXEC_KINDS = (*_SANDBOX_KINDS, ("mnt", syscalls.CLONE_NEWNS))


class Zygote:
    """The loop: requests in, children out, exits back."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._selector = selectors.DefaultSelector()
        self._buffer = b""
        self._descriptors: list[int] = []
        self._sandboxes: dict[str, list[int]] = {}
        self._pauses: dict[str, int] = {}
        self._starting: dict[int, tuple[Request, int]] = {}
        self._running: dict[int, bool] = {}
        self._own_pid_ns = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)

    def run(self) -> None:
        """Serve until the other side closes the socket."""
        signal.set_wakeup_fd(self._wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(self._control, selectors.EVENT_READ, self._on_request)
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._on_child)
        while True:
            for key, _ in self._selector.select():
                handler: Callable[[], bool] = key.data
                if not handler():
                    return

    def _answer(self, message: dict[str, Any]) -> None:
        self._control.sendall(json.dumps(message).encode() + b"\n")

    def _on_request(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._control, 1 << 16, 16, socket.MSG_CMSG_CLOEXEC)
        if not data:
            return False
        self._descriptors.extend(descriptors)
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            request: Request = json.loads(line)
            count = request.get("descriptors", 0)
            taken, self._descriptors = self._descriptors[:count], self._descriptors[count:]
            try:
                self._serve(request, taken)
            except OSError as error:
                self._answer({"id": request["id"], "error": str(error)})
            for descriptor in taken:
                os.close(descriptor)
        return True

    def _serve(self, request: Request, descriptors: list[int]) -> None:
        kind = request["op"]
        if kind == "start":
            self._spawn(request, descriptors, self._child_of_start)
        elif kind == "exec":
            self._spawn(request, descriptors, self._child_of_exec)
        elif kind == "sandbox":
            self._sandbox(request)
        elif kind == "kill":
            self._kill(request["pid"], request["signal"])
        elif kind == "light-root":
            prepare_light(request["root"], request["directories"], request["links"])
            self._answer({"id": request["id"], "pid": 0})
        elif kind == "release":
            for descriptor in self._sandboxes.pop(request["sandbox"], []):
                os.close(descriptor)
            if pause := self._pauses.pop(request["sandbox"], 0):
                os.kill(pause, signal.SIGKILL)

    def _kill(self, pid: int, number: int) -> None:
        if pid not in self._running and pid not in self._starting:
            return
        with contextlib.suppress(ProcessLookupError):
            if self._running.get(pid, False) and number == signal.SIGKILL:
                os.killpg(pid, number)
            os.kill(pid, number)

    def _sandbox(self, request: Request) -> None:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            _in_child(lambda: _make_sandbox(request, theirs), theirs.fileno())
        theirs.close()
        # Making a sandbox takes a millisecond or two, and containers wait for it anyway.
        answer, descriptors, _, _ = socket.recv_fds(ours, 65536, 3, socket.MSG_CMSG_CLOEXEC)
        ours.close()
        if len(descriptors) == len(_SANDBOX_KINDS):
            self._sandboxes[request["sandbox"]] = descriptors
            self._answer({"id": request["id"], "pid": 0})
        else:
            self._answer({"id": request["id"], "error": answer.decode(errors="replace")})

    def _spawn(self, request: Request, descriptors: list[int], child: Callable[[Request, list[int]], None]) -> None:
        read_end, write_end = os.pipe()
        enters = "enter" in request and not request.get("light")
        isolated = bool(request.get("sandbox")) or enters
        host = request["enter"] if enters else self._pause_of(request) if request.get("share_pids") else 0
        if host:
            with open(f"/proc/{host}/ns/pid", "rb") as space:  # noqa: PTH123 - a namespace, not a file
                syscalls.setns(space.fileno(), syscalls.CLONE_NEWPID)
        elif isolated:
            syscalls.unshare(syscalls.CLONE_NEWPID)
        try:
            pid = os.fork()
            if pid == 0:
                _in_child(lambda: child(request, descriptors), write_end)
        finally:
            if isolated:
                syscalls.setns(self._own_pid_ns, syscalls.CLONE_NEWPID)
        os.close(write_end)
        self._starting[pid] = (request, read_end)
        # Where the process is not the first of its pid namespace, its children do not end with it by themselves.
        self._running[pid] = not isolated or bool(request.get("share_pids"))
        self._selector.register(read_end, selectors.EVENT_READ, lambda: self._on_started(pid))

    def _pause_of(self, request: Request) -> int:
        """The first process of the pid namespace that all containers of a pod share."""
        pause = self._pauses.get(request["sandbox"], 0)
        if not pause:
            syscalls.unshare(syscalls.CLONE_NEWPID)
            try:
                pause = os.fork()
                if pause == 0:
                    _in_child(_pause, 2)
            finally:
                syscalls.setns(self._own_pid_ns, syscalls.CLONE_NEWPID)
            self._pauses[request["sandbox"]] = pause
        return pause

    def _on_started(self, pid: int) -> bool:
        if pid in self._starting:
            request, read_end = self._starting.pop(pid)
            error = b""
            while piece := os.read(read_end, 65536):
                error += piece
            self._selector.unregister(read_end)
            os.close(read_end)
            answer = {"id": request["id"], "error": error.decode(errors="replace")} if error else None
            self._answer(answer or {"id": request["id"], "pid": pid})
            if error:
                self._running.pop(pid, None)
        return True

    def _on_child(self) -> bool:
        os.read(self._wake_read, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return True
            self._on_started(pid)
            if pid in self._running:
                if self._running.pop(pid):
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.killpg(pid, signal.SIGKILL)
                code = os.waitstatus_to_exitcode(status)
                self._answer({"exit": pid, "code": code if code >= 0 else 128 - code})

    def _child_of_start(self, request: Request, descriptors: list[int]) -> None:
        if request.get("sandbox"):
            for descriptor, (_, kind) in zip(self._sandboxes[request["sandbox"]], _SANDBOX_KINDS, strict=True):
                syscalls.setns(descriptor, kind)
            syscalls.unshare(syscalls.CLONE_NEWNS)
            os.umask(0o022)
            plan = request["root"]
            enter(RootPlan(plan["base"], plan["overlays"], plan["links"], [tuple(bind) for bind in plan["binds"]]))
        elif request.get("light"):
            syscalls.unshare(syscalls.CLONE_NEWNS)
            os.umask(0o022)
            enter_light(request["light"], [tuple(bind) for bind in request["root"]["binds"]])
        _become(request, descriptors)

    def _child_of_exec(self, request: Request, descriptors: list[int]) -> None:
        kinds = _EXEC_KINDS[-1:] if request.get("light") else _EXEC_KINDS
        _enter_container(request["enter"], kinds, request.get("light", ""))
        _become(request, descriptors)


def _pause() -> None:
    """Adopt and bury what the containers leave behind; never returns, and as pid 1 takes no signal from them."""
    syscalls.die_with_parent()
    os.closerange(3, 4096)  # a log ends only when nobody holds its pipe any more
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries them
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    while True:
        signal.pause()


def _enter_container(pid: int, kinds: Sequence[tuple[str, int]], light_root: str) -> None:
    spaces = [(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), kind) for name, kind in kinds]
    for descriptor, kind in spaces:
        syscalls.setns(descriptor, kind)
    if light_root:
        os.chroot(light_root)


def _make_sandbox(request: Request, channel: socket.socket) -> None:
    outside = Netlink()
    bridge = socket.if_nametoindex(request["bridge"]) if request.get("address") else 0
    more = [(each, socket.if_nametoindex(each["bridge"])) for each in request.get("interfaces") or []]
    syscalls.unshare(syscalls.CLONE_NEWNET | syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWIPC)
    syscalls.sethostname(request["hostname"])
    inside = Netlink()
    inside.set_up(1)
    if request.get("address"):
        outside.add_veth(request["link"], bridge, "eth0", os.getpid())
        index = socket.if_nametoindex("eth0")
        inside.add_address(index, request["address"])
        inside.set_up(index)
        inside.add_default_route(request["gateway"])
    for each, master in more:
        _add_interface(outside, each, master)
    spaces = [os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name, _ in _SANDBOX_KINDS]
    socket.send_fds(channel, [b"ok"], spaces)
    os._exit(0)


def _add_interface(outside: Netlink, wanted: dict[str, Any], master: int) -> None:
    outside.add_veth(wanted["link"], master, wanted["name"], os.getpid())
    index = socket.if_nametoindex(wanted["name"])
    inside = Shaper()
    inside.add_address(index, wanted["address"])
    inside.set_up(index)
    inside.limit(index, wanted["mbit"])


def _become(request: Request, descriptors: list[int]) -> None:
    """Turn into the container's program: never returns."""
    os.setsid()
    if request.get("tty"):
        fcntl.ioctl(descriptors[0], termios.TIOCSCTTY, 0)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number, inheritable=True)
    enter_directory(request["cwd"])
    environment: dict[str, str] = request["env"]
    program = find_program(request["argv"][0], environment.get("PATH", os.defpath))
    for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(program, request["argv"], environment)
    except OSError as error:
        raise StartError(f'exec: "{request["argv"][0]}": {(error.strerror or "").lower()}') from error


def _in_child(work: Callable[[], None], report: int) -> None:
    """Run `work`, which execs; where it fails, report why on the descriptor. Never returns."""
    try:
        signal.set_wakeup_fd(-1)
        work()
    except (OSError, StartError, KeyError, ValueError) as error:
        os.write(report, str(error).encode() or b"unknown failure")
    finally:
        os._exit(127)


def main() -> None:
    """Serve on the inherited socket whose descriptor is the first argument."""
    syscalls.die_with_parent()
    syscalls.adopt_orphans()
    gc.freeze()
    Zygote(socket.socket(fileno=int(sys.argv[1]))).run()


if __name__ == "__main__":
    main()
