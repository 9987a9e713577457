"""Damaged checkpoint: is a checkpoint that is not what was written ever loaded without a word?"""

import pytest

from gpuproof import ClusterSubject, Hold, KillTraining

pytestmark = pytest.mark.check("checkpoint_damaged", requires=["checkpoint_elsewhere"])


def test_no_damaged_checkpoint_is_loaded(cluster: ClusterSubject, kill_training: KillTraining, hold: Hold) -> None:
    """
    Why: a bit that flipped at rest trains on in silence, and nobody looks for it in a checkpoint.

    Given: copies of the two newest checkpoints of a training.
    When: the newest loses a byte, a shard, its marker, or has one bit flipped, and the training is to resume.
    Then: each time it falls back to the one before or refuses; it never loads the damaged one.
    """
    hold(kill_training("damages", cluster))
