"""RDMA rails: does every adapter reach its rail on the other nodes, at rate, and without counting errors?"""

import pytest

from gpuproof import Hold, NodeSubject, RunWorkload

pytestmark = pytest.mark.check("rdma_rails", requires=["rdma_attachment", "storage_semantics"])


def test_rails_carry_traffic_at_rate_and_without_errors(
    node: NodeSubject, run_workload: RunWorkload, hold: Hold
) -> None:
    """
    Why: a cable in the wrong port, or one that loses bits, shows in no port's state and slows every ring through it.

    Given: a pod on every node at the same time, all with RDMA; they meet over the profile's shared claim.
    When: each adapter tries every adapter of the next nodes, and then sends to its rail while it receives from it.
    Then: each reaches its rail on most nodes, at rate both ways, its counters tell those bytes and no error.
    """
    hold(run_workload("rdma_rails", node))
