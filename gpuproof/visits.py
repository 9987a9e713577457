"""What is asked of a sweep and what comes back for each node: values only.

It must not know how nodes are visited.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuproof.expectation import Dataset, Deadlines
from gpuproof.failure import JobFailure
from gpuproof.pod_shape import WHOLE_NODE, PodShape
from workloads.contract import Measurement


@dataclass(frozen=True)
class SweepRequest:
    """One workload, once on each of `candidates` (names of expected nodes in scope).

    `excluded` are nodes of the pool that must not be touched; nodes of the pool that are no candidates are not either.
    Of the deadlines, `scheduling_s` counts from the last sign of progress: a large sweep is placed over a while.
    """

    check: str
    workload: str
    params: Mapping[str, Any]
    candidates: tuple[str, ...]
    gpus_per_pod: int
    deadlines: Deadlines
    world_size: int = 1
    shape: PodShape = WHOLE_NODE
    dataset: Dataset | None = None
    excluded: tuple[str, ...] = ()
    call: threading.Event | None = None
    """For a shape that stays: set when its pods shall measure."""


@dataclass(frozen=True)
class Timings:
    """Seconds since the Job of this pod was created, as the harness saw them."""

    scheduled_s: float
    started_s: float
    measured_s: float


@dataclass(frozen=True)
class Visited:
    """A node whose pod measured. `index` is the completion index within its Job, -1 if the pod does not say."""

    node: str
    pod: str
    index: int
    measurement: Measurement
    timings: Timings


@dataclass(frozen=True)
class NotVisited:
    """A node without a measurement that counts, and why. `pod` is None where no pod of ours was on it."""

    node: str
    pod: str | None
    failure: JobFailure


Result = Visited | NotVisited
