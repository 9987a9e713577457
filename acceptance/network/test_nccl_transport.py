"""Transport: does traffic between nodes take the RDMA network, by three witnesses who do not know each other?"""

import pytest

from gpuproof import Hold, NodeSubject, RunExperiment

pytestmark = pytest.mark.check("nccl_transport", requires=["gpu_inventory", "cuda_runtime"])


def test_traffic_takes_the_rdma_network(node: NodeSubject, run_experiment: RunExperiment, hold: Hold) -> None:
    """
    Why: a pod without RDMA falls back to TCP without a word, and a job on it ends well, and late.

    Given: a gang with a pod on every node, each with the profile's RDMA resource.
    When: nodes exchange data in pairs, each with several partners.
    Then: the library's own log, the adapters' byte counters and the pod's resources agree that it went by RDMA.
    """
    hold(run_experiment("transport", node))
