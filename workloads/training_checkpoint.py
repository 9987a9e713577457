"""Sharded checkpoints that are there completely or not at all: written by all ranks, marked last, checked when read.

A checkpoint is a folder `step-00000012`: one file a rank and `.metadata`, both by torch.distributed.checkpoint, and the
marker `COMPLETE`, which names every file with its size and checksum. The marker is written when all files are on disk;
a folder without a marker that agrees with its files is no checkpoint. It must not know a model or a schedule.
Python 3.9 syntax; torch.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import torch.distributed as dist
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from workloads.training_files import (
    MARKER,
    NO_MARKER,
    described,
    name_of,
    read_marker,
    steps_in,
    write_marker,
    writer_of,
)
from workloads.training_state import Tensors, of_rank
from workloads.training_writers import Claim

_CHUNK = 1 << 24
_LOOK_EVERY_S = 0.02


class NotAsWritten(Exception):
    """Checkpoints there are, and none that can be gone on from: damaged, or with other keys than this training's."""


@dataclass(frozen=True)
class Saved:
    """What a save came to: bytes over all ranks, seconds, and how long the marker took to be seen by the last rank."""

    bytes: int
    seconds: float
    visible_s: float


@dataclass(frozen=True)
class Found:
    """The newest complete checkpoint (step None: there never was one), what was refused before it and why, and by whom
    it was written."""

    step: Optional[int]
    bytes: int
    refused: Tuple[Tuple[int, str], ...]
    by: str = ""


class _Writer(FileSystemWriter):
    """Calls `when_written` when this rank's file is on disk and the others may not be yet."""

    def __init__(self, path: str, when_written: Callable[[], None]) -> None:
        super().__init__(path, single_file_per_rank=True, sync_files=True, thread_count=1, overwrite=True)
        self._when_written = when_written

    def write_data(self, plan: Any, planner: Any) -> Any:
        done = super().write_data(plan, planner)
        done.wait()
        self._when_written()
        return done


class Checkpoints:
    """The checkpoints of one training in one folder, for one rank. `group` is used by nothing else."""

    def __init__(self, folder: str, group: Any, *, visible_within_s: float, keep: int, claim: Optional[Claim]) -> None:
        self.folder, self._group, self._claim = folder, group, claim
        self._rank, self._world = dist.get_rank(), dist.get_world_size()
        self._visible_within_s, self._keep = visible_within_s, keep

    def write(self, step: int, shared: Tensors, own: Tensors, when_written: Callable[[], None]) -> Saved:
        """Write one checkpoint; every rank calls it. It is complete when this returns on any rank."""
        began = time.monotonic()
        path = os.path.join(self.folder, name_of(step))
        if self._rank == 0:
            # What a killed save left under this name is no checkpoint, and must not be in the way of one.
            shutil.rmtree(path, ignore_errors=True)
            os.makedirs(path)
        self._wait_for_all()
        save(
            {**shared, **of_rank(own, self._rank)},
            storage_writer=_Writer(path, when_written),
            process_group=self._group,
        )
        files = self._gather(self._described(path))
        if self._claim is not None:
            self._claim.look()  # whoever has lost the folder completes nothing in it
        if self._rank == 0:
            self._mark(path, step, {name: entry for part in files for name, entry in part.items()})
        self._wait_for_all()
        seconds = time.monotonic() - began
        visible_s = max(self._gather(self._seen_after(os.path.join(path, MARKER))))
        if self._rank == 0:
            self._remove_old(step)
        return Saved(sum(size for part in files for size, _ in part.values()), seconds, visible_s)

    def newest(self) -> Found:
        """The newest complete checkpoint; every rank calls it, and every rank sees all its files whole.

        Raises `NotAsWritten` where checkpoints were completed and all are damaged: to begin anew would hide that.
        """
        refused: List[Tuple[int, str]] = []
        for step in self._agreed(sorted(steps_in(self.folder), reverse=True)):
            marker, why = read_marker(os.path.join(self.folder, name_of(step)))
            complaints = [text for text in self._gather(why or self._damage(step, marker)) if text]
            if not complaints:
                by = writer_of(os.path.join(self.folder, name_of(step)))
                return Found(step, sum(size for size, _ in marker.values()), tuple(refused), by)
            refused.append((step, complaints[0]))
        if any(why != NO_MARKER for _, why in refused):
            raise NotAsWritten("no checkpoint is whole: %s" % "; ".join("step %d: %s" % one for one in refused))
        return Found(None, 0, tuple(refused))

    def read(self, step: int, shared: Tensors, own: Tensors) -> None:
        """Fill the tensors in place; raises `NotAsWritten` where the file's keys are not exactly these of all ranks."""
        path = os.path.join(self.folder, name_of(step))
        reader = FileSystemReader(path)
        wanted = set(shared).union(*(of_rank(own, rank) for rank in range(self._world)))
        there = set(reader.read_metadata().state_dict_metadata)
        if wanted != there:
            missing, extra = sorted(wanted - there), sorted(there - wanted)
            raise NotAsWritten("missing in the file: %s; not wanted: %s" % (missing[:4] or "-", extra[:4] or "-"))
        load({**shared, **of_rank(own, self._rank)}, storage_reader=reader, process_group=self._group)

    def at(self, folder: str) -> Checkpoints:
        """The same for another folder."""
        return Checkpoints(folder, self._group, visible_within_s=self._visible_within_s, keep=self._keep, claim=None)

    def prepare_damaged(self, folder: str, damage: str) -> int:
        """Copies of the two newest checkpoints, the newer one damaged; its step. Every rank calls it."""
        if self._rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
            for step in sorted(steps_in(self.folder))[-2:]:
                source, target = os.path.join(self.folder, name_of(step)), os.path.join(folder, name_of(step))
                shutil.copytree(source, target, copy_function=_linked)
            newest = os.path.join(folder, name_of(max(steps_in(folder))))
            shard = os.path.join(newest, max(name for name in os.listdir(newest) if name.startswith("__")))
            shutil.copyfile(shard, shard + ".own")
            os.replace(shard + ".own", shard)
            _DAMAGES[damage](newest, shard)
        self._wait_for_all()
        return self._agreed([max(steps_in(folder), default=0)])[0]

    def forget(self, folder: str) -> None:
        """Remove such copies; every rank calls it when it has read what it wanted."""
        self._wait_for_all()
        if self._rank == 0:
            shutil.rmtree(folder, ignore_errors=True)

    def raw(self, total_bytes: int) -> Dict[str, float]:
        """The same path without a checkpoint: plain files written and synced, then read by a rank that did not write.

        `total_bytes` are those of all ranks. Seconds are those of the slowest rank, as for a checkpoint.
        """
        share, block = total_bytes // self._world, os.urandom(1 << 20)
        mine = os.path.join(self.folder, "raw-%d" % self._rank)
        self._wait_for_all()
        began = time.monotonic()
        with open(mine, "wb") as file:
            for start in range(0, share, len(block)):
                file.write(block[: min(len(block), share - start)])
            file.flush()
            os.fsync(file.fileno())
        write_s = max(self._gather(time.monotonic() - began))
        other = os.path.join(self.folder, "raw-%d" % ((self._rank + 1) % self._world))
        began, read = time.monotonic(), 0
        with open(other, "rb", buffering=0) as file:
            piece = file.read(_CHUNK)
            while piece:
                read += len(piece)
                piece = file.read(_CHUNK)
        read_s = max(self._gather(time.monotonic() - began))
        read_bytes = sum(self._gather(read))
        self._wait_for_all()
        os.remove(mine)
        return {"bytes": float(read_bytes), "write_s": write_s, "read_s": read_s}

    def left_bytes(self) -> int:
        """What lies in the folder."""
        return sum(
            os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(self.folder) for name in names
        )

    def _described(self, path: str) -> Dict[str, Tuple[int, str]]:
        mine = [name for name in os.listdir(path) if name.startswith("__%d_" % self._rank)]
        if self._rank == 0:
            mine.append(".metadata")
        return {name: described(os.path.join(path, name)) for name in mine}

    def _mark(self, path: str, step: int, files: Mapping[str, Tuple[int, str]]) -> None:
        by = self._claim.who if self._claim else ""
        write_marker(path, json.dumps({"by": by, "files": files, "step": step, "world": self._world}))

    def _damage(self, step: int, marker: Mapping[str, Tuple[int, str]]) -> str:
        """What is wrong with the files; the ranks share the reading of their content."""
        path = os.path.join(self.folder, name_of(step))
        for number, (name, (size, checksum)) in enumerate(sorted(marker.items())):
            file = os.path.join(path, name)
            try:
                found = os.path.getsize(file)
                if found != size:
                    return "%s has %d bytes, the marker says %d" % (name, found, size)
                if number % self._world == self._rank and described(file)[1] != checksum:
                    return "%s is not what it was when it was written" % name
            except OSError as error:
                return "%s: %s" % (name, error.strerror)
        return ""

    def _seen_after(self, file: str) -> float:
        began = time.monotonic()
        while not os.path.exists(file):
            if time.monotonic() - began > self._visible_within_s:
                break
            time.sleep(_LOOK_EVERY_S)
        return time.monotonic() - began

    def _remove_old(self, newest: int) -> None:
        complete = [
            step
            for step in sorted(steps_in(self.folder))
            if step <= newest and not read_marker(os.path.join(self.folder, name_of(step)))[1]
        ]
        for step in complete[: -self._keep]:
            shutil.rmtree(os.path.join(self.folder, name_of(step)), ignore_errors=True)

    def _agreed(self, steps: List[int]) -> List[int]:
        """Rank 0's list for everyone: ranks that went by what each of them sees would wait for each other for ever."""
        words = [steps]
        dist.broadcast_object_list(words, src=0, group=self._group)
        return words[0]

    def _gather(self, value: Any) -> List[Any]:
        values = [None] * self._world
        dist.all_gather_object(values, value, group=self._group)
        return values

    def _wait_for_all(self) -> None:
        dist.barrier(group=self._group)


def _linked(source: str, target: str) -> None:
    """A checkpoint may be hundreds of GB: a second name for a file is enough where the file system has such."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _truncate(_folder: str, shard: str) -> None:
    os.truncate(shard, os.path.getsize(shard) - 1)


def _lose(_folder: str, shard: str) -> None:
    os.remove(shard)


def _unmark(folder: str, _shard: str) -> None:
    os.remove(os.path.join(folder, MARKER))


def _flip(_folder: str, shard: str) -> None:
    with open(shard, "r+b") as file:
        file.seek(os.path.getsize(shard) // 2)
        bits = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([bits ^ 1]))


_DAMAGES: Mapping[str, Callable[[str, str], None]] = {
    "truncated_by_a_byte": _truncate,
    "shard_missing": _lose,
    "marker_missing": _unmark,
    "flipped_bit": _flip,
}
