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


@dataclass(frozen=True)
class GangSubject(ClusterSubject):
    """The cluster as a whole, by one pod on each of its nodes at the same time."""


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


class RunExperiment(Protocol):
    """Run an experiment of the gang (one pod a node, all GPUs, for all network checks together); wait for its answer.

    `alone` and `transport` answer for a node; `whole`, `ladder` and `localisation` for the gang.
    """

    def __call__(self, name: str, subject: Subject) -> Answer: ...


class ReadExporter(Protocol):
    """Read the metrics exporter of a node, beside what a pod on it saw of its GPUs."""

    def __call__(self, subject: NodeSubject, seen: Answer) -> Answer: ...


class ReadPrometheus(Protocol):
    """Read what Prometheus keeps of a node's GPUs, beside what a pod on it saw of them."""

    def __call__(self, subject: NodeSubject, seen: Answer) -> Answer: ...


class FollowLoad(Protocol):
    """What the node's metrics exporter told while a load of this check held its GPUs, and after it."""

    def __call__(self, subject: NodeSubject, load: Answer) -> Answer: ...


class TryClaims(Protocol):
    """Make, bind, look at and delete a claim on each storage of the profile; what came of it."""

    def __call__(self, subject: ClusterSubject) -> Answer: ...


class ReadPull(Protocol):
    """Read what the node's kubelet says of the image of a pod that ran there; `which` tells pods of one check apart."""

    def __call__(self, subject: NodeSubject, ran: Answer, which: str) -> Answer: ...


class Hold(Protocol):
    """Hold answers against every limit that the profile has for this check; the verdict is the test's outcome."""

    def __call__(self, *answers: Answer) -> None: ...
