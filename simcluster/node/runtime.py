"""The simulator's side of the zygote: start, kill and enter containers without blocking the event loop.

Owns the conversation with `zygote.py` and the futures of running processes. It must not know the Kubernetes API.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from simcluster.node.rootfs import RootPlan

_PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])
BRIDGE = "sim0"
GATEWAY = "10.244.0.1"


class LaunchError(Exception):
    """A sandbox or container could not be started; the text says why, as a runtime would."""


@dataclass(frozen=True)
class Process:
    """A started process: its pid in the simulator's pid namespace and its exit code to come (128 + signal)."""

    pid: int
    exited: asyncio.Future[int]


@dataclass(frozen=True)
class Launch:
    """What to run, in which root. `sandbox` is None for a light container, which shares the simulator's own pid and
    network namespaces and, but for its volumes, one root with all light containers."""

    argv: Sequence[str]
    env: Mapping[str, str]
    root: RootPlan
    cwd: str = "/"
    sandbox: str | None = None
    share_pids: bool = False
    """All containers of the sandbox see each other's processes."""
    tty: bool = False


class Runtime:
    """One zygote and what it has started."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._socket: socket.socket | None = None
        self._reader: asyncio.Task[None] | None = None
        self._sending = asyncio.Lock()
        self._answers: dict[int, asyncio.Future[Process]] = {}
        self._exits: dict[int, asyncio.Future[int]] = {}
        self._sequence = 0
        self._network = False
        self._light_root = ""

    async def prepare_light(self, root: str, plan: RootPlan) -> None:
        """Build the root that light containers share at the directory `root`."""
        await self._ask(
            {"op": "light-root", "root": root, "directories": list(plan.overlays), "links": dict(plan.links)}
        )
        self._light_root = root

    async def start(self, *, network: bool) -> None:
        """Start the zygote; with `network`, a bridge must exist (`network.py`) and sandboxes get an eth0."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "simcluster.node.zygote",
                str(theirs.fileno()),
                pass_fds=[theirs.fileno()],
                stdin=asyncio.subprocess.DEVNULL,
                env={"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": _PACKAGE_ROOT},
            )
        self._socket = ours
        self._network = network
        self._reader = asyncio.create_task(self._read(), name="runtime-answers")

    async def stop(self) -> None:
        """End the zygote; whatever still runs ends with the simulator's pid namespace."""
        if self._socket is not None:
            self._socket.close()
        if self._reader is not None:
            self._reader.cancel()
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    async def create_sandbox(
        self,
        sandbox: str,
        hostname: str,
        address: str | None,
        number: int,
        *,
        bridge: str = "",
        interfaces: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Make the pod's network, uts and ipc namespaces; `address` is IPv4 with prefix length, `bridge` its node's.

        `interfaces` come besides eth0: name, link (the name outside), bridge, address, mbit.
        """
        await self._ask(
            {
                "op": "sandbox",
                "sandbox": sandbox,
                "hostname": hostname[:63],
                "address": address if self._network else None,
                "link": f"veth{number}",
                "bridge": bridge or BRIDGE,
                "gateway": GATEWAY,
                "interfaces": list(interfaces) if self._network else [],
            }
        )

    async def release_sandbox(self, sandbox: str) -> None:
        """Let go of the pod's namespaces; the kernel removes them with the last process in them."""
        await self._send({"op": "release", "sandbox": sandbox, "id": 0})

    async def launch(self, launch: Launch, descriptors: Sequence[int]) -> Process:
        """Start a container with these descriptors as stdin, stdout, stderr (they stay open here).

        Raises `LaunchError` with the runtime's words where it cannot start.
        """
        request: dict[str, Any] = {"op": "start", "argv": list(launch.argv), "env": dict(launch.env), "cwd": launch.cwd}
        request["root"] = asdict(launch.root)
        if launch.share_pids and launch.sandbox is not None:
            request["share_pids"] = True
        request |= {"sandbox": launch.sandbox} if launch.sandbox is not None else {"light": self._light_root}
        return await self._spawn(request, descriptors)

    async def enter(self, container: Process, launch: Launch, descriptors: Sequence[int]) -> Process:
        """Run another program inside a running container (its namespaces, where it has any)."""
        request: dict[str, Any] = {"op": "exec", "argv": list(launch.argv), "env": dict(launch.env), "cwd": launch.cwd}
        request |= {"tty": launch.tty, "enter": container.pid}
        if launch.sandbox is None:
            request["light"] = self._light_root
        return await self._spawn(request, descriptors)

    async def kill(self, process: Process, number: int = signal.SIGKILL) -> None:
        """Send a signal to the container's first process."""
        if not process.exited.done():
            await self._send({"op": "kill", "pid": process.pid, "signal": int(number), "id": 0})

    async def _spawn(self, request: dict[str, Any], descriptors: Sequence[int]) -> Process:
        return await self._ask(request, descriptors)

    def _exit_of(self, pid: int) -> asyncio.Future[int]:
        if pid not in self._exits:
            self._exits[pid] = asyncio.get_running_loop().create_future()
        return self._exits[pid]

    async def _ask(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> Process:
        self._sequence += 1
        answer: asyncio.Future[Process] = asyncio.get_running_loop().create_future()
        self._answers[self._sequence] = answer
        await self._send({**request, "id": self._sequence}, descriptors)
        return await answer

    async def _send(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        if self._socket is None:
            raise LaunchError("the container runtime is not running")
        loop = asyncio.get_running_loop()
        data = json.dumps({**request, "descriptors": len(descriptors)}).encode() + b"\n"
        async with self._sending:
            if descriptors:
                sent = await self._send_descriptors(data, descriptors)
                data = data[sent:]
            await loop.sock_sendall(self._socket, data)

    async def _send_descriptors(self, data: bytes, descriptors: Sequence[int]) -> int:
        assert self._socket is not None
        while True:
            try:
                return socket.send_fds(self._socket, [data], list(descriptors))
            except BlockingIOError:
                await asyncio.sleep(0.001)  # the zygote is a millisecond behind, not stuck

    async def _read(self) -> None:
        assert self._socket is not None
        loop = asyncio.get_running_loop()
        buffer = b""
        while data := await loop.sock_recv(self._socket, 1 << 16):
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                self._on_answer(json.loads(line))
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(LaunchError("the container runtime ended"))

    def _on_answer(self, message: dict[str, Any]) -> None:
        if "exit" in message:
            exited = self._exit_of(message["exit"])
            # The pid may be used again once its exit has been told.
            self._exits.pop(message["exit"], None)
            if not exited.done():
                exited.set_result(message["code"])
            return
        answer = self._answers.pop(message["id"], None)
        if answer is None or answer.done():
            return
        if "error" in message:
            answer.set_exception(LaunchError(message["error"]))
        else:
            # Made here, before the exit that may stand on the next line of the same read.
            answer.set_result(Process(message["pid"], self._exit_of(message["pid"])))
