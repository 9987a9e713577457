"""A small HTTP server that speaks recorded Kubernetes bodies and misbehaves on purpose; knows no harness."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socketserver
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class RudeServer:
    """Answers each path by its list of handlers in turn; the last one stays. Keeps what was asked."""

    handlers: dict[str, list[Handler]] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    port: int = 0

    def on(self, path: str, *handlers: Handler) -> None:
        """What to answer on a path, first to last."""
        self.handlers[path] = list(handlers)

    def count(self, path: str) -> int:
        """How often a path was asked for."""
        return sum(path == asked for _, asked, _ in self.asked)

    def kubeconfig(self, directory: Path, token: str = "good") -> Path:
        """Write a kubeconfig for this server."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "rude",
            "clusters": [{"name": "rude", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "rude", "context": {"cluster": "rude", "user": "u"}}],
        }
        path = directory / "kubeconfig"
        path.write_text(json.dumps(config), encoding="utf-8")
        return path

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Every request comes here."""
        self.asked.append((request.method, request.path, dict(request.query)))
        handlers = self.handlers.get(request.path)
        if not handlers:
            return status(404, "NotFound", "the server could not find the requested resource")
        handler = handlers.pop(0) if len(handlers) > 1 else handlers[0]
        return await handler(request)


def status(code: int, reason: str, message: str, **headers: str) -> web.Response:
    """A Status body, as the API server writes it."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }
    return web.json_response(body, status=code, headers={k.replace("_", "-"): v for k, v in headers.items()})


def answer(body: Any) -> Handler:
    """A handler with a JSON body."""

    async def handler(_: web.Request) -> web.StreamResponse:
        return web.json_response(body)

    return handler


def text(body: str, code: int = 200) -> Handler:
    """A handler with a plain body."""

    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(text=body, status=code)

    return handler


def fail(code: int, reason: str, message: str = "no", **headers: str) -> Handler:
    """A handler with a Status failure."""

    async def handler(_: web.Request) -> web.StreamResponse:
        return status(code, reason, message, **headers)

    return handler


def stream(*events: Any, then_hang: bool = False) -> Handler:
    """A handler that streams watch events (a str goes out as it is) and ends, or stays open and silent."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for event in events:
            line = event if isinstance(event, str) else json.dumps(event) + "\n"
            await response.write(line.encode())
        if then_hang:
            await asyncio.Event().wait()
        return response

    return handler


async def hang(_: web.Request) -> web.StreamResponse:
    """Never answers."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def cut(request: web.Request) -> web.StreamResponse:
    """Closes the connection instead of answering."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@contextmanager
def serving() -> Iterator[RudeServer]:
    """A running server on a free port of 127.0.0.1, in a thread of its own."""
    server = RudeServer()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="rude-server")
    thread.start()

    async def start() -> web.AppRunner:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", server.handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server.port = runner.addresses[0][1]
        return runner

    runner = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@contextmanager
def trickling(where: str, every_s: float) -> Iterator[int]:
    """The port of a server whose answer's `head` or `body` (plain or `chunked`) comes a byte at a time, for ever."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    head += {"head": b"X: ", "body": b"Content-Length: 4000\r\n\r\n", "chunked": b"Transfer-Encoding: chunked\r\n\r\n"}[
        where
    ]
    piece = b"1\r\n \r\n" if where == "chunked" else b" "
    over = threading.Event()

    class Trickle(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            with contextlib.suppress(OSError):
                self.request.sendall(head)
                while not over.wait(every_s):
                    self.request.sendall(piece)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Trickle) as listener:
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield listener.server_address[1]
        finally:
            over.set()
            listener.shutdown()
            thread.join(10)
