"""Does a file that a pod has held open on shared storage from the run's beginning still work at its end?

Opens and writes one file, keeps it open while everything else of the run happens on the cluster, and uses it again when
it is told to. A handle may be stale by then, or the mount another one, although every new file is in order.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from typing import Callable, Dict, Optional

from workloads.claim_meeting import meeting_place
from workloads.contract import Fact, Measurement, Sample, emit, identity, leave_on_sigterm, of_one_pod, parameters

PARAMETERS = ("payload_bytes", "answer_s")
POD = {"gpus": "none", "claims": ["shared"], "stays": True}
TOLD = os.environ.get("GPUPROOF_TOLD", "/gpuproof/told/word")
WORKS = "works"
NEVER = float("inf")
_POLL_S = 0.2


class Held:
    """One open file and what is known of it; each step is "works" or what it gave instead."""

    def __init__(self, path: str, payload: bytes) -> None:
        self.path = path
        self._before, self._after = payload, payload[::-1]
        self._descriptor = -1
        self._file: Optional[os.stat_result] = None

    def open(self) -> str:
        """Make the file durable and keep it open."""
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        self._put(self._before, 0)
        os.fsync(self._descriptor)
        self._file = os.fstat(self._descriptor)
        return WORKS

    def stat(self) -> str:
        """The open file is the one that it was."""
        now = os.fstat(self._descriptor)
        if self._file is None or (now.st_dev, now.st_ino) != (self._file.st_dev, self._file.st_ino):
            return "the open file has become another one"
        return WORKS if now.st_size == len(self._before) else "it holds %d bytes now" % now.st_size

    def read(self) -> str:
        """What was written then is read now, past this node's cache as far as the kernel drops it."""
        os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return WORKS if self._get(0) == self._before else "other content than was written"

    def write(self) -> str:
        """More is written behind it and made durable."""
        self._put(self._after, len(self._before))
        os.fsync(self._descriptor)
        return WORKS if self._get(len(self._before)) == self._after else "other content than was written"

    def same_path(self) -> str:
        """The path leads to the same file: the mount was not exchanged under the pod."""
        there, here = os.stat(self.path), os.fstat(self._descriptor)
        if (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino):
            return "the path leads to another file: the mount is not the one of the beginning"
        with open(self.path, "rb", buffering=0) as again:
            content = again.read(len(self._before))
        return WORKS if content == self._before else "other content than was written"

    def close(self) -> str:
        """The file is closed without a late error, and removed."""
        os.close(self._descriptor)
        os.unlink(self.path)
        return WORKS

    def _put(self, data: bytes, place: int) -> None:
        while data:
            count = os.pwrite(self._descriptor, data, place)
            data, place = data[count:], place + count

    def _get(self, place: int) -> bytes:
        return os.pread(self._descriptor, len(self._before), place)


class Steps:
    """Takes one step after another, each in bounded time: a lost mount may hang and not fail."""

    def __init__(self, answer_s: float) -> None:
        self.facts: Dict[str, Fact] = {}
        self.slowest_s = 0.0
        self._answer_s = answer_s

    def take(self, name: str, act: Callable[[], str]) -> None:
        """Do it and keep what came of it; nothing is tried behind a step that hangs."""
        if self.slowest_s == NEVER:
            self.facts[name] = "not tried: an earlier call hangs"
            return
        said = ["no answer within %g s" % self._answer_s]

        def work() -> None:
            try:
                said[0] = act()
            except OSError as error:
                said[0] = "%s: %s" % (errno.errorcode.get(error.errno or 0, "error"), os.strerror(error.errno or 0))

        began = time.monotonic()
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(self._answer_s)
        self.facts[name] = said[0]
        self.slowest_s = NEVER if thread.is_alive() else max(self.slowest_s, time.monotonic() - began)


def told() -> bool:
    """Whether the harness has said that it is time."""
    try:
        with open(TOLD, encoding="utf-8") as file:
            return bool(file.read().strip())
    except OSError:
        return False


def measure(payload_bytes: int, answer_s: float, wait: Callable[[], None]) -> Measurement:
    """Open, wait, use again."""
    who = identity()
    place = meeting_place("shared", who, "storage_hold")
    held, steps = Held(os.path.join(place, who["node"] or "by-hand"), os.urandom(payload_bytes)), Steps(answer_s)
    steps.take("held_open", held.open)
    began = time.monotonic()
    wait()
    held_s = time.monotonic() - began
    steps.slowest_s = 0.0 if steps.slowest_s != NEVER else NEVER
    for name, act in (
        ("held_stat", held.stat),
        ("held_read", held.read),
        ("held_write", held.write),
        ("held_path", held.same_path),
        ("held_close", held.close),
    ):
        steps.take(name, act)
    return of_one_pod(
        "storage_hold", (Sample("held", held_s, "s"), Sample("slowest_call", steps.slowest_s, "s")), steps.facts
    )


def wait_until_told() -> None:
    """As long as the run takes."""
    while not told():
        time.sleep(_POLL_S)


def main() -> None:
    """Run as the pod's program."""
    leave_on_sigterm()
    given = parameters()
    emit(measure(int(given["payload_bytes"]), float(given["answer_s"]), wait_until_told))
    # A thread that hangs in a call must not keep the pod from ending.
    os._exit(0)


if __name__ == "__main__":
    main()
