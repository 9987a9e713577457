"""DCGM attribution: do the exported values move when a load does, on its GPUs only, under the name of its pod?"""

import pytest

from gpuproof import FollowLoad, Hold, NodeSubject, RunWorkload

pytestmark = pytest.mark.check("dcgm_attribution", requires=["dcgm_export", "cuda_runtime"])


def test_values_follow_the_load(
    node: NodeSubject, run_workload: RunWorkload, follow_load: FollowLoad, hold: Hold
) -> None:
    """
    Why: an exporter that hangs or mixes up GPUs looks healthy, and bills and alerts go by what it says.

    Given: a pod that holds all GPUs of the node, and an exporter that is read before, during and after.
    When: workloads/exporter_load.py keeps one half of the GPUs busy, then the other, for several collection intervals.
    Then: power, energy, memory and utilisation rise on the busy half only, under the load's pod, and fall after it.
    """
    load = run_workload("exporter_load", node)
    hold(load, follow_load(node, load))
