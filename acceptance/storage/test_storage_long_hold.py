"""Long hold: does a file that is kept open on shared storage over the whole run still work at its end?"""

import pytest

from gpuproof import Hold, NodeSubject, RunWorkload

pytestmark = pytest.mark.check("storage_long_hold", requires=["gpu_inventory", "storage_semantics"])


def test_a_file_held_open_over_the_run_is_read_and_written_at_its_end(
    node: NodeSubject, run_workload: RunWorkload, hold: Hold
) -> None:
    """
    Why: a trainer holds its dataset and its log open for weeks; a handle that goes stale meanwhile ends it.

    Given: a pod on every node that has opened and written a file on the shared claim before the other checks ran.
    When: all other checks are through, and workloads/storage_hold.py uses the same open file again.
    Then: it is the same file, holds what was written, takes more, and its path still leads to it.
    """
    hold(run_workload("storage_hold", node))
