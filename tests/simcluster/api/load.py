"""Measures the API server over loopback HTTP from a second process: `python -m tests.simcluster.api.load`.

Prints requests a second, latencies, and what one second of the server's own CPU time is worth; judges nothing, for
machines differ and are noisy.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import psutil
import uvloop

from simcluster.api.port import KubeletRegistry
from simcluster.api.server import ApiServer

from .conftest import container, listen, pod

PODS = "/api/v1/namespaces/default/pods"
CONNECTIONS = 16
CREATES = 5000
GETS = 10_000
NODES = 1024


async def _serve() -> None:
    api = ApiServer(registry=KubeletRegistry())
    sock = listen()
    await api.serve(sock)
    json.dump({"port": sock.getsockname()[1], "token": api.tokens.issue_admin()}, sys.stdout)
    sys.stdout.write("\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await api.close()


@dataclass
class Connection:
    """One kept-alive connection that reads only what it must of an answer."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    token: str

    async def send(self, method: str, path: str, body: bytes = b"") -> bytes:
        """One request; the body of its answer."""
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.token}\r\n"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        self.writer.write(head.encode() + b"\r\n" + body)
        answer = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        status = int(answer[9:12])
        length = answer.partition(b"content-length:")[2].partition(b"\r\n")[0]
        content = await self.reader.readexactly(int(length)) if length else b""
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {content[:300]!r}")
        return content


def _body(name: str) -> bytes:
    grant = {"limits": {"nvidia.com/gpu": "8", "memory": "64Gi"}}
    measure = container("measure", command=["python3", "/w/x.py"], resources=grant)
    hold = container("hold", command=["sleep", "1000"])
    return json.dumps(pod(name, measure, hold, restartPolicy="Never")).encode()


@dataclass(frozen=True)
class Rate:
    """Requests a second, requests a second of the server's CPU time, 99th percentile in seconds."""

    a_second: float
    a_cpu_second: float
    p99_s: float


async def _spread(
    server: psutil.Process,
    connections: list[Connection],
    total: int,
    one: Callable[[Connection, int], Awaitable[Any]],
) -> Rate:
    took: list[float] = []
    numbers = iter(range(total))

    async def work(connection: Connection) -> None:
        for number in numbers:
            start = time.perf_counter()
            await one(connection, number)
            took.append(time.perf_counter() - start)

    begin, cpu = time.perf_counter(), _cpu_s(server)
    await asyncio.gather(*(work(connection) for connection in connections))
    rate = total / (time.perf_counter() - begin)
    return Rate(rate, total / (_cpu_s(server) - cpu), sorted(took)[int(len(took) * 0.99)])


def _cpu_s(server: psutil.Process) -> float:
    times = server.cpu_times()
    return float(times.user + times.system)


async def _watchers(port: int, token: str) -> list[Connection]:
    opened: list[Connection] = []
    for number in range(NODES):
        connection = Connection(*await asyncio.open_connection("127.0.0.1", port), token)
        query = f"watch=1&fieldSelector=spec.nodeName%3Dn{number}"
        head = f"GET /api/v1/pods?{query} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
        connection.writer.write(head.encode())
        await connection.reader.readuntil(b"\r\n\r\n")
        opened.append(connection)
    return opened


async def _measure(server: psutil.Process, port: int, token: str) -> None:
    async def connect() -> Connection:
        return Connection(*await asyncio.open_connection("127.0.0.1", port), token)

    connections = [await connect() for _ in range(CONNECTIONS)]

    async def create(connection: Connection, number: int, prefix: str = "p") -> None:
        await connection.send("POST", PODS, _body(f"{prefix}-{number}"))

    _show(f"pod creates, {CONNECTIONS} connections", await _spread(server, connections, CREATES, create))
    gets = await _spread(server, connections, GETS, lambda c, number: c.send("GET", f"{PODS}/p-{number % CREATES}"))
    _show(f"pod gets, {CONNECTIONS} connections", gets)
    start = time.perf_counter()
    size = len(await connections[0].send("GET", PODS))
    sys.stdout.write(f"list of {CREATES} pods: {time.perf_counter() - start:.3f} s, {size / 1e6:.1f} MB\n")
    watchers = await _watchers(port, token)
    watched = await _spread(server, connections, CREATES, lambda c, number: create(c, number, "w"))
    _show(f"pod creates while {NODES} watchers wait for other nodes", watched)
    start = time.perf_counter()
    target = json.dumps({"target": {"name": f"n{NODES - 1}"}}).encode()
    await connections[0].send("POST", f"{PODS}/p-0/binding", target)
    await watchers[-1].reader.readuntil(b'"ADDED"')
    sys.stdout.write(f"binding to the one watcher it concerns: {(time.perf_counter() - start) * 1e3:.1f} ms\n")
    for connection in (*connections, *watchers):
        connection.writer.close()


def _show(what: str, found: Rate) -> None:
    cpu = f"{found.a_cpu_second:.0f} per CPU second of the server"
    sys.stdout.write(f"{what}: {found.a_second:.0f}/s, {cpu}, 99 % within {found.p99_s * 1e3:.1f} ms\n")


def main() -> None:
    """Start a server in a process of its own and load it."""
    if sys.argv[1:] == ["serve"]:
        uvloop.run(_serve())
        return
    command = [sys.executable, "-m", "tests.simcluster.api.load", "serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        if server.stdout is None or server.stdin is None:
            raise RuntimeError("the server's process has no pipes")
        where = json.loads(server.stdout.readline())
        uvloop.run(_measure(psutil.Process(server.pid), where["port"], where["token"]))
        server.stdin.close()


if __name__ == "__main__":
    main()
