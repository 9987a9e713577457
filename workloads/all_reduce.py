"""How fast, and how rightly, do ranks exchange data? One rank of a group: collectives over sizes, timed and verified.

NCCL on CUDA, gloo on the CPU (the simulated cluster), where what a rank sends and gets still travels through the
memory of its GPU, so that a device which corrupts data, hangs or dies is seen. Says each stage it reaches and each
result at once, so that what a killed rank did is known. Run it by hand, with the environment that torchrun sets:
`torchrun --nproc-per-node 2 -m workloads.all_reduce`.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import socket
import sys
import time
from typing import Any, Callable, Dict, List, Mapping, Tuple

from workloads.collectives import Operation, busbw_gb_per_s
from workloads.cuda_driver import Driver

PARAMETERS = (
    "collectives",
    "sizes_bytes",
    "main_bytes",
    "warmups",
    "iterations",
    "experiment_timeout_s",
    "stall_timeout_s",
    "assemble_timeout_s",
    "partners",
    "p2p_off",
    "tool",
)
"""A rank reads `collectives`, `sizes_bytes`, `warmups` and `iterations`; the harness plans with the rest."""

STAGES = ("started", "rendezvous", "communicator", "first_size", "done")
_TELL_S = 1.0
Say = Callable[[Dict[str, Any]], None]


def run_rank(order: Mapping[str, Any], rank: int, local_rank: int, say: Say) -> None:
    """One rank's whole life. `order`: world, master [host, port], device, node, seed, timeout_s and the parameters."""
    import torch  # noqa: PLC0415 - the process that forks ranks has imported it

    say({"stage": "started"})
    world, device = int(order["world"]), str(order["device"])
    there_and_back = _through_device(torch, local_rank, device) if order.get("staged", True) else _as_it_is
    host, port = order["master"]
    timeout = dt.timedelta(seconds=float(order["timeout_s"]))
    dist: Any = torch.distributed
    store = dist.TCPStore(str(host), int(port), world, rank == 0, timeout=timeout)
    say({"stage": "rendezvous"})
    backend = "nccl" if device == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=timeout)
    place = "cuda:%d" % local_rank if device == "cuda" else "cpu"
    nodes: List[Any] = [None] * world
    dist.all_gather_object(nodes, str(order["node"]))
    say({"stage": "communicator", "world": dist.get_world_size(), "hosts": len(set(nodes))})
    first = True
    for collective in order["collectives"]:
        for size in order["sizes_bytes"]:
            found = _measure(torch, str(collective), int(size), rank, world, place, order, there_and_back, say)
            say({"result": found})
            if first:
                say({"stage": "first_size"})
            first = False
    dist.barrier()
    say({"stage": "done"})
    # No orderly farewell: every rank has said all it knows, and one that hangs in it would spoil a good result.


def _measure(
    torch: Any,
    collective: str,
    size: int,
    rank: int,
    world: int,
    place: str,
    order: Mapping[str, Any],
    there_and_back: Callable[[Any], Any],
    say: Say,
) -> Dict[str, Any]:
    """Verify on fresh data, then time `iterations` operations, each from a barrier to its end on this rank."""
    operation = Operation(torch, collective, size, rank, world, place)
    dist = torch.distributed
    synchronise: Callable[[], None] = torch.cuda.synchronize if place != "cpu" else _nothing
    operation.fill(int(order["seed"]) + size, there_and_back)
    say({"at": [collective, size]})
    operation.run()
    synchronise()
    wrong = operation.wrong(there_and_back)
    for _ in range(int(order["warmups"])):
        operation.run()
    seconds: List[float] = []
    told = time.monotonic()
    for _ in range(int(order["iterations"])):
        if time.monotonic() - told >= _TELL_S:
            told = time.monotonic()
            say({"timed": len(seconds)})  # slow is not hung
        dist.barrier()
        synchronise()
        began = time.perf_counter()
        operation.run()
        synchronise()
        seconds.append(time.perf_counter() - began)
    return {
        "collective": collective,
        "bytes": size,
        "moved_bytes": operation.size_bytes,
        "seconds": [float("%.4g" % value) for value in seconds],
        "wrong": wrong,
    }


def _through_device(torch: Any, local_rank: int, device: str) -> Callable[[Any], Any]:
    """On the CPU: into the GPU's memory and out again. On CUDA the tensors live there, and are compared there."""
    if device == "cuda":
        torch.cuda.set_device(local_rank)
        return _as_it_is
    context = Driver().open(local_rank)

    def there_and_back(tensor: Any) -> Any:
        back = bytearray(context.round_trip(tensor.numpy().tobytes()))
        return torch.frombuffer(back, dtype=tensor.dtype)

    return there_and_back


def _as_it_is(tensor: Any) -> Any:
    return tensor


def _nothing() -> None:
    """A CPU has done what it was told when the call returns."""


def by_hand(environment: Mapping[str, str]) -> Tuple[Dict[str, Any], int, int]:
    """An order from what torchrun sets, for a person."""
    device = environment.get("DEVICE", "cpu")
    order: Dict[str, Any] = {
        "world": int(environment.get("WORLD_SIZE", "1")),
        "master": [environment.get("MASTER_ADDR", "127.0.0.1"), int(environment.get("MASTER_PORT", "29500")) + 1],
        "device": device,
        "node": socket.gethostname(),
        "seed": 1,
        "staged": device == "cuda",
        "timeout_s": 60,
        "collectives": ["all_reduce"],
        "sizes_bytes": [8, 1 << 20],
        "warmups": 2,
        "iterations": 5,
    }
    order.update(json.loads(environment.get("GPUPROOF_PARAMS", "{}")))
    return order, int(environment.get("RANK", "0")), int(environment.get("LOCAL_RANK", "0"))


def _say_nothing(_: Dict[str, Any]) -> None:
    """Rank 0 speaks for all by hand."""


def _show(world: int) -> Say:
    def show(said: Dict[str, Any]) -> None:
        result = said.get("result")
        if result is None:
            print(json.dumps(said), flush=True)
            return
        best = busbw_gb_per_s(result["collective"], result["moved_bytes"], min(result["seconds"]), world)
        print(
            "%-16s %12d B %10.4g GB/s busbw, %d wrong" % (result["collective"], result["bytes"], best, result["wrong"])
        )

    return show


if __name__ == "__main__":
    ORDER, RANK, LOCAL_RANK = by_hand(os.environ)
    run_rank(ORDER, RANK, LOCAL_RANK, _show(ORDER["world"]) if RANK == 0 else _say_nothing)
    sys.stdout.flush()
    os._exit(0)
