"""What a gang's leader says line by line, read and checked: who is there, and what became of each group.

Owns the shape of those lines as the harness reads them (`workloads/gang_leader.py` writes them). It must not know a
limit, a pod or who asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

NodeOutcome = Literal["measured", "hung", "died", "aborted", "broken", "lost"]


class _Said(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Hello(_Said):
    """One agent, as it introduced itself: the pod's index, pod, node, and its RDMA ports (name, active, state)."""

    index: int
    node: str
    pod: str
    ports: tuple[tuple[str, bool, str], ...] = ()


class Timed(_Said):
    """One collective at one size: the slowest rank's seconds a repeat, and wrong elements over all ranks."""

    collective: str
    bytes: int
    moved_bytes: int
    seconds: tuple[float, ...]
    wrong: int


class RankProgress(_Said):
    """How far a rank came: its last stage, how many sizes it began, and which was the last."""

    stage: str
    begun: int = 0
    at: tuple[str, int] | None = None


class Ports(_Said):
    """What went through a pod's RDMA adapters during an experiment."""

    ports: int = 0
    active: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    down: tuple[str, ...] = ()


class KnownError(_Said):
    """A known error in the log of a library: its class, its cause in words, and the line that shows it."""

    kind: str = Field(alias="class")
    cause: str
    line: str = ""


class NcclLog(_Said):
    """What the NCCL logs of a node's ranks say: ranks read, networks, versions, ranks that use each way."""

    ranks: int
    networks: tuple[str, ...]
    versions: tuple[str, ...]
    ranks_by_way: Mapping[str, int]
    errors: tuple[KnownError, ...] = ()


class NodePart(_Said):
    """One node's part in a group."""

    outcome: NodeOutcome
    rdma: Ports = Ports()
    interfaces: tuple[str, ...] = ()
    nccl: NcclLog | None = None
    errors: tuple[KnownError, ...] = ()
    refused: tuple[str, ...] = ()
    versions: Mapping[str, str] = {}
    dead_rank: int | None = None
    exit_code: int | None = None
    said: str = ""
    census: Mapping[str, RankProgress] = {}
    wrong: int = 0


class GroupPart(_Said):
    """What became of one group; `nodes` by the pods' indexes."""

    outcome: NodeOutcome
    world: int = 0
    hosts: int = 0
    results: tuple[Timed, ...] = ()
    nodes: Mapping[int, NodePart] = {}


class GroupLine(_Said):
    """A group of an experiment, named by the order's number and its place in it."""

    number: int
    place: int
    group: tuple[int, ...]
    result: GroupPart


def says(line: Mapping[str, Any], key: str, number: int) -> bool:
    """Whether a line is the one with this key about the order of this number."""
    return key in line and line.get("number", line.get(key)) == number
