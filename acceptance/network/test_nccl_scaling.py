"""Scaling: does the bandwidth that two nodes reach hold as the set doubles up to all of them?"""

import pytest

from gpuproof import GangSubject, Hold, RunExperiment

pytestmark = pytest.mark.check("nccl_scaling", requires=["gpu_inventory", "cuda_runtime"])


def test_bandwidth_holds_from_step_to_step(gang: GangSubject, run_experiment: RunExperiment, hold: Hold) -> None:
    """
    Why: two nodes within a rack can be perfect while three over two racks are not.

    Given: a gang with a pod on every node of the profile.
    When: 2, 4, 8 … and then all nodes all-reduce together.
    Then: each step keeps its share of the ring's ceiling and of the step before, and every step is reached.
    """
    hold(run_experiment("ladder", gang))
