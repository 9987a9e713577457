"""A distributed training run that survives being killed: one process a rank, numbered lines about all it does.

Process 1 of each pod starts the ranks, passes their lines on, restarts them in place when another pod was lost, and
ends the pod when its own ranks were killed, so that whoever owns the pod makes a new one. It must not know why.
Python 3.9 syntax; torch. By hand: `python -m workloads.training` trains one rank and writes to /tmp.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import threading
import time
import traceback
from typing import Any, Dict, List, Mapping, NoReturn, Tuple

# All that ranks need is imported here, by a process that never touches CUDA: a restarted rank is a fork and no import.
# The optimiser's first step would otherwise import the last of these, anew in each rank.
import torch
import torch._dynamo

from workloads import contract
from workloads.line_stream import LineWriter
from workloads.training_meeting import Place
from workloads.training_model import Shape
from workloads.training_rank import DDP, EXIT_GIVES_WAY, FSDP, Plan, Rank, Say

PARAMETERS = (
    "pods",
    "ranks_per_pod",
    "save_every",
    "save_modes",
    "parallelism",
    "keep",
    "seed",
    "parameters",
    "bytes_per_parameter",
    "visible_within_s",
    "join_s",
    "collective_s",
    "max_restarts",
    "hold_s",
    "grace_s",
    "start_within_s",
    "recover_within_s",
    "controller",
    "queue",
    "admitted_within_s",
)
"""Some of these are for whoever starts and kills the training; what it is told beside them (steps, folder, where to
stand still) is no profile's business."""
POD = {"gpus": "all", "rdma": True, "claims": ["checkpoints"]}

EXIT_KILLED = 137
PIDS = os.environ.get("GPUPROOF_PIDS", "/tmp/gpuproof-ranks")
"""The ranks' process numbers, as this container counts them."""

_FOLDER = "/gpuproof/claims/checkpoints/training"
_PIPE_BYTES = 1 << 16
_LOOK_EVERY_S = 0.05


class Launcher:
    """The ranks of one pod."""

    def __init__(self, params: Mapping[str, Any], index: int) -> None:
        self._params, self._index = params, index
        self._per_pod = int(params.get("ranks_per_pod", 1))
        self._lines = LineWriter()
        self._ranks: Dict[int, int] = {}
        self._told = False
        signal.signal(signal.SIGTERM, self._on_sigterm)

    def run(self) -> int:
        """Start the ranks, again in place as often as another pod is lost; the pod's exit code."""
        for _ in range(int(self._params.get("max_restarts", 20)) + 1):
            codes = self._one_round()
            if all(code == 0 for code in codes):
                self._lines.end()
                return 0
            self._lines.write({"e": "ended", "codes": codes, "told": self._told})
            if self._told:
                return contract.EXIT_TERMINATED
            if -signal.SIGKILL in codes:
                return EXIT_KILLED
            if EXIT_GIVES_WAY in codes:
                return EXIT_GIVES_WAY  # the folder is another writer's: to begin again would take it back
        return 1

    def _one_round(self) -> List[int]:
        read, write = os.pipe()
        for local in range(self._per_pod):
            pid = os.fork()
            if pid == 0:
                os.close(read)
                self._be_rank(local, write)
            self._ranks[pid] = local
        _tell_pids(list(self._ranks))
        os.close(write)
        return self._attend(read)

    def _attend(self, pipe: int) -> List[int]:
        """Pass lines on until every rank has ended; one that fails takes the others of its pod with it."""
        codes: Dict[int, int] = {}
        rest = b""
        while self._ranks or pipe >= 0:
            if pipe >= 0 and select.select([pipe], [], [], _LOOK_EVERY_S)[0]:
                piece = os.read(pipe, _PIPE_BYTES)
                if not piece:
                    os.close(pipe)
                    pipe = -1
                *whole, rest = (rest + piece).split(b"\n")
                for line in whole:
                    self._lines.write(json.loads(line))
            self._reap(codes)
            if pipe < 0 and self._ranks:
                time.sleep(_LOOK_EVERY_S)
        return [codes[local] for local in sorted(codes)]

    def _reap(self, codes: Dict[int, int]) -> None:
        for pid, local in list(self._ranks.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            del self._ranks[pid]
            codes[local] = os.waitstatus_to_exitcode(status)
            if codes[local] != 0 and len(codes) == 1 and not self._told:
                for other in self._ranks:
                    os.kill(other, signal.SIGTERM)

    def _be_rank(self, local: int, pipe: int) -> NoReturn:
        code = 1
        say = _sayer(pipe)
        try:
            code = _rank(self._params, self._index, local, self._per_pod, say).run()
        except BaseException:  # noqa: BLE001 - a rank ends here, whatever it was
            traceback.print_exc()
            say({"e": "failed", "why": traceback.format_exc(limit=0).strip()[-300:]})
        finally:
            sys.stderr.flush()
            # Not sys.exit: a thread of a broken collective must not keep a rank alive that has ended.
            os._exit(code)

    def _on_sigterm(self, _signum: int, _frame: object) -> None:
        self._told = True
        for pid in self._ranks:
            os.kill(pid, signal.SIGTERM)


def _sayer(pipe: int) -> Say:
    """Says a value to process 1, which numbers it."""

    lock = threading.Lock()

    def say(value: Mapping[str, Any]) -> None:
        data = json.dumps(value).encode("ascii") + b"\n"
        with lock:
            while data:
                data = data[os.write(pipe, data) :]

    return say


def _rank(params: Mapping[str, Any], index: int, local: int, per_pod: int, say: Say) -> Rank:
    torch.set_num_threads(1)
    device = torch.device("cuda", local) if params.get("device") == "cuda" else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    torch.use_deterministic_algorithms(True)
    world = int(params.get("pods", 1)) * per_pod
    who = contract.identity()
    place = Place(
        rank=index * per_pod + local,
        world=world,
        local_rank=local,
        master=os.environ.get("GPUPROOF_MASTER", "127.0.0.1"),
        port=int(os.environ.get("GPUPROOF_MASTER_PORT", "29400")),
        node=who["node"],
        pod=who["pod"],
    )
    total = int(params.get("parameters", 0)) * int(params.get("bytes_per_parameter", 14))
    shape = Shape(seed=int(params.get("seed", 1)), steps=int(params.get("steps", 12)), filler_bytes=total // world)
    plan = Plan(
        folder=str(params.get("folder", _FOLDER)),
        save_every=int(params.get("save_every", 4)),
        modes=list(params.get("save_modes", ["sync"])),
        keep=int(params.get("keep", 3)),
        visible_within_s=float(params.get("visible_within_s", 5)),
        join_s=float(params.get("join_s", 60)),
        collective_s=float(params.get("collective_s", 60)),
        holds=tuple(_hold(text) for text in params.get("holds", [])),
        hold_s=float(params.get("hold_s", 0)),
        damages=tuple(params.get("damages", [])),
        parallelism=str(params.get("parallelism", DDP)),
        raw_bytes=total if params.get("raw") else 0,
    )
    return Rank(place, shape, plan, device, say)


def _tell_pids(pids: List[int]) -> None:
    """For whoever kills the ranks from outside; process 1 cannot be killed from inside its container."""
    with open(PIDS, "w", encoding="ascii") as file:
        file.write(" ".join(map(str, pids)))


def _hold(text: str) -> Tuple[str, int, int]:
    where, step, rank = text.split(":")
    return where, int(step), int(rank)


def main() -> int:
    """Train."""
    # What has been imported stays for good, shared by all ranks; whoever started this may have put the collector off.
    gc.freeze()
    gc.enable()
    # Before the first CUDA call of any rank: without it matrix products of the same numbers may differ.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    params = contract.parameters()
    if params.get("parallelism", DDP) not in (DDP, FSDP):
        contract.could_not("parallelism is %r, expected one of: %s, %s" % (params["parallelism"], DDP, FSDP))
    index = int(os.environ.get("JOB_COMPLETION_INDEX", "0"))
    os.makedirs(str(params.get("folder", _FOLDER)), exist_ok=True)
    _tell_pids([])
    return Launcher(params, index).run()


if __name__ == "__main__":
    _code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Taking torch apart at the interpreter's end takes a second in which the pod still counts as alive.
    os._exit(_code)
