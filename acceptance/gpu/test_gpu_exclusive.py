"""Exclusive use: do two pods on a node get different GPUs?"""

import pytest

from gpuproof import Hold, NodeSubject, RunWorkload

pytestmark = pytest.mark.check("gpu_exclusive", requires=["gpu_inventory"])


def test_two_pods_get_different_gpus(node: NodeSubject, run_workload: RunWorkload, hold: Hold) -> None:
    """
    Why: one GPU handed out twice halves two jobs at once, and counts alone do not show it.

    Given: a pod that asks for one GPU and keeps it.
    When: a second pod on the same node asks for one.
    Then: each sees one GPU, and no UUID is seen by both.
    """
    hold(run_workload("exclusive_first", node), run_workload("exclusive_second", node))
