"""One rank of a training run: joins the others, goes on from the newest complete checkpoint, trains, saves, leaves.

Owns the order of these things and what is said about them. It must not know why it was killed, or how it is judged.
Python 3.9 syntax; torch.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import signal
import struct
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from workloads import training_checkpoint as checkpoint
from workloads.training_meeting import Place, meet, prefixed
from workloads.training_model import Shape, Trainee, Transformer
from workloads.training_state import by_part, checksums, copied, in_pieces
from workloads.training_writers import TOOK_OVER, Claim

Say = Callable[[Mapping[str, Any]], None]

EXIT_PEER_LEAVES = 75
EXIT_LEAVES = 143
EXIT_GIVES_WAY = 76
DDP, FSDP = "ddp", "fsdp"


@dataclass(frozen=True)
class Plan:
    """How to save, and where to stand still and be killed: (where: "step" or "save", the step, the rank)."""

    folder: str
    save_every: int
    modes: List[str]
    keep: int
    visible_within_s: float
    join_s: float
    collective_s: float
    holds: Tuple[Tuple[str, int, int], ...] = ()
    hold_s: float = 0.0
    damages: Tuple[str, ...] = ()
    """Damages to try on copies of the newest checkpoint at the end."""
    parallelism: str = DDP
    raw_bytes: int = 0
    """How much to write and read without a checkpoint at the end, over all ranks."""


class Rank:
    """A rank at work."""

    def __init__(self, place: Place, shape: Shape, plan: Plan, device: Any, say: Say) -> None:
        self.place, self.shape, self.plan, self.device = place, shape, plan, device
        self.say: Say = say if place.rank == 0 else lambda _: None
        self._leaving = threading.Event()
        self._saving: Optional[_Background] = None
        self._claim: Optional[Claim] = None
        # Until the ranks have met there is nothing to save, and whoever waits for others would not hear of it.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def run(self) -> int:
        """Train to the end; the exit code of this rank."""
        began = time.monotonic()
        place, plan = self.place, self.plan
        if place.rank == 0:
            # Before the others are met: one who is still at work with them must let them go.
            self._claim = Claim(plan.folder, "%s on %s" % (place.pod, place.node), self._on_other)
            self._claim.watch()
        self._join(began)
        signal.signal(signal.SIGTERM, lambda *_: self._leaving.set())
        patience = dt.timedelta(seconds=plan.collective_s)
        self._group = dist.new_group(backend="gloo", timeout=patience)
        # A group of their own: a save in the background must not take part in the steps' exchanges, nor they in its.
        saving = dist.new_group(backend="gloo", timeout=patience)
        self.checkpoints = checkpoint.Checkpoints(
            plan.folder, saving, visible_within_s=plan.visible_within_s, keep=plan.keep, claim=self._claim
        )
        self.trainee = Trainee(self.shape, place.rank, place.world, self.device, self._distribute)
        self._resume()
        on = [self.device.index] if self.device.type == "cuda" else None
        model = self.trainee.model
        self._model = DistributedDataParallel(model, device_ids=on) if plan.parallelism == DDP else model
        code = self._train()
        if code == 0:
            self._finish()
        dist.destroy_process_group()
        return code

    def _distribute(self, model: Transformer) -> None:
        """For FSDP: each rank keeps a piece of every parameter, of a block at a time."""
        if self.plan.parallelism == FSDP:
            mesh = init_device_mesh(self.device.type, (self.place.world,))
            for part in (*model.blocks, model):
                fully_shard(part, mesh=mesh)

    def _on_other(self, who: str, did: str) -> None:
        """Another writer has the folder too: said in any case, and left to whoever claimed it last."""
        self.say({"e": "other-writer", "who": who, "did": did})
        if did == TOOK_OVER and self._claim is not None:
            self._claim.give_way()
            # At once, from whatever thread: what is being written has no marker yet.
            os._exit(EXIT_GIVES_WAY)

    # -- together ------------------------------------------------------------------------------------------------------

    def _join(self, began: float) -> None:
        """Meet the others in a round that is whole and closed: a second copy of a rank cannot slip into it."""
        place, plan = self.place, self.plan
        store, nonce = meet(place, plan.join_s)
        backend = "nccl" if self.device.type == "cuda" else "gloo"
        dist.init_process_group(
            backend,
            store=prefixed(nonce, store),
            rank=place.rank,
            world_size=place.world,
            timeout=dt.timedelta(seconds=plan.collective_s),
        )
        where: List[Any] = [None] * place.world
        dist.all_gather_object(where, {"node": place.node, "pod": place.pod})
        self.say({"e": "joined", "world": dist.get_world_size(), "where": where, "s": time.monotonic() - began})

    def _resume(self) -> None:
        began = time.monotonic()
        trainee = self.trainee
        found = self.checkpoints.newest()
        refused = [[step, why] for step, why in found.refused]
        if found.step is None:
            self.say({"e": "fresh", "refused": refused})
            return
        # Said before it is read: what cannot be read must not be chosen either.
        self.say({"e": "chose", "step": found.step, "by": found.by, "refused": refused})
        shared, own = trainee.shared_state(), trainee.own_state()
        self.checkpoints.read(found.step, shared, own)
        trainee.restore(shared, own)
        seconds = time.monotonic() - began
        said = {
            "e": "resumed",
            "step": trainee.step,
            "from": found.step,
            "refused": refused,
            "sums": by_part(self._sums()),
            "parallelism": FSDP if in_pieces(shared) else DDP,
        }
        self.say({**said, "bytes": found.bytes, "s": seconds})

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _train(self) -> int:
        trainee, plan = self.trainee, self.plan
        while trainee.step < self.shape.steps:
            rate = trainee.learning_rate
            ids = trainee.loader.next_ids()
            loss = self._optimise(trainee.batch(ids))
            holding = self._stands("step")
            leaving = self._tell(loss, rate, ids)
            if holding:
                self._hold()
            if any(leaving):
                self._save("sync")
                self.say({"e": "left", "step": trainee.step})
                self._settle()
                return EXIT_LEAVES if leaving[self.place.rank] else EXIT_PEER_LEAVES
            if trainee.step % plan.save_every == 0:
                self._save(plan.modes[trainee.step // plan.save_every % len(plan.modes)])
        self._settle()
        return 0

    def _optimise(self, batch: Any) -> float:
        trainee = self.trainee
        trainee.optimizer.zero_grad()
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.device.type == "cuda"):
            loss = self._model(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trainee.model.parameters(), self.shape.clip_norm)
        trainee.optimizer.step()
        trainee.schedule.step()
        trainee.step += 1
        trainee.optimizer_steps += 1
        return float(loss.detach())

    def _tell(self, loss: float, rate: float, ids: List[int]) -> List[bool]:
        """One line for all ranks; which of them are to leave, as everyone then knows."""
        mine = torch.tensor([_bits(loss), _hash(ids), int(self._leaving.is_set())], dtype=torch.int64)
        all_ = [torch.zeros_like(mine) for _ in range(self.place.world)]
        dist.all_gather(all_, mine, group=self._group)
        rows = [[int(number) for number in row] for row in all_]
        line = {"e": "step", "step": self.trainee.step, "loss": ["%016x" % row[0] for row in rows]}
        line.update({"lr": "%016x" % _bits(rate), "ids": ["%012x" % row[1] for row in rows]})
        self.say({**line, "opt": self.trainee.optimizer_steps})
        return [bool(row[2]) for row in rows]

    def _stands(self, where: str) -> bool:
        """Whether this rank is to stand still here, the first time only. Asked before rank 0 tells of the place: the
        kill may come at once after that, and whoever comes back must not stand still again."""
        plan, trainee = self.plan, self.trainee
        if (where, trainee.step, self.place.rank) not in plan.holds:
            return False
        been = os.path.join(plan.folder, "held-%s-%d" % (where, trainee.step))
        if os.path.exists(been):
            return False
        with open(been, "w", encoding="utf-8") as file:
            os.fsync(file.fileno())
        return True

    def _hold(self) -> None:
        """Stand still until the kill comes; whoever waits for this rank stands still too."""
        self._leaving.wait(self.plan.hold_s)

    # -- saves ---------------------------------------------------------------------------------------------------------

    def _save(self, mode: str) -> None:
        self._settle()
        trainee = self.trainee
        holding = self._stands("save")
        step, sums = trainee.step, by_part(self._sums())
        by = self._claim.who if self._claim else ""
        self.say({"e": "save", "at": "begin", "step": step, "mode": mode, "by": by})
        began = time.monotonic()
        shared, own = trainee.shared_state(), trainee.own_state()
        if mode == "sync":
            saved = self.checkpoints.write(step, shared, own, lambda: self._written(holding))
            self._say_saved(step, mode, saved, time.monotonic() - began, sums)
            return
        shared, own = copied(shared), copied(own)

        def work() -> None:
            saved = self.checkpoints.write(step, shared, own, _nothing)
            self._say_saved(step, mode, saved, blocked_s, sums)

        blocked_s = time.monotonic() - began
        self._saving = _Background(work)

    def _written(self, holding: bool) -> None:
        """Every rank's file is on disk, and nothing says so yet: here the save can be cut in two."""
        dist.barrier(group=self._group)
        self.say({"e": "save", "at": "written", "step": self.trainee.step})
        if holding:
            self._hold()

    def _settle(self) -> None:
        """Wait for a save in the background; its failure is this rank's."""
        saving, self._saving = self._saving, None
        if saving is not None:
            saving.wait()

    def _say_saved(
        self, step: int, mode: str, saved: checkpoint.Saved, blocked_s: float, sums: Mapping[str, Any]
    ) -> None:
        line = {"e": "save", "at": "end", "step": step, "mode": mode, "bytes": saved.bytes, "sums": dict(sums)}
        self.say({**line, "s": saved.seconds, "blocked_s": blocked_s, "visible_s": saved.visible_s})

    def _sums(self) -> Dict[str, Any]:
        """A checksum of every tensor that all ranks share, and of each rank's own ones; every rank calls it."""
        own: List[Any] = [None] * self.place.world
        dist.all_gather_object(own, checksums(self.trainee.own_state()), group=self._group)
        found = checksums(self.trainee.shared_state())
        found.update(
            {"rank-%d.%s" % (rank, name): sum_ for rank, sums in enumerate(own) for name, sum_ in sums.items()}
        )
        return found

    def _finish(self) -> None:
        if self.plan.raw_bytes:
            self.say({"e": "raw", **self.checkpoints.raw(self.plan.raw_bytes)})
        for damage in self.plan.damages:
            self._try_damaged(damage)
        sums = self._sums()
        self.say({"e": "final", "step": self.trainee.step, "sums": sums, "left_bytes": self.checkpoints.left_bytes()})

    def _try_damaged(self, damage: str) -> None:
        """What the way back makes of the two newest checkpoints when the newest is damaged like this."""
        place, trainee = self.place, self.trainee
        folder = self.plan.folder + "-" + damage
        newest = self.checkpoints.prepare_damaged(folder, damage)
        try:
            checkpoints = self.checkpoints.at(folder)
            found = checkpoints.newest()
            shared, own = trainee.shared_state(), trainee.own_state()
            shared = copied(shared)
            own = copied(own)
            if found.step is not None:
                checkpoints.read(found.step, shared, own)
            came = "began anew" if found.step is None else "loaded" if found.step == newest else "fell back"
            why = dict(found.refused).get(newest, "")
        except (checkpoint.NotAsWritten, CheckpointException, RuntimeError, OSError, ValueError) as error:
            came, why = "refused", str(error)[:200]
        outcomes: List[Any] = [None] * place.world
        dist.all_gather_object(outcomes, came, group=self._group)
        self.checkpoints.forget(folder)
        self.say({"e": "damaged", "how": damage, "outcome": sorted(set(outcomes)), "why": why})


class _Background:
    """A function in a thread whose exception is not lost."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work, self._error = work, None  # type: Callable[[], None], Optional[BaseException]
        self._thread = threading.Thread(target=self._run, name="save")
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
            self._error = error

    def wait(self) -> None:
        """Until it is done; raises what it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error


def _nothing() -> None:
    pass


def _bits(value: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def _hash(ids: List[int]) -> int:
    return int.from_bytes(hashlib.sha256(repr(ids).encode("ascii")).digest()[:6], "big")
