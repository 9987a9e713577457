"""What is done to a running cluster from outside of Kubernetes, as a machine room does: a node's power is cut.

Owns the socket beside the kubeconfig, its one kind of request, and both ends of it. It must not know who asks, or why.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal, get_args

SOCKET = "control"
"""A file in the cluster's own directory (mode 0700), so that only its owner can ask."""
How = Literal["power", "network", "kubelet"]
"""What ends: all processes on the node, all that it sends and hears, or only what its kubelet does."""
HOWS: tuple[How, ...] = get_args(How)
_WITHIN_S = 30.0
_REQUEST_BYTES = 4096


class ControlError(Exception):
    """It was not done; the text says why."""


class Control:
    """The cluster's end: hands each request to `lose`, which raises `ControlError` where that cannot be done."""

    def __init__(self, directory: Path, lose: Callable[[str, How], Awaitable[None]]) -> None:
        self._path, self._lose = directory / SOCKET, lose
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen; raises OSError."""
        self._server = await asyncio.start_unix_server(self._on_request, self._path, limit=_REQUEST_BYTES)

    async def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
        self._path.unlink(missing_ok=True)

    async def _on_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answer = await self._answer(await reader.readline())
        except ValueError as error:  # not JSON, or no end of line
            answer = {"error": f"not a request: {error}"}
        with contextlib.suppress(ConnectionError):
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        asked = json.loads(line)
        node, how = (asked.get("node"), asked.get("how")) if isinstance(asked, dict) else (None, None)
        if not isinstance(node, str) or how not in HOWS:
            return {"error": f"expected a node and how ({', '.join(HOWS)}), found {asked!r}"}
        try:
            await self._lose(node, how)
        except ControlError as error:
            return {"error": str(error)}
        return {"done": True}


def lose_node(kubeconfig: Path, node: str, how: str) -> None:
    """Ask the cluster that wrote this kubeconfig; returns when it is done. Raises `ControlError`."""
    path = kubeconfig.parent / SOCKET
    request = json.dumps({"node": node, "how": how}).encode() + b"\n"
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_WITHIN_S)
            connection.connect(str(path))
            connection.sendall(request)
            with connection.makefile("rb") as lines:
                answer = json.loads(lines.readline() or b"{}")
    except (OSError, ValueError) as error:
        raise ControlError(f"no simulated cluster answers at {path}: {error}") from error
    if answer.get("done") is not True:
        raise ControlError(str(answer.get("error", "the cluster gave no answer")))
