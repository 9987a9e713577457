"""Weights cache: how fast do model weights reach a node's own disk, and are they right and readable there?"""

import pytest

from gpuproof import Hold, NodeSubject, RunWorkload

pytestmark = pytest.mark.check("weights_cache", requires=["gpu_inventory", "storage_semantics"])


def test_weights_reach_the_node_whole_and_are_read_from_its_disk(
    node: NodeSubject, run_workload: RunWorkload, hold: Hold
) -> None:
    """
    Why: a server that scales out waits for its weights, and one that serves damaged ones answers nonsense.

    Given: the largest object of the profile's dataset, with its size and sha256, and an emptyDir on every node.
    When: workloads/weights_cache.py brings it there on all nodes at once, reads it cold and warm, and verifies it.
    Then: it came whole, and what the node's disk holds is what the manifest says.
    """
    hold(run_workload("weights_cache", node))
