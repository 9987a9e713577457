"""All pods killed: does a training that loses every pod at once go on as the same training?"""

import pytest

from gpuproof import ClusterSubject, Hold, KillTraining

pytestmark = pytest.mark.check("checkpoint_all_killed", requires=["gpu_inventory", "cuda_runtime"])


def test_training_survives_the_kill_of_every_pod(
    cluster: ClusterSubject, kill_training: KillTraining, hold: Hold
) -> None:
    """
    Why: after a power failure nobody is left who remembers anything but the storage.

    Given: the same training.
    When: the ranks of every pod get SIGKILL at once.
    Then: it resumes from the newest complete checkpoint and is the same training.
    """
    hold(kill_training("all_pods", cluster))
