"""Startup, readiness and liveness probes of one running container.

Owns thresholds, periods and the three ways to ask. It must not know restarts: it tells the container what it found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import aiohttp

from simcluster.api.port import Object


class Probed(Protocol):
    """The container under probe."""

    spec: Object

    @property
    def address(self) -> str:
        """Where its ports are."""
        ...

    def emit(self, kind: str, reason: str, message: str) -> None:
        """Report an event about the container."""
        ...

    def show_ready(self, *, ready: bool) -> None:
        """Readiness has changed."""
        ...

    async def run_command(self, command: Sequence[str]) -> tuple[int, str]:
        """Run a command inside; its exit code and the beginning of what it wrote."""
        ...

    async def kill_unhealthy(self, probe: str) -> None:
        """The startup or liveness probe has failed for good: end the process, so that the restart policy decides."""
        ...


def is_ready_at_start(spec: Object) -> bool:
    """Whether the container counts as ready as soon as it runs."""
    return not spec.get("readinessProbe") and not spec.get("startupProbe")


async def watch_probes(container: Probed) -> None:
    """Probe until cancelled; the startup probe comes before the two others."""
    spec = container.spec
    startup = spec.get("startupProbe")
    if startup and not await _until_started(container, startup):
        await container.kill_unhealthy("startup")
        return
    if startup and not spec.get("readinessProbe"):
        container.show_ready(ready=True)
    await asyncio.gather(_readiness(container), _liveness(container))


async def _until_started(container: Probed, probe: Mapping[str, Any]) -> bool:
    await asyncio.sleep(probe.get("initialDelaySeconds") or 0)
    for _ in range(probe.get("failureThreshold") or 3):
        if await _ask(container, probe, "Startup"):
            return True
        await asyncio.sleep(probe.get("periodSeconds") or 10)
    return False


async def _readiness(container: Probed) -> None:
    probe = container.spec.get("readinessProbe")
    if not probe:
        return
    ready, successes, failures = False, 0, 0
    await asyncio.sleep(probe.get("initialDelaySeconds") or 0)
    while True:
        if await _ask(container, probe, "Readiness"):
            successes, failures = successes + 1, 0
        else:
            successes, failures = 0, failures + 1
        if not ready and successes >= (probe.get("successThreshold") or 1):
            ready = True
            container.show_ready(ready=True)
        elif ready and failures >= (probe.get("failureThreshold") or 3):
            ready = False
            container.show_ready(ready=False)
        await asyncio.sleep(probe.get("periodSeconds") or 10)


async def _liveness(container: Probed) -> None:
    probe = container.spec.get("livenessProbe")
    if not probe:
        return
    failures = 0
    await asyncio.sleep(probe.get("initialDelaySeconds") or 0)
    while failures < (probe.get("failureThreshold") or 3):
        failures = 0 if await _ask(container, probe, "Liveness") else failures + 1
        await asyncio.sleep(probe.get("periodSeconds") or 10)
    await container.kill_unhealthy("liveness")


async def _ask(container: Probed, probe: Mapping[str, Any], kind: str) -> bool:
    limit_s = probe.get("timeoutSeconds") or 1
    trouble: str | None
    try:
        async with asyncio.timeout(limit_s):
            trouble = await _trouble(container, probe)
    except TimeoutError:
        trouble = f"command timed out after {limit_s}s" if "exec" in probe else "context deadline exceeded"
    if trouble is not None:
        container.emit("Warning", "Unhealthy", f"{kind} probe failed: {trouble}")
    return trouble is None


async def _trouble(container: Probed, probe: Mapping[str, Any]) -> str | None:
    """What is wrong (a command that fails says it with its output, which may be empty), or None."""
    if "exec" in probe:
        code, output = await container.run_command(probe["exec"].get("command") or [])
        return output if code else None
    if "httpGet" in probe:
        return await http_trouble(container, probe["httpGet"])
    if "tcpSocket" in probe:
        return await _tcp(container, probe["tcpSocket"])
    return "probes of this kind are not offered by the simulated cluster"


def _port(container: Probed, port: int | str) -> int:
    if isinstance(port, int):
        return port
    named = {item.get("name"): item["containerPort"] for item in container.spec.get("ports") or []}
    return int(named.get(port, 0))


async def http_trouble(container: Probed, probe: Mapping[str, Any]) -> str | None:
    """What is wrong with an HTTP request to the container (a probe's or a hook's httpGet), or None."""
    url = f"http://{probe.get('host') or container.address}:{_port(container, probe['port'])}{probe.get('path') or '/'}"
    headers = {item["name"]: item["value"] for item in probe.get("httpHeaders") or []}
    try:
        async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
            return None if answer.status < 400 else f"HTTP probe failed with statuscode: {answer.status}"
    except aiohttp.ClientError as error:
        return f'Get "{url}": {error}'


async def _tcp(container: Probed, probe: Mapping[str, Any]) -> str | None:
    host, port = probe.get("host") or container.address, _port(container, probe["port"])
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError as error:
        return f"dial tcp {host}:{port}: {error.strerror or error}"
    writer.close()
    return None
