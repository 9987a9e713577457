"""All-reduce across nodes: does the fabric carry what was paid for?"""

import pytest

from gpuproof import GangSubject, Hold, RunExperiment

pytestmark = pytest.mark.check("nccl_all_reduce", requires=["gpu_inventory", "cuda_runtime"])


def test_bus_bandwidth_reaches_the_floor(gang: GangSubject, run_experiment: RunExperiment, hold: Hold) -> None:
    """
    Why: one degraded link slows every training step of every job that crosses it.

    Given: a gang with a pod on every node of the profile, each holding all GPUs of its node.
    When: the ranks of all nodes run the profile's collectives at each of its sizes, on fresh data.
    Then: bus bandwidth reaches the floor of each size, by the slowest rank's time, and no element is wrong.
    """
    hold(run_experiment("whole", gang))
