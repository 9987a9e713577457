"""DCGM export: does every node's exporter answer, and tell every field of exactly the GPUs that a pod sees there?"""

import pytest

from gpuproof import Hold, NodeSubject, ReadExporter, RunWorkload

pytestmark = pytest.mark.check("dcgm_export", requires=["gpu_inventory"])


def test_every_gpu_is_exported(
    node: NodeSubject, run_workload: RunWorkload, read_exporter: ReadExporter, hold: Hold
) -> None:
    """
    Why: a GPU or a field that is missing from the export is missing from every dashboard and alert, without a word.

    Given: the exporters found by the profile's labels in any namespace, and a pod that holds all GPUs of the node.
    When: workloads/gpu_inventory.py lists what the pod sees, and the node's exporter is read after that.
    Then: one exporter answers in time with one series a GPU and field, for just those GPUs, of plausible size.
    """
    seen = run_workload("gpu_inventory", node)
    hold(seen, read_exporter(node, seen))
