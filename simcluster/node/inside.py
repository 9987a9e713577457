"""A command that the node itself runs inside a container: for probes and hooks.

Owns its output and its end. It must not know what the command is for.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from dataclasses import replace

from simcluster.node.runtime import Launch, LaunchError, Process, Runtime

OUTPUT_BYTES = 10 * 1024


async def run_inside(runtime: Runtime, container: Process, launch: Launch, command: Sequence[str]) -> tuple[int, str]:
    """The exit code (126 where it cannot start) and the beginning of its output; killed where the caller gives up."""
    null = os.open(os.devnull, os.O_RDONLY)
    # Memory, unlike a pipe, never makes a talkative command wait.
    output = os.memfd_create("output", os.MFD_CLOEXEC)
    try:
        process = await runtime.enter(container, replace(launch, argv=list(command)), [null, output, output])
        try:
            code = await asyncio.shield(process.exited)
        except asyncio.CancelledError:
            await runtime.kill(process, signal.SIGKILL)
            raise
        return code, os.pread(output, OUTPUT_BYTES, 0).decode(errors="replace")
    except LaunchError as failure:
        return 126, str(failure)
    finally:
        os.close(null)
        os.close(output)
