"""Attribution of load: does work on a GPU show as SM activity of that GPU, and idleness as idleness?"""

import pytest

from gpuproof import Hold, NodeSubject, RunWorkload

pytestmark = pytest.mark.check("gpu_load", requires=["cuda_runtime"])


def test_load_shows_on_the_gpu_it_runs_on(node: NodeSubject, run_workload: RunWorkload, hold: Hold) -> None:
    """
    Why: schedulers, bills and alerts are built on these counters; "utilisation" says full where one thread runs.

    Given: a pod that holds all GPUs of the node, and nobody else's work on them.
    When: workloads/gpu_load.py reads SM activity while nothing runs, then while one GPU after the other is filled.
    Then: idle GPUs are idle, a filled one is busy, and it is the one that was filled.
    """
    hold(run_workload("gpu_load", node))
