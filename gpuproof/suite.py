"""The words a check is written in: subjects, what is asked of them, and holding the answers against the profile.

Owns the types that files in `acceptance/` import. It must not know how a workload is run or how an answer is judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gpuproof.failure import JobFailure
from workloads.contract import Measurement


@dataclass(frozen=True)
class NodeSubject:
    """One node that the profile expects: a real one, or `missing-1` … where the pool has too few."""

    name: str
    missing: bool = False


@dataclass(frozen=True)
class ClusterSubject:
    """The cluster as a whole."""

    name: str = "cluster"


Subject = NodeSubject | ClusterSubject

Answer = Measurement | JobFailure
"""What came of asking: a measurement, or the reason why there is none."""


class Observe(Protocol):
    """Ask the API, without any pod, what it says about a subject."""

    def __call__(self, subject: Subject) -> Answer: ...


class RunWorkload(Protocol):
    """Run `workloads/NAME.py` on the subject, in one Job with the check's other subjects; wait for its answer."""

    def __call__(self, name: str, subject: NodeSubject) -> Answer: ...


class KillTraining(Protocol):
    """Kill a distributed training in this way (or go on elsewhere) and wait for what comes back of it."""

    def __call__(self, how: str, subject: ClusterSubject) -> Answer: ...


class Hold(Protocol):
    """Hold answers against every limit that the profile has for this check; the verdict is the test's outcome."""

    def __call__(self, *answers: Answer) -> None: ...
