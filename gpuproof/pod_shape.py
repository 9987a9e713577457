"""What the pod of a program needs beside its image: GPUs, the RDMA resource, claims; read from the program's source.

A program says it in a literal `POD = {...}`, as it says its `PARAMETERS`. Owns that literal's keys and their meaning.
It must not know a profile's amounts, a manifest or a cluster.
"""

from __future__ import annotations

import ast
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ALL, NONE = "all", "none"
_KEYS = ("gpus", "rdma", "claims", "dataset", "containers", "tempted", "scratch", "kept", "beside", "image", "stays")
_SWITCHES = ("rdma", "dataset", "tempted", "scratch", "kept", "beside", "image", "stays")
RESERVED_CONTAINERS = ("measure", "hold")
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


class PodShapeError(ValueError):
    """A `POD` that is none: names the file, the key, what is there and what may be."""


@dataclass(frozen=True)
class PodShape:
    """The pod of one program; the default holds all GPUs of its node and nothing else.

    `gpus` is "all" (as many as the profile lets one pod hold), "none", or a number. `rdma` asks for the profile's RDMA
    resource, all of the node's. `claims` are names of the profile's `[storage]`, mounted at `/gpuproof/claims/NAME`.
    `dataset` mounts what is to be staged at `/gpuproof/dataset`, and scratch beside it.

    `containers` are further containers of the pod that run the same program, with their name in `GPUPROOF_CONTAINER`;
    they ask for no GPU and share `/gpuproof/shared` with `measure`. `tempted`: every container that asks for no GPU is
    told NVIDIA_VISIBLE_DEVICES=all, as many images do. `scratch`: an emptyDir at `/gpuproof/scratch`.

    `image`: the pod's image is the check's parameter `image` where it has one, instead of `[pod]`'s.

    `stays`: the pods run beside those of all later sweeps, from when nothing that their check needs is open to the
    end of the run; then the file `/gpuproof/told/word` is no longer empty, and they measure.

    `kept`: the pods stay, with all they hold, until the next sweep has ended; that one may be `beside` them, which
    other sweeps never are.
    """

    gpus: str | int = ALL
    rdma: bool = False
    claims: tuple[str, ...] = ()
    dataset: bool = False
    containers: tuple[str, ...] = ()
    tempted: bool = False
    scratch: bool = False
    kept: bool = False
    beside: bool = False
    image: bool = False
    stays: bool = False

    def gpus_of(self, gpus_per_pod: int) -> int:
        """How many GPUs one pod asks for, of the `gpus_per_pod` that it may hold."""
        if isinstance(self.gpus, int):
            return self.gpus
        return gpus_per_pod if self.gpus == ALL else 0


WHOLE_NODE = PodShape()
_PARSING = threading.Lock()


def parsed(text: str) -> ast.Module:
    """The tree of a source, also where several threads ask.

    CPython 3.11 counts the depth of trees in one place for all threads and fails where two overlap (gh-106905).
    """
    with _PARSING:
        return ast.parse(text)


def read_shape(workload: str, folders: Iterable[Path]) -> PodShape:
    """The shape that a program declares, looked for in `folders` in turn; raises `PodShapeError`."""
    for folder in folders:
        file = folder / f"{workload}.py"
        if file.is_file():
            return _declared(file)
    return WHOLE_NODE


def _declared(file: Path) -> PodShape:
    for item in parsed(file.read_text(encoding="utf-8")).body:
        if isinstance(item, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "POD" for t in item.targets):
            try:
                declared = ast.literal_eval(item.value)
            except ValueError as error:
                raise PodShapeError(
                    f"{file}: POD: expected a literal, it is read without running it: {error}"
                ) from error
            if not isinstance(declared, dict):
                raise PodShapeError(f"{file}: POD: expected a dict, found {type(declared).__name__}")
            return _shape(file, declared)
    return WHOLE_NODE


def _shape(file: Path, declared: Mapping[str, Any]) -> PodShape:
    unknown = sorted(str(key) for key in declared if key not in _KEYS)
    if unknown:
        raise PodShapeError(f"{file}: POD: unknown key {unknown[0]!r}; there are {', '.join(_KEYS)}")
    gpus = declared.get("gpus", ALL)
    if gpus not in (ALL, NONE) and not (type(gpus) is int and gpus > 0):
        raise PodShapeError(f'{file}: POD gpus: expected "all", "none" or a number above 0, found {gpus!r}')
    switches = {key: declared.get(key, False) for key in _SWITCHES}
    for key, value in switches.items():
        if not isinstance(value, bool):
            raise PodShapeError(f"{file}: POD {key}: expected True or False, found {value!r}")
    if switches["kept"] and switches["beside"]:
        raise PodShapeError(f"{file}: POD: kept and beside: the pods that stay are those of one sweep; take out one")
    if switches["stays"] and (gpus != NONE or switches["kept"] or switches["beside"]):
        raise PodShapeError(
            f'{file}: POD stays: such a pod must leave all GPUs to others: gpus "none", no kept, no beside'
        )
    claims = _names(file, declared, "claims", 'names of [storage] such as ["shared"]')
    containers = _names(file, declared, "containers", 'names of further containers such as ["bystander"]')
    for name in containers:
        if name in RESERVED_CONTAINERS:
            raise PodShapeError(f"{file}: POD containers: {name!r} is in every pod; choose another name")
    return PodShape(gpus, claims=claims, containers=containers, **switches)


def _names(file: Path, declared: Mapping[str, Any], key: str, expected: str) -> tuple[str, ...]:
    names = declared.get(key, [])
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) and _NAME.fullmatch(n) for n in names):
        raise PodShapeError(f"{file}: POD {key}: expected {expected}, found {names!r}")
    if len(set(names)) != len(names):
        raise PodShapeError(f"{file}: POD {key}: expected each name once, found {names!r}")
    return tuple(names)
