"""A fresh API server for each test, its HTTP side, and a kubelet that answers for one node."""

# ruff: noqa: ARG002  # the kubelet of the tests has to take the port's arguments

from __future__ import annotations

import asyncio
import io
import json
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from simcluster.api.port import ApiError, ExecStream, KubeletRegistry, LogOptions, Object, ProxyResponse
from simcluster.api.server import ApiServer

NODE = "gpu-01"
STARTED = "2026-01-01T00:00:00Z"


@pytest.fixture
def registry() -> KubeletRegistry:
    """The kubelets that answer; empty until a test registers one."""
    return KubeletRegistry()


@pytest.fixture
async def api(registry: KubeletRegistry) -> AsyncIterator[ApiServer]:
    """A server with the standing namespaces and nothing else."""
    server = ApiServer(registry=registry)
    yield server
    await server.close()


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.text)


@dataclass
class Http:
    """A client with a token; `token=None` is nobody."""

    base: str
    token: str | None
    session: aiohttp.ClientSession
    headers: dict[str, str] = field(default_factory=dict)

    def as_user(self, token: str | None) -> Http:
        """The same client with another token."""
        return Http(self.base, token, self.session)

    async def __call__(
        self, method: str, path: str, body: Any = None, content_type: str | None = None, **headers: str
    ) -> Answer:
        """One request; a body that is no text is sent as JSON."""
        sent = {**({"Authorization": f"Bearer {self.token}"} if self.token else {}), **headers}
        if body is not None:
            sent.setdefault("Content-Type", content_type or "application/json")
        text = body if isinstance(body, str | bytes) or body is None else json.dumps(body)
        data = None if text is None else io.BytesIO(text.encode() if isinstance(text, str) else text)
        async with self.session.request(
            method, self.base + path, data=data, headers=sent, skip_auto_headers=["Content-Type", "User-Agent"]
        ) as response:
            return Answer(response.status, response.headers, await response.text())

    async def stream(self, path: str) -> AsyncIterator[Any]:
        """The lines of a watch."""
        headers = {"Authorization": f"Bearer {self.token}"}
        async with self.session.get(self.base + path, headers=headers) as response:
            assert response.status == 200
            async for line in response.content:
                yield json.loads(line)


def listen() -> socket.socket:
    """A socket on a free port of the loopback."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen(128)
    return sock


@pytest.fixture
async def http(api: ApiServer) -> AsyncIterator[Http]:
    """An administrator's client on plain loopback HTTP."""
    sock = listen()
    port = sock.getsockname()[1]
    await api.serve(sock)
    async with aiohttp.ClientSession() as session:
        yield Http(f"http://127.0.0.1:{port}", api.tokens.issue_admin(), session)


class ProcessKubelet:
    """A kubelet whose exec runs a local process, whose logs are given, whose pods echo what is proxied to them."""

    def __init__(self, lines: Sequence[bytes] = ()) -> None:
        self.lines = list(lines)
        self.asked: list[LogOptions] = []

    async def logs(self, namespace: str, pod: str, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """The lines, one a chunk."""
        self.asked.append(options)
        for line in self.lines:
            yield line

    async def exec(
        self, namespace: str, pod: str, container: str, command: Sequence[str], stream: ExecStream, *, tty: bool
    ) -> int:
        """Run the command here."""
        if command[0] == "nosuch":
            raise ApiError(500, "InternalError", 'exec: "nosuch": executable file not found in $PATH')
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        stdin, stdout, stderr = process.stdin, process.stdout, process.stderr

        async def feed() -> None:
            while data := await stream.read_stdin():
                stdin.write(data)
            stdin.close()

        feeder = asyncio.create_task(feed())
        try:
            while data := await stdout.read(4096):
                await stream.write("stdout", data)
            await stream.write("stderr", await stderr.read())
            return await process.wait()
        finally:
            feeder.cancel()

    async def proxy(
        self, namespace: str, pod: str, port: int, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> ProxyResponse:
        """Say what was asked."""
        return ProxyResponse(200, {"Content-Type": "text/plain"}, f"{method} {pod}:{port}{path} ".encode() + body)


def container(name: str = "c", **more: Any) -> Object:
    """A container of a pod."""
    return {"name": name, "image": "simcluster.local/python:3", **more}


def pod(name: str = "p", *containers: Object, **spec: Any) -> Object:
    """A pod's body."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": list(containers) or [container()], **spec},
    }


async def run_pod(api: ApiServer, name: str, namespace: str = "default", node: str = NODE) -> Object:
    """Bind a pod and let its containers run, as a kubelet would report it."""
    await api.client.bind(namespace, name, node)
    bound = await api.client.get("pods", name, namespace)
    statuses = [
        {
            "name": one["name"],
            "image": one["image"],
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": STARTED}},
            "lastState": {},
        }
        for one in bound["spec"]["containers"]
    ]
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": STARTED}
    scheduled = bound["status"]["conditions"]
    status = {
        "phase": "Running",
        "podIP": "10.0.0.9",
        "startTime": STARTED,
        "conditions": [*scheduled, ready],
        "containerStatuses": statuses,
    }
    return await api.client.patch("pods", name, {"status": status}, namespace, subresource="status")


def node(name: str = NODE) -> Object:
    """A node complete enough for strict clients."""
    info = dict.fromkeys(
        ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "kubeProxyVersion"),
        "x",
    )
    return {
        "metadata": {"name": name},
        "status": {
            "capacity": {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "2"},
            "allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "2"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "nodeInfo": {
                **info,
                "kubeletVersion": "v1.36.2",
                "containerRuntimeVersion": "simcluster://1",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }
