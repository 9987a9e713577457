"""Health: does any GPU report damage to its memory, its links or itself, before or while it works?"""

import pytest

from gpuproof import Hold, NodeSubject, RunWorkload

pytestmark = pytest.mark.check("gpu_health", requires=["gpu_inventory"])


def test_no_gpu_reports_damage(node: NodeSubject, run_workload: RunWorkload, hold: Hold) -> None:
    """
    Why: a GPU announces most of its failures by counters and XIDs before it fails a job.

    Given: a pod that sees all GPUs of the node.
    When: workloads/gpu_health.py reads them through NVML, works each, and reads them again.
    Then: no error beyond its limit is counted, no repair is pending, PCIe and NVLink are as bought, and no XID came.
    """
    hold(run_workload("gpu_health", node))
