"""Owns what an experiment and a job cost in seconds. Committed before the planner.

A published scheme of one job a probe needs about 28 minutes for 7 rounds on 232 nodes: 240 s a round. `PUBLISHED` puts
into `pods_s` what of that is left beside start, communicator and transfer; `QUICK` is a cluster with everything cached,
which is the less favourable comparison for a gang, as it saves less. The rest are assumptions, the same for both sides.
"""

import math
from dataclasses import dataclass

RANKS_PER_NODE = 8
COLD_START_S = 15.0
"""Python, torch and a CUDA context from nothing: measured for 16 ranks on two cores (without CUDA)."""
FORK_S = 3.6
"""A rank from a process that has torch imported (0.6 s, measured), and its CUDA context (3 s, assumed)."""
REAP_S = 1.0
WARM_UPS = 5
MESSAGE_GB = 8.59
TRANSFER_LIMIT_S = 10.0
"""A group is ended here with the repeats it has; a hung one is killed here."""


@dataclass(frozen=True)
class Cluster:
    """Seconds from a Job's creation to its last container running, and from its end to its GPUs free, together."""

    name: str
    pods_s: float


PUBLISHED = Cluster("as published", 208.0)
QUICK = Cluster("everything cached", 50.0)


def communicator_s(nodes: int) -> float:
    """Return the time of rendezvous and communicator set-up: one second, and half a second a doubling of ranks."""
    return 1.0 + 0.5 * math.log2(nodes * RANKS_PER_NODE)


def iteration_s(nodes: int, busbw_gb_per_s: float) -> float:
    """Return the time of one all-reduce: bytes x 2 (n - 1) / n over the bus bandwidth."""
    ranks = nodes * RANKS_PER_NODE
    return MESSAGE_GB * 2 * (ranks - 1) / ranks / busbw_gb_per_s


def group_s(nodes: int, iterations_s: float) -> float:
    """Return the time of one group of an experiment inside a gang."""
    return FORK_S + communicator_s(nodes) + min(iterations_s, TRANSFER_LIMIT_S) + REAP_S


def job_s(cluster: Cluster, nodes: int, iterations_s: float) -> float:
    """Return the time of the same group as a job of its own."""
    return cluster.pods_s + COLD_START_S + communicator_s(nodes) + min(iterations_s, TRANSFER_LIMIT_S) + REAP_S
