"""Image pull: how long does a node take to its first pod of an image, and does it keep the image for the next one?"""

import pytest

from gpuproof import Hold, NodeSubject, ReadPull, RunWorkload

pytestmark = pytest.mark.check("image_pull", requires=["gpu_inventory"])


def test_an_image_is_pulled_once_and_fast_enough(
    node: NodeSubject, run_workload: RunWorkload, read_pull: ReadPull, hold: Hold
) -> None:
    """
    Why: an image of tens of gigabytes that comes slowly, or again for every pod, leaves GPUs idle at every start.

    Given: an image that the profile names and that no node has had, and a pod of it on every node at the same time.
    When: after these, a second pod of it runs on every node, and each kubelet is asked how it came to the image.
    Then: it was pulled for the first pod, at the rate of the path, and was still there for the second one.
    """
    first, second = run_workload("image_first", node), run_workload("image_second", node)
    hold(read_pull(node, first, "first"), read_pull(node, second, "second"))
