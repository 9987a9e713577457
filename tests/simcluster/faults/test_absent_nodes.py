"""A fault about a node that is not there is refused: a run with it would prove nothing."""

from __future__ import annotations

import pytest

from simcluster.faults.file import FaultError, all_faults, find_faults, refuse_absent_nodes

SMALL = ["gpu-01", "gpu-02", "gpu-03", "gpu-04"]


def test_every_shipped_fault_is_about_nodes_of_the_default_topology() -> None:
    refuse_absent_nodes(all_faults(), SMALL)


@pytest.mark.parametrize("name", ["black-hole-node", "node-vanishes"])
def test_an_absent_node_is_named_with_those_there_are(name: str) -> None:
    with pytest.raises(FaultError, match=f"{name}.*the topology has gpu-001"):
        refuse_absent_nodes(find_faults([name]), ["gpu-001", "gpu-002"])
