"""Keeps the GPUs of this pod busy, one half after the other, and says which of them was busy when and held how much.

Made for somebody who watches from outside: while one half works, the other half is allocated and idle. Each GPU gets a
process of its own that sees no other GPU (`CUDA_VISIBLE_DEVICES` by UUID), so that nothing but the driver decides which
device it is. Knows nothing of what the watcher saw, nor of what was expected.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from workloads.contract import (
    Fact,
    Measurement,
    Sample,
    could_not,
    emit,
    identity,
    leave_on_sigterm,
    parameters,
)
from workloads.cuda_driver import CudaError, Driver
from workloads.gpu_inventory import list_gpus
from workloads.smi_text import UUID

PARAMETERS = ("hold_s", "start_s", "memory_mib", "duty", "matrix_size", "nvidia_smi_timeout_s")
NONE = "none"
_MIB = 1 << 20
_CHILD = "import sys; sys.path.insert(0, sys.argv[1]); from workloads.exporter_load import work; work(sys.argv[2])"
_BURST_S = 0.02


class Worker:
    """One process that loads one GPU from the moment it says so until its standard input is closed."""

    def __init__(self, gpu: int, uuid: str, options: Dict[str, Any]) -> None:
        self.gpu, self.uuid = gpu, uuid
        # Not resolved: a mounted ConfigMap is made of links, and what they lead to is no package.
        root = str(Path(__file__).absolute().parent.parent)
        command = [sys.executable, "-u", "-c", _CHILD, root, json.dumps(options)]
        environment = dict(os.environ, CUDA_VISIBLE_DEVICES=uuid)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        )

    def wait_until_busy(self, deadline: float) -> str:
        """A word for what went wrong on the way ("none" where it works)."""
        told = self._line(deadline)
        return NONE if told.get("busy") else str(told.get("error", "it did not start in time"))

    def end(self, deadline: float) -> Dict[str, Any]:
        """Let it go; what it held and did."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it has ended already, and its last line says why
            self._process.stdin.close()
        told = self._line(deadline)
        self._process.kill()
        self._process.wait()
        return told

    def _line(self, deadline: float) -> Dict[str, Any]:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        if not readable:
            return {"error": "it said nothing in time"}
        text = self._process.stdout.readline()
        try:
            told = json.loads(text)
        except ValueError:
            return {"error": "it ended without a word (exit code %s)" % self._process.poll()}
        return told if isinstance(told, dict) else {}


def measure() -> Measurement:
    """Both halves, one after the other."""
    options = parameters()
    rows, error = list_gpus(float(options.get("nvidia_smi_timeout_s", 30)))
    uuids = [row.get(UUID) or "" for row in rows]
    if not uuids:
        could_not("no GPU to put a load on: %s" % error)
    samples: List[Sample] = []
    errors: List[str] = []
    for half in halves(len(uuids)):
        found, failed = hold(half, uuids, options)
        samples += found
        errors += failed
    facts: Dict[str, Fact] = {"gpu_uuid": list(uuids), "load_error": list(errors) or [NONE]}
    environment = {"python": sys.version.split()[0]}
    return Measurement("exporter_load", world_size=1, hosts=1, samples=tuple(samples), facts=facts,
                       environment=environment, **identity())  # fmt: skip


def halves(count: int) -> List[List[int]]:
    """The GPUs with even numbers, then those with odd ones: neighbours on a board are never busy together."""
    return [half for half in (list(range(0, count, 2)), list(range(1, count, 2))) if half]


def hold(half: List[int], uuids: List[str], options: Dict[str, Any]) -> Tuple[List[Sample], List[str]]:
    """Load these GPUs for `hold_s` from when the last of them is busy; times are Unix time by this node's clock."""
    workers = [Worker(gpu, uuids[gpu], options) for gpu in half]
    until = time.monotonic() + float(options["start_s"])
    states = {worker.gpu: worker.wait_until_busy(until) for worker in workers}
    began = time.time()
    time.sleep(float(options["hold_s"]))
    ended = time.time()
    samples: List[Sample] = []
    errors = ["gpu %d: %s" % (gpu, state) for gpu, state in states.items() if state != NONE]
    for worker in workers:
        told = worker.end(time.monotonic() + float(options["start_s"]))
        if states[worker.gpu] != NONE:
            continue
        if "error" in told:
            errors.append("gpu %d: %s" % (worker.gpu, told["error"]))
            continue
        at = {"gpu": worker.gpu}
        samples += [
            Sample("load_began", began, "s", at),
            Sample("load_ended", ended, "s", at),
            Sample("load_memory", float(told["memory_mib"]), "MiB", at),
            Sample("load_busy", float(told["busy"]), "1", at),
        ]
    print("GPUs %s were busy for %.1f s" % (half, ended - began), flush=True)
    return samples, errors


def work(text: str) -> None:
    """The body of one GPU's process: hold memory, say so, compute until the parent lets go, say what was done."""
    leave_on_sigterm()
    options = json.loads(text)
    try:
        told = on_cuda(options) if options["device"] == "cuda" else beside_the_gpu(options)
    except (CudaError, RuntimeError, ImportError) as error:
        told = {"error": "%s: %s" % (type(error).__name__, " ".join(str(error).split())[:200])}
    print(json.dumps(told), flush=True)


def on_cuda(options: Dict[str, Any]) -> Dict[str, Any]:
    """Matrix products through torch on the one device that this process sees."""
    import torch  # noqa: PLC0415 - only this process of the pod needs it

    memory = torch.empty(int(options["memory_mib"]) * _MIB, dtype=torch.uint8, device="cuda").fill_(1)
    n = int(options["matrix_size"])
    a, b = (torch.rand(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))

    def burst() -> None:
        for _ in range(8):
            torch.mm(a, b)
        torch.cuda.synchronize()

    return {"memory_mib": memory.numel() // _MIB, "busy": keep_busy(burst, time.monotonic, float(options["duty"]))}


def beside_the_gpu(options: Dict[str, Any]) -> Dict[str, Any]:
    """Copies into the stand-in's memory: the simulated cluster takes a process's CPU time for its GPU's work."""
    mib = int(options["memory_mib"])
    data = os.urandom(_MIB)
    with Driver().open(0) as context:
        addresses = [context.allocate(_MIB) for _ in range(mib)]
        for address in addresses:
            context.fill(address, data)
        turn = 0

        def burst() -> None:
            nonlocal turn
            context.fill(addresses[turn % mib], data)
            turn += 1

        return {"memory_mib": mib, "busy": keep_busy(burst, time.process_time, float(options["duty"]))}


def keep_busy(burst: Callable[[], None], clock: Callable[[], float], duty: float) -> float:
    """Work for the share `duty` of the time until standard input ends; the share that it came to.

    `clock` is what counts as work: time that passes while a GPU computes, or the CPU time of this process.
    """
    burst()
    print(json.dumps({"busy": True}), flush=True)
    began = time.monotonic()
    worked = 0.0
    while not let_go():
        before = clock()
        burst()
        worked += clock() - before
        if worked > duty * (time.monotonic() - began):
            time.sleep(_BURST_S)
    passed = time.monotonic() - began
    return worked / passed if passed > 0 else 0.0


def let_go(stream: Optional[Any] = None) -> bool:
    """Whether the parent has closed this process's standard input, or is gone."""
    source = stream or sys.stdin
    readable, _, _ = select.select([source], [], [], 0)
    return bool(readable)


if __name__ == "__main__":
    leave_on_sigterm()
    emit(measure())
