"""Residue: is what a pod is handed free of what an earlier pod wrote?"""

import pytest

from gpuproof import Hold, NodeSubject, RunWorkload

pytestmark = pytest.mark.check("gpu_residue", requires=["cuda_runtime"])


def test_nothing_of_an_earlier_pod_is_left(node: NodeSubject, run_workload: RunWorkload, hold: Hold) -> None:
    """
    Why: weights and data that one tenant's pod leaves in memory or on a disk are there for the next tenant to read.

    Given: a pod that wrote this run's marks into GPU memory, /dev/shm and node-local scratch, and ended.
    When: a later pod on the same node searches what it is handed.
    Then: it finds none of those marks, and has searched all that it was to search.
    """
    hold(run_workload("residue_write", node), run_workload("residue_look", node))
