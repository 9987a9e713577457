"""Killed inside a save: is a checkpoint that was being written never taken for a whole one?"""

import pytest

from gpuproof import ClusterSubject, Hold, KillTraining

pytestmark = pytest.mark.check("checkpoint_killed_in_save", requires=["checkpoint_killed_pod"])


def test_training_survives_a_kill_inside_a_save(
    cluster: ClusterSubject, kill_training: KillTraining, hold: Hold
) -> None:
    """
    Why: a kill inside a save leaves half a checkpoint, which must neither be loaded nor be in the way of the next save.

    Given: the same training, which tells the beginning and the end of each save.
    When: one pod gets SIGKILL after the beginning and before the end of a save.
    Then: it resumes from the save before, passes that step, saves there again, and is the same training.
    """
    hold(kill_training("in_save", cluster))
