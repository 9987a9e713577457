"""The preStop hook of a container that is about to be stopped.

Owns the three kinds of hook and their limit. It must not know signals or why the container stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from simcluster.node.probes import Probed, http_trouble


async def run_pre_stop(container: Probed, grace_s: float) -> None:
    """Run the hook to its end or for the whole grace period; a failure is an event and stops nothing."""
    hook: Mapping[str, Any] = (container.spec.get("lifecycle") or {}).get("preStop") or {}
    if not hook:
        return
    try:
        async with asyncio.timeout(grace_s):
            trouble = await _run(container, hook)
    except TimeoutError:
        trouble = "context deadline exceeded"
    if trouble is not None:
        container.emit("Warning", "FailedPreStopHook", f"PreStopHook failed: {trouble}")


async def _run(container: Probed, hook: Mapping[str, Any]) -> str | None:
    if "exec" in hook:
        command = hook["exec"].get("command") or []
        code, output = await container.run_command(command)
        return f"Exec lifecycle hook ({command}) failed: exit code {code}: {output}" if code else None
    if "httpGet" in hook:
        return await http_trouble(container, hook["httpGet"])
    if "sleep" in hook:
        await asyncio.sleep(hook["sleep"].get("seconds") or 0)
    return None
