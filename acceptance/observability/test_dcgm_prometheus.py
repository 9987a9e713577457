"""Prometheus: does it keep every field of every GPU, from targets that are up and scraped in time?"""

import pytest

from gpuproof import Hold, NodeSubject, ReadPrometheus, RunWorkload

pytestmark = pytest.mark.check("dcgm_prometheus", requires=["dcgm_export"])


def test_every_gpu_is_kept(
    node: NodeSubject, run_workload: RunWorkload, read_prometheus: ReadPrometheus, hold: Hold
) -> None:
    """
    Why: dashboards, alerts and bills read Prometheus, and an exporter that nobody scrapes tells nobody.

    Given: the Prometheus that the profile names, and a pod that holds all GPUs of the node.
    When: workloads/gpu_inventory.py lists the GPUs, and Prometheus is asked for its targets and for all their fields.
    Then: each GPU has each field, from one target that is up, scraped as often and as lately as the profile wants.
    """
    seen = run_workload("gpu_inventory", node)
    hold(seen, read_prometheus(node, seen))
