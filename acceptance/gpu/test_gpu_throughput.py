"""Throughput: does every GPU compute and copy as fast as its product does, its neighbours do, and the fleet does?"""

import pytest

from gpuproof import Hold, NodeSubject, RunWorkload

pytestmark = pytest.mark.check("gpu_throughput", requires=["cuda_runtime"])


def test_every_gpu_is_as_fast_as_it_should_be(node: NodeSubject, run_workload: RunWorkload, hold: Hold) -> None:
    """
    Why: a training job runs at the pace of its slowest GPU, and a slow one fails no program.

    Given: a pod that holds all GPUs of the node, each of which computes correctly.
    When: workloads/gpu_throughput.py multiplies on all of them at once and reads their clocks meanwhile, then copies
        inside each, to the host and back, and between each pair.
    Then: every median reaches its floor, the best GPU of the node and the fleet, and heat or power held none back.
    """
    hold(run_workload("gpu_throughput", node))
