"""exec and attach over websockets: the v4, v5 and older channel protocols of Kubernetes.

Owns frames and channels. It must not know what runs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal

from aiohttp import WSMsgType, web

from simcluster.api import errors
from simcluster.api.port import ApiError, Kubelet, LogOptions, Object
from simcluster.api.wire.call import Call

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
_OUT = {"stdout": 1, "stderr": 2}
_ERROR = 3
_CLOSE_STDIN = 255
_NORMAL = 1000


def check_upgrade(call: Call) -> None:
    """Raises ApiError 400 for a request that wants no upgrade."""
    if "Upgrade" not in call.request.headers:
        raise errors.bad_request("Upgrade request required")


def requested(call: Call) -> str:
    """The protocol to speak. Raises ApiError 400 for an upgrade to SPDY, UnknownProtocolError where none is known."""
    headers = call.request.headers
    if headers["Upgrade"].lower() != "websocket":
        raise errors.bad_request("this server carries exec and attach over websockets only")
    offered = [part.strip() for part in headers.get("Sec-WebSocket-Protocol", "").split(",") if part.strip()]
    for protocol in offered or ["channel.k8s.io"]:
        if protocol in PROTOCOLS:
            return protocol
    raise UnknownProtocolError


class UnknownProtocolError(Exception):
    """A handshake that offers no protocol of ours: 403 without a body."""


class Channels:
    """The server's side of the streams; implements `port.ExecStream`."""

    def __init__(self, socket: web.WebSocketResponse, *, tty: bool) -> None:
        self._socket = socket
        self._tty = tty
        self._stdin: asyncio.Queue[bytes] = asyncio.Queue()
        self._ended = False

    async def read_stdin(self) -> bytes:
        """The next chunk of standard input; b"" at its end, from then on."""
        if self._ended and self._stdin.empty():
            return b""
        chunk = await self._stdin.get()
        if not chunk:
            self._ended = True
        return chunk

    async def write(self, channel: Literal["stdout", "stderr"], data: bytes) -> None:
        """Send output; on a terminal everything is standard output."""
        number = 1 if self._tty else _OUT[channel]
        if data and not self._socket.closed:
            await self._socket.send_bytes(bytes([number]) + data)

    async def pump(self) -> None:
        """Take frames from the client until it closes."""
        async for message in self._socket:
            if message.type not in (WSMsgType.BINARY, WSMsgType.TEXT):
                continue
            data = message.data if isinstance(message.data, bytes) else message.data.encode()
            if not data:
                continue
            if data[0] == 0 and len(data) > 1:
                self._stdin.put_nowait(data[1:])
            elif data[0] == _CLOSE_STDIN and data[1:2] == b"\x00":
                self._stdin.put_nowait(b"")
        self._stdin.put_nowait(b"")


def _exit_status(code: int, command: Sequence[str], protocol: str) -> Object:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    if protocol.startswith("v5"):
        how = f"command terminated with exit code {code}"
    else:
        how = f"error executing command [{' '.join(command)}], exit code {code}"
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: {how}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def _failure_status(error: ApiError, protocol: str) -> Object:
    inner = error.message
    if protocol.startswith("v5"):
        inner = f"Internal error occurred: {inner}"
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {inner}",
        "reason": "InternalError",
        "details": {"causes": [{"message": inner}]},
        "code": 500,
    }


Start = Callable[[Channels], Coroutine[Any, Any, int]]


def attached(call: Call, kubelet: Kubelet, pod: str, container: str) -> Start:
    """What attach carries: the container's output from now on. The port has no way into a running process's stdin."""

    async def follow(channels: Channels) -> int:
        options = LogOptions(follow=True, tail_lines=0)
        async for chunk in kubelet.logs(call.target.namespace, pod, container, options):
            await channels.write("stdout", chunk)
        return 0

    return follow


async def serve(call: Call, start: Start, *, protocol: str, tty: bool) -> web.WebSocketResponse:
    """Carry the streams of what `start` runs until it ends or the client leaves."""
    socket = web.WebSocketResponse(protocols=(protocol,), autoping=True, heartbeat=None)
    await socket.prepare(call.request)
    channels = Channels(socket, tty=tty)
    await socket.send_bytes(b"\x01")
    loop = asyncio.get_running_loop()
    pump = loop.create_task(channels.pump())
    run = loop.create_task(start(channels))
    try:
        await asyncio.wait({pump, run}, return_when=asyncio.FIRST_COMPLETED)
        if not run.done() and socket.closed:
            return socket
        status = await _status_of(run, call.commands, protocol)
        if not socket.closed:
            await _report(socket, status, protocol)
            await socket.close(code=_NORMAL)
    finally:
        for task in (pump, run):
            task.cancel()
    return socket


async def _status_of(run: asyncio.Task[int], command: Sequence[str], protocol: str) -> Object:
    try:
        return _exit_status(await run, command, protocol)
    except ApiError as error:
        return _failure_status(error, protocol)


async def _report(socket: web.WebSocketResponse, status: Object, protocol: str) -> None:
    frame = bytes([_ERROR])
    if protocol in ("v4.channel.k8s.io", "v5.channel.k8s.io"):
        text = json.dumps(status, separators=(",", ":"))
        for raw, escaped in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
            text = text.replace(raw, escaped)
        await socket.send_bytes(frame + text.encode())
    elif status["status"] == "Failure":
        await socket.send_bytes(frame + str(status["message"]).encode())
