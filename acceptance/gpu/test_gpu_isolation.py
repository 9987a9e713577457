"""Isolation: does a container see the GPUs that it asked for, and no other?"""

import pytest

from gpuproof import Hold, NodeSubject, RunWorkload

pytestmark = pytest.mark.check("gpu_isolation", requires=["gpu_inventory"])


def test_a_container_sees_what_it_asked_for(node: NodeSubject, run_workload: RunWorkload, hold: Hold) -> None:
    """
    Why: who sees a GPU can use it, and a stranger on a GPU slows, fills or reads the work of its owner.

    Given: a pod that asks for no GPU though its environment says NVIDIA_VISIBLE_DEVICES=all, and one that asks for one.
    When: each container, and a second one of the latter pod that asks for none, looks for GPUs in every way there is.
    Then: the one that asked sees exactly one, and the two that did not see none.
    """
    hold(run_workload("isolation_none", node), run_workload("isolation_one", node))
