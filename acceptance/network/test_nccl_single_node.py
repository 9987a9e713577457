"""One node by itself: do its GPUs exchange data as fast and as rightly as one node's GPUs must?"""

import pytest

from gpuproof import Hold, NodeSubject, RunExperiment

pytestmark = pytest.mark.check("nccl_single_node", requires=["gpu_inventory", "cuda_runtime"])


def test_gpus_of_a_node_exchange_data(node: NodeSubject, run_experiment: RunExperiment, hold: Hold) -> None:
    """
    Why: a node that is slow or wrong by itself spoils every set it is part of, and no cable is to blame for it.

    Given: a gang with a pod on every node, each holding all GPUs of its node.
    When: the ranks of each node all-reduce among themselves, all nodes at the same time.
    Then: bus bandwidth reaches the floor at each size, no element is wrong, and no rank hangs or dies.
    """
    hold(run_experiment("alone", node))
