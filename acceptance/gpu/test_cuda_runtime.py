"""CUDA runtime: is every GPU of every node usable, and are its answers right?"""

import pytest

from gpuproof import Hold, NodeSubject, RunWorkload

pytestmark = pytest.mark.check("cuda_runtime", requires=["gpu_inventory"])


def test_every_gpu_computes_correctly(node: NodeSubject, run_workload: RunWorkload, hold: Hold) -> None:
    """
    Why: a GPU that is listed can still refuse every program, and one that answers can answer wrongly.

    Given: a pod that holds all GPUs of the node.
    When: workloads/cuda_runtime.py opens each, runs kernels and streams, fills most of its memory and reads it back,
        copies from every peer, and multiplies fresh random matrices in each number format.
    Then: every GPU goes through and has joined the fabric, no byte is wrong, every peer is reached, and each product
        agrees with a float64 reference.
    """
    hold(run_workload("cuda_runtime", node))
