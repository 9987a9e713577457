"""Graceful stop: is a pod that is told to end replaced, and not counted as done?"""

import pytest

from gpuproof import ClusterSubject, Hold, KillTraining

pytestmark = pytest.mark.check("checkpoint_stopped", requires=["checkpoint_killed_pod"])


def test_training_survives_a_graceful_delete(cluster: ClusterSubject, kill_training: KillTraining, hold: Hold) -> None:
    """
    Why: a pod that saves and exits 0 on SIGTERM counts as completed, and its rank never comes back.

    Given: the same training.
    When: one pod is deleted with its grace period.
    Then: a new pod takes its place, nothing after the save on SIGTERM is lost, and it is the same training.
    """
    hold(kill_training("graceful", cluster))
