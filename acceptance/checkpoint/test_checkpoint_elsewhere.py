"""Restored elsewhere: can other nodes finish the training from its checkpoints, to the same last bit?"""

import pytest

from gpuproof import ClusterSubject, Hold, KillTraining

pytestmark = pytest.mark.check("checkpoint_elsewhere", requires=["gpu_inventory", "cuda_runtime"])


def test_training_goes_on_on_other_nodes(cluster: ClusterSubject, kill_training: KillTraining, hold: Hold) -> None:
    """
    Why: a checkpoint that only the node that wrote it can read is lost with that node.

    Given: the checkpoints of the killed training, whose Job is deleted.
    When: a new Job, kept off the nodes that wrote them, goes on from the newest and trains to the end.
    Then: every tensor of weights and optimiser ends as in the training that nobody killed.
    """
    hold(kill_training("elsewhere", cluster))
