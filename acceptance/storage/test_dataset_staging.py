"""Dataset staging: does the dataset reach the nodes whole and verified, and fast enough when all stage at once?"""

import pytest

from gpuproof import Hold, NodeSubject, RunWorkload

pytestmark = pytest.mark.check("dataset_staging", requires=["gpu_inventory", "storage_semantics"])


def test_every_object_is_right_on_every_node(node: NodeSubject, run_workload: RunWorkload, hold: Hold) -> None:
    """
    Why: an object that is cut, damaged or half there on one node ruins a training run without an error.

    Given: the profile's dataset with the size and sha256 of each object, and its shared claim on every node.
    When: one node stages it alone, then all nodes at once, to the claim and to their own disk, and each reads it all.
    Then: every object is right from every node, nothing was ever visible in part, and staging keeps up with a copy.
    """
    hold(run_workload("dataset_staging", node))
