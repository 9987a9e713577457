"""Storage under load: is shared storage still fast when all nodes use it at once, and is no node left behind?"""

import pytest

from gpuproof import Hold, NodeSubject, RunWorkload

pytestmark = pytest.mark.check("storage_under_load", requires=["gpu_inventory", "storage_semantics"])


def test_all_nodes_read_and_write_at_once_for_a_sustained_window(
    node: NodeSubject, run_workload: RunWorkload, hold: Hold
) -> None:
    """
    Why: storage that is fast for one node, or for half a minute, can starve a whole cluster; the slowest node decides.

    Given: a pod on every node at the same time, all with the profile's shared claim.
    When: workloads/storage_load.py writes on all nodes, reads on one alone, then on all of them, for a window each.
    Then: the rate holds until the end of the window, all together get what one gets, no node falls behind.
    """
    hold(run_workload("storage_load", node))
