"""Trainings outside pods: launchers as plain processes, killed and replaced, judged by the simulated profile's limits.

    python -m tests.workloads.training_outside --clean 50      # the trainer's own stability, kinds in turn
    python -m tests.workloads.training_outside --out FILE      # some clean kills and every faulty trainer, as JSON

torch is imported once; every launcher and rank is a fork. A faulty trainer is the real one with the source text of a
fault file (`patch-workload`) exchanged.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

# Not used here: what launchers and ranks need is imported before they are forked.
import torch._dynamo
import torch.distributed.checkpoint
import torch.distributed.fsdp  # noqa: F401

import workloads
from gpuproof.catalogue import load_checks, subjects_asked
from gpuproof.continuation import (
    Killed,
    Line,
    Where,
    complete_saves,
    cut_in_two,
    judge,
    judge_damages,
    judge_final,
    landed,
    last_step,
    open_save,
)
from gpuproof.finding import Context
from gpuproof.profile import THRESHOLDS, load_profile
from gpuproof.training_kills import Kill, Planned, Shape, plan_kills, steps_needed
from gpuproof.verdict import judge as verdict_of
from simcluster.faults.file import Fault, PatchWorkload, all_faults
from workloads.contract import Measurement
from workloads.line_stream import load, parse_line

WORLD = 2
SAVE_EVERY = 3
WITHIN_S = 60.0
FAULTY_WITHIN_S = 20.0
"""What hangs is waited for so long; all else ends by itself."""
HOPELESS = 3
"""So many lives after one kill without getting on are a loop of crashes."""
CHECK_OF = {
    Kill.ONE_POD: "checkpoint_killed_pod",
    Kill.IN_SAVE: "checkpoint_killed_in_save",
    Kill.EVICTION: "checkpoint_evicted",
    Kill.GRACEFUL: "checkpoint_stopped",
    Kill.ALL_PODS: "checkpoint_all_killed",
}
IN_PODS_ONLY = {"trainers-share-a-folder"}
"""What takes several trainings at once."""
SHAPE = Shape(WORLD, 1, SAVE_EVERY, WITHIN_S, WITHIN_S)
DAMAGES = ["truncated_by_a_byte", "shard_missing", "marker_missing", "flipped_bit"]


@dataclass
class World:
    """The launchers of one training; one that ends with an exit code other than 0 is started anew, as by a Job."""

    params: Mapping[str, Any]
    patched: Path | None
    folder: Path
    restarts: bool = True
    lines: list[Line] = field(default_factory=list)
    completed: set[int] = field(default_factory=set)
    _launchers: dict[int, int] = field(default_factory=dict)
    _pipes: dict[int, int] = field(default_factory=dict)
    _rests: dict[int, bytes] = field(default_factory=dict)
    _port: int = 0

    def __enter__(self) -> World:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        for index in range(WORLD):
            self._start(index)
        return self

    def __exit__(self, *_: object) -> None:
        for index in list(self._launchers):
            self.kill_ranks(index)
            os.kill(self._launchers[index], signal.SIGKILL)
            os.waitpid(self._launchers[index], 0)
        for pipe in self._pipes.values():
            os.close(pipe)

    def kill_ranks(self, index: int) -> None:
        """SIGKILL, as a command in the container would send it."""
        for pid in (self.folder / f"ranks-{index}").read_text().split():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                continue

    def terminate(self, index: int) -> None:
        """SIGTERM to process 1."""
        os.kill(self._launchers[index], signal.SIGTERM)

    def until(self, happened: Callable[[], bool], within_s: float = WITHIN_S) -> bool:
        """Read lines and replace what ended until it has happened; whether it did in time."""
        until = time.monotonic() + within_s
        while not happened():
            if time.monotonic() > until or (not self._launchers and not self._pipes):
                return False
            self._attend()
        return True

    @property
    def ended(self) -> bool:
        """Whether every rank has finished."""
        return self.completed == set(range(WORLD))

    def _start(self, index: int) -> None:
        read, write = os.pipe()
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            _be_launcher(index, write, self)
        os.close(write)
        self._launchers[index], self._pipes[index], self._rests[index] = pid, read, b""

    def _attend(self) -> None:
        import select  # noqa: PLC0415 - beside its only use

        ready, _, _ = select.select(list(self._pipes.values()), [], [], 0.02)
        for index, pipe in list(self._pipes.items()):
            if pipe in ready:
                self._read(index, pipe)
        for index, pid in list(self._launchers.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            del self._launchers[index]
            if os.waitstatus_to_exitcode(status) == 0:
                self.completed.add(index)
            elif self.restarts:
                while index in self._pipes:
                    self._read(index, self._pipes[index])
                self._start(index)

    def _read(self, index: int, pipe: int) -> None:
        piece = os.read(pipe, 1 << 16)
        if not piece:
            os.close(self._pipes.pop(index))
            return
        *whole, self._rests[index] = (self._rests[index] + piece).split(b"\n")
        for text in whole if index == 0 else []:
            self._take(text.decode())

    def _take(self, text: str) -> None:
        line = parse_line(text)
        if line is None:
            return
        self._pieces = getattr(self, "_pieces", "") + line.piece
        if not line.more:
            value, self._pieces = load(self._pieces), ""
            if "e" in value:
                self.lines.append(Line(time.monotonic(), value))


def _be_launcher(index: int, pipe: int, world: World) -> NoReturn:
    code = 1
    try:
        os.dup2(pipe, 1)
        log = os.open(world.folder / f"log-{index}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 2)
        os.environ |= {
            "JOB_COMPLETION_INDEX": str(index),
            "GPUPROOF_MASTER_PORT": str(world._port),
            "GPUPROOF_PIDS": str(world.folder / f"ranks-{index}"),
            "GPUPROOF_PARAMS": json.dumps(dict(world.params)),
            "GPUPROOF_NODE": f"node-{index}",
        }
        if world.patched is not None:
            workloads.__path__.insert(0, str(world.patched))
        from workloads import training  # noqa: PLC0415 - after the fork: each launcher has its own, perhaps faulty, one

        code = training.main()
    except BaseException:  # noqa: BLE001 - a process ends here
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


@dataclass(frozen=True)
class Came:
    """What became of one kill."""

    check: str
    verdict: str
    reasons: tuple[str, ...]


class Bench:
    """A folder, the reference, and the limits everything is held to."""

    def __init__(self, folder: Path, parallelism: str) -> None:
        self._folder, self._count, self._parallelism = folder, 0, parallelism
        checks = subjects_asked(load_checks())
        today = dt.datetime.now(dt.UTC).date()
        self._profile = load_profile(profile_with(parallelism, folder), known_checks=checks, today=today)
        self.reference = self._uninterrupted()

    def _params(self, place: Path, **more: Any) -> dict[str, Any]:
        given = dict(self._profile.workloads["checkpoint_killed_pod"])
        given |= {
            "pods": WORLD,
            "parallelism": self._parallelism,
            "save_every": SAVE_EVERY,
            "parameters": 1000,
            "join_s": 30,
            "collective_s": 20,
        }
        return {**given, "steps": steps_needed(1, SAVE_EVERY), "folder": str(place / "checkpoints"), **more}

    def _place(self) -> Path:
        self._count += 1
        place = self._folder / str(self._count)
        place.mkdir()
        return place

    def _uninterrupted(self) -> Sequence[Line]:
        place = self._place()
        with World(self._params(place), None, place) as world:
            if not world.until(lambda: world.ended):
                raise RuntimeError(f"the reference does not end: {(place / 'log-0').read_text()[-2000:]}")
        return world.lines

    def killed(self, kill: Kill, fault: Fault | None = None) -> Came:
        """One training, killed once; what the profile's limits make of it."""
        place = self._place()
        (planned,) = plan_kills([kill], SHAPE)
        patched = None if fault is None else patched_sources(fault, place)
        slow = {"collective_s": 4, "join_s": 6} if fault else {}
        with World(self._params(place, holds=[planned.hold], **slow), patched, place) as world:
            started = world.until(lambda: _ready(world, planned))
            told, at_s = len(world.lines), time.monotonic()
            if started:
                _strike(world, planned)
                world.until(lambda: _recovered(world, planned, told), FAULTY_WITHIN_S if fault else WITHIN_S)
            met = next((n for n in range(told, len(world.lines)) if world.lines[n].kind == "joined"), len(world.lines))
            before, after = world.lines[:met], world.lines[met:]
        dead = Killed(str(kill), planned.where, planned.step, at_s, counted_as_completed=_completed(world, after))
        missed = landed(before, dead) if started else "never came to the place of the kill"
        came = Came(CHECK_OF[kill], "ERROR", (missed,)) if missed else self._held(CHECK_OF[kill], before, after, dead)
        shutil.rmtree(place)
        return came

    def _held(self, check: str, before: Sequence[Line], after: Sequence[Line], dead: Killed) -> Came:
        samples, facts = judge(self.reference, before, after, dead)
        return self._judged(check, Measurement("training", "", "", "", WORLD, 1, samples, facts))

    def _judged(self, check: str, measurement: Measurement) -> Came:
        context = Context(self._profile.cluster)
        said = verdict_of(check, "cluster", measurement, self._profile.limits_for(check), context)
        return Came(check, str(said.verdict), said.reasons)

    def damaged(self, fault: Fault | None = None) -> Came:
        """One training to its end, then every damage to a copy of its newest checkpoint."""
        place = self._place()
        patched = None if fault is None else patched_sources(fault, place)
        with World(self._params(place, damages=DAMAGES, parameters=1_000_000), patched, place) as world:
            world.until(lambda: world.ended)
        facts = judge_damages(world.lines)
        samples, _ = judge_final(self.reference, world.lines)
        shutil.rmtree(place)
        return self._judged("checkpoint_damaged", Measurement("training", "", "", "", WORLD, 1, samples, facts))


def profile_with(parallelism: str, folder: Path) -> Path:
    """The simulated profile for this kind of training: its parameter and its limit say so."""
    shutil.copytree(THRESHOLDS / "datasets", folder / "datasets", dirs_exist_ok=True)
    profile = folder / f"simulated-{parallelism}.toml"
    text = (THRESHOLDS / "simulated.toml").read_text(encoding="utf-8")
    profile.write_text(text.replace('"ddp"', f'"{parallelism}"'), encoding="utf-8")
    return profile


def patched_sources(fault: Fault, place: Path) -> Path:
    """The workloads with the fault's text exchanged; raises where a text is not there exactly once."""
    folder = place / "patched"
    shutil.copytree(Path(workloads.__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for action in fault.action:
        if isinstance(action, PatchWorkload):
            file = folder / action.file
            file.write_text(action.applied(file.read_text(encoding="utf-8")), encoding="utf-8")
    return folder


def _completed(world: World, after: Sequence[Line]) -> bool:
    return bool(world.completed) and not any(line.kind == "step" for line in after)


def _ready(world: World, planned: Planned) -> bool:
    if planned.where is Where.SAVE:
        return cut_in_two(world.lines, planned.step)
    return last_step(world.lines) >= planned.step and open_save(world.lines) is None


def _recovered(world: World, planned: Planned, told: int) -> bool:
    met = next((n for n in range(told, len(world.lines)) if world.lines[n].kind == "joined"), len(world.lines))
    before, after = world.lines[:met], world.lines[met:]
    if sum(line.kind == "ended" for line in after) >= HOPELESS:
        return True
    saved = any(step >= planned.step for step in complete_saves(after))
    return (saved and last_step(after) > last_step(before)) or bool(world.completed)


def _strike(world: World, planned: Planned) -> None:
    if planned.kill in (Kill.EVICTION, Kill.GRACEFUL):
        world.terminate(planned.index)
        return
    for index in range(WORLD) if planned.kill is Kill.ALL_PODS else [planned.index]:
        world.kill_ranks(index)


def faulty_trainers() -> Iterator[tuple[Fault, Kill | None]]:
    """Every fault that only exchanges the trainer's text, with the kill (None: the damages) that must show it."""
    kills: dict[str, Kill | None] = {check: kill for kill, check in CHECK_OF.items()}
    kills["checkpoint_damaged"] = None
    for fault in all_faults():
        check = fault.expects[0].check
        if (
            fault.id not in IN_PODS_ONLY
            and check in kills
            and all(isinstance(action, PatchWorkload) for action in fault.action)
        ):
            yield fault, kills[check]


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--clean", type=int, default=0, help="only so many clean kill-and-resume runs")
    parser.add_argument("--only", help="only the faulty trainer of this fault")
    parser.add_argument("--out", type=Path, help="write what came of each as JSON")
    parser.add_argument("--parallelism", choices=["ddp", "fsdp"], default="ddp")
    options = parser.parse_args()
    found: dict[str, Came] = {}
    with tempfile.TemporaryDirectory(prefix="training-outside-", dir=os.environ.get("TMPDIR")) as folder:
        bench = Bench(Path(folder), options.parallelism)
        kinds = list(CHECK_OF) if options.clean else [Kill.ONE_POD, Kill.IN_SAVE, Kill.GRACEFUL]
        for number in range(options.clean or (0 if options.only else len(kinds))):
            kill = kinds[number % len(kinds)]
            found[f"clean-{number + 1}-{kill}"] = bench.killed(kill)
        if not options.clean:
            if not options.only:
                found["clean-damages"] = bench.damaged()
            for fault, shown_by in faulty_trainers():
                if options.only in (None, fault.id):
                    found[fault.id] = bench.damaged(fault) if shown_by is None else bench.killed(shown_by, fault)
    for name, came in found.items():
        sys.stdout.write(f"{came.verdict:<6} {name}: {'; '.join(came.reasons)}\n")
    if options.out:
        options.out.write_text(json.dumps({name: vars(came) for name, came in found.items()}), encoding="utf-8")
    clean = [came.verdict == "PASS" for name, came in found.items() if name.startswith("clean")]
    sys.stdout.write(f"{sum(clean)} of {len(clean)} clean runs passed\n")
    return 0 if all(clean) else 1


if __name__ == "__main__":
    raise SystemExit(main())
