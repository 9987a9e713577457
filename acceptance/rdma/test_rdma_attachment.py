"""RDMA attachment: does a pod get the adapters that were bought, usable, and with ports that are fit for traffic?"""

import pytest

from gpuproof import Hold, NodeSubject, Observe, RunWorkload

pytestmark = pytest.mark.check("rdma_attachment", requires=["gpu_inventory"])


def test_adapters_are_attached_and_usable(
    node: NodeSubject, observe: Observe, run_workload: RunWorkload, hold: Hold
) -> None:
    """
    Why: without RDMA in the pod a job runs all the same, over the pod network, many times slower.

    Given: a pod that gets RDMA in the way that the profile says.
    When: it lists its adapters, opens each, pins memory, makes a queue pair, and reads the state of every port.
    Then: adapters are as many as bought, all are usable, every port is active, at rate and addressed, as on all nodes.
    """
    hold(observe(node), run_workload("rdma_attachment", node))
