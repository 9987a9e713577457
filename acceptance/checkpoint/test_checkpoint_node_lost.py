"""Node lost: does a training whose node loses power go on as the same training on another one?"""

import pytest

from gpuproof import ClusterSubject, Hold, KillTraining

pytestmark = pytest.mark.check("checkpoint_node_lost", requires=["checkpoint_killed_pod"])


def test_training_survives_the_loss_of_a_node(cluster: ClusterSubject, kill_training: KillTraining, hold: Hold) -> None:
    """
    Why: a dead node tells nobody that its pods are gone, and until somebody says so no pod takes their place.

    Given: the same training, and a command of the site's that takes the power of a node.
    When: that command is run for the node of one pod.
    Then: the pod is made anew on another node, nobody else trains or writes in its name, and it is the same training.
    """
    hold(kill_training("node_lost", cluster))
