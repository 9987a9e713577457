"""What a run may cost at most, check by check: pods, and GPU-minutes by its deadlines. Runs nothing.

It must not know a cluster, a terminal or pytest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuproof.catalogue import Check
from gpuproof.expectation import State
from gpuproof.gang_params import read_params
from gpuproof.node_loss import KILL
from gpuproof.plan import Plan
from gpuproof.pod_shape import read_shape
from gpuproof.profile import Profile
from gpuproof.run_trainings import training_setup

_S_A_MINUTE = 60
_MINUTES_AN_HOUR = 60
_EXPERIMENTS = 2
"""So many of its experiments a check of the gang has at least; a localisation has more, and only where it must."""


@dataclass(frozen=True)
class Cost:
    """Of one check: how many subjects and pods it has, and for how many GPU-minutes it may hold GPUs."""

    check: str
    state: str
    subjects: int
    pods: int
    gpu_minutes: float


def costs(checks: Sequence[Check], profile: Profile, plan: Plan, folders: Sequence[Path]) -> tuple[Cost, ...]:
    """Each check in the order in which it is asked, with the time that its deadlines give its pods."""
    return tuple(_costs(checks, profile, plan, folders))


def gpu_hours(found: Sequence[Cost]) -> float:
    """All of them together, one after the other."""
    return sum(cost.gpu_minutes for cost in found) / _MINUTES_AN_HOUR


def _costs(checks: Sequence[Check], profile: Profile, plan: Plan, folders: Sequence[Path]) -> Iterator[Cost]:
    longest_s = profile.deadlines.starting_s + profile.deadlines.running_s
    present = sum(not node.missing for node in plan.nodes)
    gang = True
    for check in checks:
        state = profile.checks[check.name].state
        subjects = sum(subject.check == check.name for subject in plan.subjects)
        if state is State.NOT_APPLICABLE:
            yield Cost(check.name, str(state), subjects, 0, 0.0)
        elif check.kills:
            yield _of_a_kill(check, profile, folders, longest_s)
        elif check.experiments:
            # One gang for all that ask for experiments: its pods are counted where it is first asked for.
            seconds = read_params(profile.workloads.get(check.name, {})).experiment_timeout_s * _EXPERIMENTS
            gpus = present * profile.cluster.pod_gpus
            yield Cost(check.name, str(state), subjects, present if gang else 0, gpus * seconds / _S_A_MINUTE)
            gang = False
        else:
            shapes = [read_shape(workload, folders) for workload in check.workloads]
            gpus = present * sum(shape.gpus_of(profile.cluster.pod_gpus) for shape in shapes)
            yield Cost(check.name, str(state), subjects, len(shapes) * present, gpus * longest_s / _S_A_MINUTE)


def _of_a_kill(check: Check, profile: Profile, folders: Sequence[Path], longest_s: float) -> Cost:
    """The pods of one training for as long as it may take to start or to come back."""
    setup = training_setup(profile, {}, folders)
    lost_s = setup.loss.recover_within_s if setup.loss is not None and KILL in check.kills else 0.0
    seconds = max(longest_s, setup.shape.recover_within_s, lost_s)
    minutes = setup.shape.pods * setup.gpus * seconds / _S_A_MINUTE
    return Cost(check.name, str(profile.checks[check.name].state), 1, setup.shape.pods, minutes)
