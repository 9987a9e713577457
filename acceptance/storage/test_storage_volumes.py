"""Volumes: does a claim become the volume that was asked for, on several nodes at once, and does it go with it?"""

import pytest

from gpuproof import ClusterSubject, Hold, NodeSubject, RunWorkload, TryClaims

pytestmark = pytest.mark.check("storage_volumes", requires=["gpu_inventory", "storage_semantics"])


def test_a_claim_is_bound_in_time_and_its_volume_goes_with_it(
    cluster: ClusterSubject, try_claims: TryClaims, hold: Hold
) -> None:
    """
    Why: a claim that waits for minutes delays every job, and a volume that stays behind is paid for by nobody's job.

    Given: the storages of the profile.
    When: a claim on each is made, bound, looked at and deleted.
    Then: it is bound in time, has the size and the access mode that it asked for, and its volume is gone after it.
    """
    hold(try_claims(cluster))


def test_the_volume_is_mounted_on_several_nodes_and_keeps_its_data_for_later_pods(
    node: NodeSubject, run_workload: RunWorkload, hold: Hold
) -> None:
    """
    Why: with one node a volume for one node looks like one for many, and data that does not follow a pod is lost to it.

    Given: a pod on every node at the same time with the shared claim, and after them other pods on the same nodes.
    When: workloads/volume_mount.py looks who else is there and keeps data; workloads/volume_remount.py looks for it.
    Then: the size is what was asked for, other nodes have it mounted too, and what was kept on another node is here.
    """
    hold(run_workload("volume_mount", node), run_workload("volume_remount", node))
