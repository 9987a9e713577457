"""What the pod of a program needs beside its image: GPUs, the RDMA resource, claims; read from the program's source.

A program says it in a literal `POD = {...}`, as it says its `PARAMETERS`. Owns that literal's keys and their meaning.
It must not know a profile's amounts, a manifest or a cluster.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ALL, NONE = "all", "none"
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


class PodShapeError(ValueError):
    """A `POD` that is none: names the file, the key, what is there and what may be."""


@dataclass(frozen=True)
class PodShape:
    """The pod of one program; the default holds all GPUs of its node and nothing else.

    `gpus` is "all" (as many as the profile expects of a node) or "none". `rdma` asks for the profile's RDMA resource,
    all of the node's. `claims` are names of the profile's `[storage]`, mounted at `/gpuproof/claims/NAME`.
    """

    gpus: str = ALL
    rdma: bool = False
    claims: tuple[str, ...] = ()

    def gpus_of(self, gpus_per_node: int) -> int:
        """How many GPUs one pod asks for."""
        return gpus_per_node if self.gpus == ALL else 0


WHOLE_NODE = PodShape()


def read_shape(workload: str, folders: Iterable[Path]) -> PodShape:
    """The shape that a program declares, looked for in `folders` in turn; raises `PodShapeError`."""
    for folder in folders:
        file = folder / f"{workload}.py"
        if file.is_file():
            return _declared(file)
    return WHOLE_NODE


def _declared(file: Path) -> PodShape:
    for item in ast.parse(file.read_text(encoding="utf-8")).body:
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
    unknown = sorted(str(key) for key in declared if key not in ("gpus", "rdma", "claims"))
    if unknown:
        raise PodShapeError(f"{file}: POD: unknown key {unknown[0]!r}; there are gpus, rdma and claims")
    gpus, rdma, claims = declared.get("gpus", ALL), declared.get("rdma", False), declared.get("claims", [])
    if gpus not in (ALL, NONE):
        raise PodShapeError(f'{file}: POD gpus: expected "all" or "none", found {gpus!r}')
    if not isinstance(rdma, bool):
        raise PodShapeError(f"{file}: POD rdma: expected True or False, found {rdma!r}")
    if not isinstance(claims, (list, tuple)) or not all(isinstance(c, str) and _NAME.fullmatch(c) for c in claims):
        raise PodShapeError(f'{file}: POD claims: expected names of [storage] such as ["shared"], found {claims!r}')
    return PodShape(gpus, rdma, tuple(claims))
