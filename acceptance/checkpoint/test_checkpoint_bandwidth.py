"""Checkpoint bandwidth: how fast are checkpoints written and read, beside plain files on the same path?"""

import pytest

from gpuproof import ClusterSubject, Hold, KillTraining

pytestmark = pytest.mark.check("checkpoint_bandwidth", requires=["checkpoint_elsewhere"])


def test_checkpoints_are_written_and_read_fast(
    cluster: ClusterSubject, kill_training: KillTraining, hold: Hold
) -> None:
    """
    Why: the time that a training stands still for its checkpoints, and the time to come back, are paid in GPU hours.

    Given: the trainings of the other checks, with checkpoints of the size that the profile says.
    When: each save is timed with fsync, the read is done by nodes that did not write, and plain files are written
    and read on the same path.
    Then: both rates are known, and reach what the profile promises.
    """
    hold(kill_training("bandwidth", cluster))
