"""A command run inside a container for a client: its streams and its exit code (golden 25).

Owns the pumps between descriptors and the client's stream. It must not know pods or HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from simcluster.api.port import ApiError, ExecStream
from simcluster.node.runtime import Launch, LaunchError, Process, Runtime

Channel = Literal["stdout", "stderr"]


async def run_in_container(
    runtime: Runtime, container: Process, launch: Launch, command: Sequence[str], stream: ExecStream, *, tty: bool
) -> int:
    """Run until the command has ended and its output is told. `ApiError` 500 where it cannot start."""
    wanted = replace(launch, argv=list(command), tty=tty)
    if not command or not command[0]:
        raise _cannot('exec: "": executable file not found in $PATH')
    if tty:
        master, slave = pty.openpty()
        return await _run(runtime, container, wanted, stream, [slave] * 3, {master: "stdout"}, os.dup(master))
    stdin_read, stdin_write = os.pipe()
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    outputs: dict[int, Channel] = {out_read: "stdout", err_read: "stderr"}
    return await _run(runtime, container, wanted, stream, [stdin_read, out_write, err_write], outputs, stdin_write)


def _cannot(text: str) -> ApiError:
    return ApiError(
        500,
        "InternalError",
        "Internal error occurred: error executing command in container: failed to exec in container: failed to start "
        f"exec: OCI runtime exec failed: exec failed: unable to start container process: {text}: unknown",
    )


async def _run(
    runtime: Runtime,
    container: Process,
    launch: Launch,
    stream: ExecStream,
    theirs: Sequence[int],
    outputs: dict[int, Channel],
    stdin: int,
) -> int:
    try:
        process = await runtime.enter(container, launch, theirs)
    except LaunchError as failure:
        for descriptor in (*outputs, stdin):
            os.close(descriptor)
        raise _cannot(str(failure)) from failure
    finally:
        for descriptor in set(theirs):
            os.close(descriptor)
    feeder = asyncio.create_task(_feed(stdin, stream))
    pumps = [asyncio.create_task(_pump(descriptor, channel, stream)) for descriptor, channel in outputs.items()]
    try:
        code = await asyncio.shield(process.exited)
        # A child left in the background may keep the pipes open; what the command itself wrote is there by now.
        await asyncio.wait(pumps, timeout=1.0)
        return code
    finally:
        for task in (feeder, *pumps):
            task.cancel()
        await asyncio.gather(feeder, *pumps, return_exceptions=True)
        if not process.exited.done():
            await runtime.kill(process, signal.SIGKILL)


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)


async def _pump(descriptor: int, channel: Channel, stream: ExecStream) -> None:
    os.set_blocking(descriptor, False)
    try:
        while True:
            await _readable(descriptor)
            try:
                data = os.read(descriptor, 1 << 16)
            except BlockingIOError:
                continue
            except OSError:  # EIO: the terminal's last user is gone
                return
            if not data:
                return
            await stream.write(channel, data)
    finally:
        os.close(descriptor)


async def _feed(descriptor: int, stream: ExecStream) -> None:
    os.set_blocking(descriptor, False)
    try:
        while data := await stream.read_stdin():
            while data:
                with contextlib.suppress(BlockingIOError):
                    data = data[os.write(descriptor, data) :]
                    continue
                await asyncio.sleep(0.002)
    except (BrokenPipeError, OSError):
        return
    finally:
        os.close(descriptor)
