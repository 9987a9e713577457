"""Inventory: does the pool offer every node and every GPU that was paid for, and does a pod get what it asks for?"""

import pytest

from gpuproof import ClusterSubject, Hold, NodeSubject, Observe, RunWorkload

pytestmark = pytest.mark.check("gpu_inventory")


def test_pool_has_every_expected_node(cluster: ClusterSubject, observe: Observe, hold: Hold) -> None:
    """
    Why: a node that is missing from the pool is missing from every job, and no later check would ever ask it.

    Given: the profile's pool and the number of nodes it promises.
    When: the nodes of the cluster are listed.
    Then: exactly that many are in the pool.
    """
    hold(observe(cluster))


def test_node_offers_what_was_paid_for(
    node: NodeSubject, observe: Observe, run_workload: RunWorkload, hold: Hold
) -> None:
    """
    Why: capacity and allocatable can agree with each other and both be wrong; only the profile knows what was bought.

    Given: a node of the pool and a pod on it that asks for all GPUs the profile promises.
    When: the node object is read and workloads/gpu_inventory.py lists what the pod sees.
    Then: capacity, allocatable and the pod's own list agree with the profile, as do product and driver.
    """
    hold(observe(node), run_workload("gpu_inventory", node))
