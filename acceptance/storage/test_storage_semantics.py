"""Semantics of shared storage: does every node's mount do what checkpoints and datasets rely on, also between nodes?"""

import pytest

from gpuproof import Hold, NodeSubject, RunWorkload

pytestmark = pytest.mark.check("storage_semantics", requires=["gpu_inventory"])


def test_every_capability_works_on_and_between_nodes(node: NodeSubject, run_workload: RunWorkload, hold: Hold) -> None:
    """
    Why: a rename that is not supported, a lock that is not one or a write that is lost breaks a checkpoint days later.

    Given: a pod on every node at the same time, all with the profile's shared claim.
    When: workloads/storage_semantics.py tries each capability on its node and then, with its peers, between nodes.
    Then: each capability works, every peer's data is read as it was written and soon enough, and locks exclude.
    """
    hold(run_workload("storage_semantics", node))
