"""Staying: does a running container keep the GPUs that it was given?"""

import pytest

from gpuproof import Hold, NodeSubject, RunWorkload

pytestmark = pytest.mark.check("gpu_stays", requires=["cuda_runtime"])


def test_a_running_container_keeps_its_gpus(node: NodeSubject, run_workload: RunWorkload, hold: Hold) -> None:
    """
    Why: a container can lose its devices while its node, its pod's status and every new pod look sound.

    Given: a pod that holds all GPUs of the node, and memory on each of them, for as long as the profile says.
    When: new programs in that pod open the GPUs again and again until the end.
    Then: each finds the same GPUs as the first one did, and what was open all the time still works.
    """
    hold(run_workload("gpu_stays", node))
