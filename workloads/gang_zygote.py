"""The process that rank processes are forked from: it has torch imported and has never touched CUDA.

A cold start of a rank costs seconds of import, a fork milliseconds. It reads JSON lines on standard input, one a fork,
and writes JSON lines: {"ready"} or {"failed"}, {"pid", "rank"} and {"exit", "rank", "code"}. It must not know a gang.
Python 3.9 syntax.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from typing import Any, Dict

from workloads.all_reduce import run_rank

_EXIT_BROKEN = 1


def serve() -> None:
    """Import torch, then fork what is asked for until standard input ends."""
    try:
        import torch  # noqa: PLC0415 - its absence is an answer
        import torch.distributed  # noqa: PLC0415

        # Python imports these when a process group is first made: once here instead of once a rank.
        import torch.distributed.distributed_c10d  # noqa: PLC0415
    except ImportError as error:
        say({"failed": "the image has no usable torch: %s" % error})
        return
    torch.set_num_threads(1)
    library: Any = torch.cuda.nccl
    nccl = ".".join(map(str, library.version())) if torch.distributed.is_nccl_available() else "none"
    say({"ready": {"torch": str(torch.__version__), "cuda_of_torch": str(torch.version.cuda), "nccl": nccl}})
    children: Dict[int, int] = {}
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    os.set_blocking(wake_read, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    _loop(children, wake_read)


def _loop(children: Dict[int, int], wake_read: int) -> None:
    import select  # noqa: PLC0415 - only the parent needs it

    buffer = b""
    while True:
        ready, _, _ = select.select([0, wake_read], [], [])
        if wake_read in ready:
            os.read(wake_read, 4096)
            _reap(children)
        if 0 not in ready:
            continue
        data = os.read(0, 1 << 16)
        if not data:
            return
        *lines, buffer = (buffer + data).split(b"\n")
        for line in lines:
            order = json.loads(line)
            pid = os.fork()
            if pid == 0:
                _become_rank(order)
            children[pid] = int(order["rank"])
            say({"pid": pid, "rank": order["rank"]})


def _reap(children: Dict[int, int]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        rank = children.pop(pid, None)
        if rank is not None:
            say({"exit": pid, "rank": rank, "code": exit_code(status)})


def exit_code(status: int) -> int:
    """A wait status as an exit code, minus the signal's number for a killed process."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _become_rank(order: Dict[str, Any]) -> None:
    """The child: its own process group, output and environment; never returns."""
    code = _EXIT_BROKEN
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setpgid(0, 0)
        output = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ.update(order["env"])
        said = os.open(order["said"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

        def tell(value: Dict[str, Any]) -> None:
            os.write(said, (json.dumps(value, separators=(",", ":")) + "\n").encode("utf-8"))

        run_rank(order["order"], int(order["rank"]), int(order["local_rank"]), tell)
        code = 0
    except BaseException:  # noqa: BLE001 - a forked child must end here, whatever happened
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def say(value: Dict[str, Any]) -> None:
    """One line to the agent."""
    os.write(1, (json.dumps(value, separators=(",", ":")) + "\n").encode("utf-8"))


if __name__ == "__main__":
    serve()
