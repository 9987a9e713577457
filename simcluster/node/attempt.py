"""One run of a container's process: its log, its last words, and whether it took too much memory.

Owns what ends with the process. It must not know restarts or the pod's status.
"""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass
from pathlib import Path

from simcluster.api.port import Object
from simcluster.api.quantities import parse
from simcluster.node import memory, termination
from simcluster.node.logs import LogWriter, last_output
from simcluster.node.runtime import Process, Runtime


def memory_limit(spec: Object) -> int:
    """The container's limit in bytes; 0 where it has none."""
    limit = ((spec.get("resources") or {}).get("limits") or {}).get("memory")
    return int(parse(limit)) if limit else 0


@dataclass
class Attempt:
    """A started process with its log and the file of its termination message."""

    process: Process
    log: LogWriter
    message: Path
    started_at: str
    out_of_memory: bool = False

    def last_words(self, pod: Object, spec: Object, code: int, at_most: int | None) -> str:
        """The termination message, "" for none; `at_most` bytes where a fault shortens it."""
        containers = len(pod["spec"].get("containers", [])) + len(pod["spec"].get("initContainers") or [])
        limit = termination.limit_for(containers)
        if at_most is not None:
            limit = min(limit, at_most)
        policy = spec.get("terminationMessagePolicy", "File")
        output = last_output(self.log.path, termination.FALLBACK_BYTES) if policy != "File" and code else b""
        return termination.message(self.message, output, policy=policy, failed=code != 0, limit=limit)

    async def watch_memory(self, runtime: Runtime, limit: int) -> None:
        """Kill the process when its tree holds more than `limit` bytes."""
        while not self.process.exited.done():
            if memory.resident_bytes(self.process.pid) > limit:
                self.out_of_memory = True
                await runtime.kill(self.process, signal.SIGKILL)
                return
            await asyncio.sleep(memory.PERIOD_S)
