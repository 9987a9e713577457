"""Eviction: does a training whose pod is evicted go on as the same training?"""

import pytest

from gpuproof import ClusterSubject, Hold, KillTraining

pytestmark = pytest.mark.check("checkpoint_evicted", requires=["checkpoint_killed_pod"])


def test_training_survives_an_eviction(cluster: ClusterSubject, kill_training: KillTraining, hold: Hold) -> None:
    """
    Why: nodes are drained for maintenance every week, and an eviction must not cost more than the pod.

    Given: the same training.
    When: one pod is evicted through the API, as a drain does it.
    Then: it saves within the grace period or resumes from the last save, and is the same training.
    """
    hold(kill_training("eviction", cluster))
