"""Localisation: where all nodes together miss their floor, which node or link is to blame, and is it so without it?"""

import pytest

from gpuproof import GangSubject, Hold, RunExperiment

pytestmark = pytest.mark.check("nccl_localisation", requires=["gpu_inventory", "cuda_runtime"])


def test_nobody_is_to_blame(gang: GangSubject, run_experiment: RunExperiment, hold: Hold) -> None:
    """
    Why: "the all-reduce is slow" repairs nothing; a node, a link or a part of the fabric can be repaired.

    Given: a gang whose whole set has been measured.
    When: it missed its floor, pairs and parts are measured, and the whole set again without whom they accuse.
    Then: nobody is accused; where somebody is, the whole set's number with and without them stands beside the name.
    """
    hold(run_experiment("localisation", gang))
