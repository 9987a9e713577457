"""What the API alone says of nodes: versions, taints, labels, what is offered; and several answers as one."""

from __future__ import annotations

from typing import Any

import pytest

from gpuproof.inventory import Node, read_node
from gpuproof.observation import NO_LABEL, merge, observe_cluster, observe_node
from tests.gpuproof.judging import measurement, sample
from tests.gpuproof.test_inventory import GPU, node
from workloads.contract import Fact

INFO = {
    "kernelVersion": "6.8.0-45",
    "osImage": "Ubuntu 24.04",
    "containerRuntimeVersion": "containerd://1.7.20",
    "kubeletVersion": "v1.34.1",
}


def read(name: str = "gpu-01", **changed: Any) -> Node:
    """A node with every version told."""
    raw = node()
    raw["metadata"]["name"] = name
    raw["metadata"]["labels"]["nvidia.com/gpu.sharing-strategy"] = "none"
    raw["status"] |= {"nodeInfo": INFO, **changed}
    return read_node(raw, gpu_resource=GPU)


def test_a_node_tells_its_versions_taints_and_offers() -> None:
    facts = observe_node(read(), "run", GPU, ["node-pool", "absent"]).facts
    assert facts == {
        "gpu_product": "X",
        "gpu_driver": "550.1",
        "gpu_sharing": "none",
        "gpu_offers": f"{GPU}=7",
        "kernel_version": "6.8.0-45",
        "os_image": "Ubuntu 24.04",
        "container_runtime": "containerd://1.7.20",
        "kubelet_version": "v1.34.1",
        "taints": f"{GPU}:NoSchedule",
        "label:node-pool": "a",
        "label:absent": NO_LABEL,
    }


def test_what_the_api_does_not_tell_is_no_fact() -> None:
    bare = observe_node(read_node({"metadata": {"name": "n"}}, gpu_resource=GPU), "run", GPU).facts
    assert bare == {"gpu_offers": "none", "taints": "none"}


@pytest.mark.parametrize(
    ("allocatable", "offers", "sharing"),
    [
        ({GPU: "8", "nvidia.com/mig-1g.24gb": "0"}, f"{GPU}=8", "none"),  # a count of 0 is no offer
        ({GPU: "2", "nvidia.com/mig-1g.10gb": "6"}, f"{GPU}=2; nvidia.com/mig-1g.10gb=6", "mig"),
        ({GPU: "0", "nvidia.com/mig-2g.24gb": "1"}, "nvidia.com/mig-2g.24gb=1", "mig"),
        ({GPU: "0", "nvidia.com/gpu.shared": "50"}, "nvidia.com/gpu.shared=50", "none"),
        ({GPU: "8", "nvidia.com/hostdev": "8", "cpu": "64"}, f"{GPU}=8", "none"),  # adapters are no GPUs
        ({}, "none", "none"),
    ],
)
def test_what_is_offered_of_gpus(allocatable: dict[str, str], offers: str, sharing: str) -> None:
    facts = observe_node(read(allocatable=allocatable), "run", GPU).facts
    assert (facts["gpu_offers"], facts["gpu_sharing"]) == (offers, sharing)


def test_a_node_of_one_mig_size_says_so_by_its_product() -> None:
    raw = node()
    raw["metadata"]["labels"]["nvidia.com/gpu.product"] = "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"
    assert read_node(raw, gpu_resource=GPU).sharing == "mig"


def test_taints_that_follow_a_nodes_state_are_not_its_own() -> None:
    taints = [
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "dedicated", "value": "team-a", "effect": "NoSchedule"},
        {"key": GPU, "value": "present", "effect": "NoSchedule"},
    ]
    found = read_node(node(spec={"taints": taints}), gpu_resource=GPU)
    assert found.standing_taints == f"dedicated=team-a:NoSchedule; {GPU}=present:NoSchedule"


def test_the_cluster_tells_which_nodes_have_what_the_majority_first() -> None:
    old = {**INFO, "kernelVersion": "6.8.0-31"}
    nodes = [read(f"gpu-{n:02}") for n in range(1, 7)] + [read("gpu-00", nodeInfo=old)]
    found = observe_cluster(7, "run", nodes)
    kernels = [(s.value, s.at["value"], s.at["on"]) for s in found.samples if s.at.get("property") == "kernel_version"]
    assert kernels == [
        (6.0, "6.8.0-45", "gpu-01, gpu-02, gpu-03, gpu-04 and 2 more"),
        (1.0, "6.8.0-31", "gpu-00"),
    ]
    assert [s.metric for s in observe_cluster(0, "run").samples] == ["nodes"]


def test_lists_of_one_fact_are_joined_and_single_facts_are_not_overwritten() -> None:
    first, second = measurement(facts={"uuid": ["a"], "b": 1}), measurement(facts={"uuid": ["c"]})
    assert merge([first, second]).facts == {"uuid": ["a", "c"], "b": 1}
    clashes: list[dict[str, Fact]] = [{"b": 1}, {"b": [1]}, {"uuid": "a"}]
    for clash in clashes:
        with pytest.raises(ValueError, match="was reported twice"):
            merge([first, measurement(facts=clash)])
    with pytest.raises(ValueError, match="measured twice"):
        merge([measurement(sample(1)), measurement(sample(2))])
