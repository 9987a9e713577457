"""The exec protocol as bytes: what arrives on which channel, in which order.

Owns the handshake and the frames. It must not know what is run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import websocket

from tests.contract.cluster import Namespace

Json = Any
STDIN, STDOUT, STDERR, STATUS = 0, 1, 2, 3
CLOSE_STDIN = b"\xff\x00"


class RefusedError(Exception):
    """The handshake was answered with another code."""

    def __init__(self, code: int, body: str) -> None:
        super().__init__(f"{code} {body}")
        self.code = code
        self.body = body


@dataclass
class Session:
    """One exec: what it wrote and how it ended."""

    socket: Any  # a websocket.WebSocket, which carries no types
    channels: list[int] = field(default_factory=list)
    output: dict[int, bytes] = field(default_factory=dict)
    close_code: int | None = None

    def send(self, data: bytes, channel: int = STDIN) -> None:
        """Bytes for a channel."""
        self.socket.send_binary(bytes([channel]) + data)

    def close_stdin(self) -> None:
        """The end of standard input (v5 only)."""
        self.socket.send_binary(CLOSE_STDIN)

    def read(self) -> Session:
        """Everything until the server closes."""
        while True:
            code, data = self.socket.recv_data()
            if code == websocket.ABNF.OPCODE_CLOSE:
                self.close_code = int.from_bytes(data[:2], "big") if data else None
                break
            self._keep(data)
        self.cut()
        return self

    def cut(self) -> None:
        """End the connection without a word."""
        self.socket.shutdown()

    def read_some(self, text: bytes) -> None:
        """Until standard output contains `text`."""
        while text not in self.output.get(STDOUT, b""):
            self._keep(self.socket.recv_data()[1])

    def _keep(self, data: bytes) -> None:
        self.channels.append(data[0])
        self.output[data[0]] = self.output.get(data[0], b"") + data[1:]

    @property
    def stdout(self) -> str:
        """Standard output as text."""
        return self.output.get(STDOUT, b"").decode()

    @property
    def status(self) -> Json:
        """The Status object of the last frame."""
        return json.loads(self.output[STATUS])

    @property
    def exit_code(self) -> int:
        """0, or the code in the Status' cause; an error where the command never ran."""
        if self.status["status"] == "Success":
            return 0
        return next(
            int(cause["message"]) for cause in self.status["details"]["causes"] if cause.get("reason") == "ExitCode"
        )


def exec_in(
    ns: Namespace,
    pod: str,
    command: Sequence[str],
    *,
    protocol: str = "v5.channel.k8s.io",
    timeout_s: float = 30.0,
    **query: Any,
) -> Session:
    """Start a command; standard output and error are attached unless `query` says otherwise."""
    options = {"stdout": "true", "stderr": "true", **query}
    access = ns.http.access
    url = access.server.replace("http", "ws", 1) + ns.path("pods", pod, "exec")
    url += "?" + urlencode([*(("command", word) for word in command), *options.items()])
    socket: Any = websocket.WebSocket(sslopt={"context": access.ssl_context()})
    socket.settimeout(timeout_s)
    header = [f"Authorization: {access.authorization}"] if access.authorization else []
    try:
        socket.connect(url, subprotocols=[protocol], header=header)
    except websocket.WebSocketBadStatusException as refusal:
        socket.shutdown()
        said: Any = refusal.resp_body
        text = said.decode() if isinstance(said, bytes) else str(said or "")
        raise RefusedError(refusal.status_code, text) from refusal
    return Session(socket)
