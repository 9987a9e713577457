"""Killed pod: does a training that loses one pod between two saves go on as the same training?"""

import pytest

from gpuproof import ClusterSubject, Hold, KillTraining

pytestmark = pytest.mark.check("checkpoint_killed_pod", requires=["gpu_inventory", "cuda_runtime"])


def test_training_survives_the_kill_of_one_pod(
    cluster: ClusterSubject, kill_training: KillTraining, hold: Hold
) -> None:
    """
    Why: a run that comes back without its optimiser, its schedule or its place in the data looks alive and is
    another run.

    Given: a distributed training that saves sharded checkpoints, owned by an Indexed Job.
    When: all ranks of one pod get SIGKILL between two saves.
    Then: it resumes from the newest complete checkpoint, and from there on has the same losses bit for bit,
    learning rates, sample ids and saved state as in a training that nobody killed.
    """
    hold(kill_training("one_pod", cluster))
