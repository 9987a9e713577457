"""RDMA isolation: does a pod that asked for no RDMA adapter get none?"""

import pytest

from gpuproof import Hold, NodeSubject, RunWorkload

pytestmark = pytest.mark.check("rdma_isolation", requires=["gpu_inventory"])


def test_nothing_asked_nothing_opened(node: NodeSubject, run_workload: RunWorkload, hold: Hold) -> None:
    """
    Why: who can open an adapter reads, writes and slows a network that is not accounted to it.

    Given: a pod that asks for no RDMA.
    When: it tries the device files and libibverbs.
    Then: it can open no adapter.
    """
    hold(run_workload("rdma_none", node))
