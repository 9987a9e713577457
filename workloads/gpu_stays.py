"""Does a running container keep its GPUs? Held for a while, and looked at again and again as a new program would.

What a program has open already goes on working when its container's device access is rewritten (a `systemctl
daemon-reload` on the node is enough); only who opens a GPU anew is refused. So every look is a process of its own. The
memory that this program holds is read back at the end, as a job that runs on would.
"""

from __future__ import annotations

import ctypes
import datetime as dt
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from workloads.contract import Fact, Measurement, Sample, could_not, emit, identity, leave_on_sigterm, parameters
from workloads.cuda_driver import Context, CudaError, Driver
from workloads.nvml import Nvml, NvmlError

PARAMETERS = ("stay_s", "look_every_s", "look_within_s")
NONE = "none"
# Not resolved: in a pod this file is a link into a hidden directory that is no package.
_ROOT = str(Path(__file__).absolute().parent.parent)
_LOOK = "import sys; sys.path.insert(0, %r); from workloads.gpu_stays import look; look()" % _ROOT
_BYTES = 1 << 20


class NoLookError(Exception):
    """The process that was to look ended without an answer."""


class Look(NamedTuple):
    """What a new program finds: the GPUs that it can open, and the error that it met ("none" where it met none)."""

    uuids: List[str]
    error: str


def look() -> None:
    """In a process of its own: NVML, the CUDA driver, and a copy into each GPU's memory and back; print what came."""
    uuids, error = [], NONE
    try:
        nvml = Nvml()
        uuids = [device.uuid() or "GPU %d" % device.index for device in nvml.devices()]
        driver = Driver()
        opened = driver.device_count()
        if opened == 0:
            error = "CUDA shows no device where NVML shows %d" % len(uuids)
        for gpu in range(opened):
            data = os.urandom(_BYTES)
            with driver.open(gpu) as context:
                if context.round_trip(data) != data:
                    error = "GPU %d gave back other data than it was given" % gpu
    except (NvmlError, CudaError) as failure:
        error = str(failure)
    print(json.dumps({"uuids": uuids, "error": error}))


def look_again(within_s: float) -> Look:
    """One look by a new process. One that does not answer has lost its GPUs, whatever it waits for.

    Raises `NoLookError` where the process ended without an answer.
    """
    try:
        done = subprocess.run([sys.executable, "-c", _LOOK], capture_output=True, timeout=within_s, check=False)
    except subprocess.TimeoutExpired:
        return Look([], "no answer within %g s" % within_s)
    try:
        found = json.loads(done.stdout.decode("utf-8", "replace").splitlines()[-1])
        return Look(list(found["uuids"]), str(found["error"]))
    except (ValueError, IndexError, KeyError, TypeError):
        said = " ".join(done.stderr.decode("utf-8", "replace").split())[-200:]
        raise NoLookError("exit code %d: %s" % (done.returncode, said or "no word")) from None


class Stay(NamedTuple):
    """How it went: the last look, "none" or what was lost and when, for how long, and how many looks there were."""

    last: Look
    lost: str
    seconds: float
    looks: int


class Held:
    """Memory of every GPU that this program holds from the beginning to the end, as a running job does."""

    def __init__(self) -> None:
        self._driver = Driver()
        self._pattern = os.urandom(_BYTES)
        self._places: List[Tuple[Context, ctypes.c_uint64]] = []
        for gpu in range(self._driver.device_count()):
            context, address = self._driver.open(gpu), ctypes.c_uint64()
            self._driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(_BYTES))
            self._driver.call("cuMemcpyHtoD_v2", address, self._pattern, ctypes.c_size_t(_BYTES))
            self._places.append((context, address))

    def works(self) -> str:
        """ "none", or what went wrong on a GPU that was open all the time."""
        for gpu, (context, address) in enumerate(self._places):
            back = ctypes.create_string_buffer(_BYTES)
            try:
                context.use()
                self._driver.call("cuMemcpyDtoH_v2", back, address, ctypes.c_size_t(_BYTES))
            except CudaError as error:
                return "GPU %d: %s" % (gpu, error)
            if back.raw != self._pattern:
                return "GPU %d gave back other data than it was given" % gpu
        return NONE


def first_look(within_s: float) -> Look:
    """The one that all others are compared with; where it does not come about at all, nothing can be measured."""
    try:
        return look_again(within_s)
    except NoLookError as error:
        could_not("a new process cannot look at the GPUs: %s" % error)


def next_look(within_s: float) -> Look:
    """A process that could look before and now ends without an answer has met a change of its surroundings."""
    try:
        return look_again(within_s)
    except NoLookError as error:
        return Look([], str(error))


def hold() -> Tuple[Optional[Held], str]:
    """Take hold of every GPU; where that fails, why."""
    try:
        return Held(), NONE
    except CudaError as error:
        return None, str(error)


def difference(first: Look, now: Look) -> str:
    """How a look differs from the first one; "none" where it does not."""
    if now.error != NONE:
        return now.error
    gone = [uuid for uuid in first.uuids if uuid not in now.uuids]
    if gone or len(now.uuids) != len(first.uuids):
        return "%d of %d GPUs left, gone: %s" % (len(now.uuids), len(first.uuids), ", ".join(gone[:2]) or "none")
    return NONE


def clock() -> str:
    """The time of day in UTC, for a person who searches a node's journal."""
    return dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def stay(first: Look, options: Dict[str, Any]) -> Stay:
    """Look again until `stay_s` are over, once at least, or until the first loss."""
    began, last_seen, looks = time.monotonic(), clock(), 1
    while True:
        time.sleep(float(options["look_every_s"]))
        last, looks, now = next_look(float(options["look_within_s"])), looks + 1, clock()
        stayed_s = time.monotonic() - began
        missing = difference(first, last)
        if missing != NONE:
            lost = "lost between %s and %s, %.0f s after the first look: %s" % (last_seen, now, stayed_s, missing)
            return Stay(last, lost, stayed_s, looks)
        if stayed_s >= float(options["stay_s"]):
            return Stay(last, NONE, stayed_s, looks)
        last_seen = now


def measure() -> Measurement:
    """Hold on for `stay_s` or until the first loss."""
    options = parameters()
    first = first_look(float(options["look_within_s"]))
    held, held_error = hold()
    print("first look: %d GPUs, error %s" % (len(first.uuids), first.error), flush=True)
    stayed = stay(first, options) if first.error == NONE else Stay(first, "never had: " + first.error, 0.0, 1)
    facts: Dict[str, Fact] = {"gpu_lost": stayed.lost, "held_gpu_error": held.works() if held else held_error}
    samples = (
        Sample("gpus_at_start", float(len(first.uuids)), "count"),
        Sample("gpus_at_end", float(len(stayed.last.uuids)), "count"),
        Sample("stayed", stayed.seconds, "s"),
        Sample("looks", float(stayed.looks), "count"),
    )
    return Measurement("gpu_stays", world_size=1, hosts=1, samples=samples, facts=facts,
                       environment={}, **identity())  # fmt: skip


if __name__ == "__main__":
    leave_on_sigterm()
    emit(measure())
