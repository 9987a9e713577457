"""Versions: do all nodes run the same driver, image and firmware, and does the driver run the image's CUDA?"""

import pytest

from gpuproof import Hold, NodeSubject, RunWorkload

pytestmark = pytest.mark.check("gpu_versions", requires=["gpu_inventory"])


def test_nodes_of_one_pool_run_the_same(node: NodeSubject, run_workload: RunWorkload, hold: Hold) -> None:
    """
    Why: ranks with different versions fail at the start of a job or disagree in the middle of it, on any node but one.

    Given: a pod that holds all GPUs of the node.
    When: workloads/gpu_inventory.py reads the driver, CUDA and NCCL of the image, and the firmware of the boards.
    Then: each is what most nodes have, and the driver is new enough for the image's CUDA.
    """
    hold(run_workload("gpu_inventory", node))
