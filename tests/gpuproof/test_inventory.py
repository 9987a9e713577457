"""Nodes as values: what odd, null or absent fields of a real cluster turn into."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuproof.inventory import Taint, read_inventory, read_node, untolerated

GPU = "nvidia.com/gpu"


def node(**changed: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "metadata": {
            "name": "gpu-01",
            "labels": {"node-pool": "a", "nvidia.com/gpu.product": "X", "nvidia.com/cuda.driver-version.full": "550.1"},
        },
        "spec": {"taints": [{"key": GPU, "effect": "NoSchedule"}]},
        "status": {
            "capacity": {GPU: "8"},
            "allocatable": {GPU: "7"},
            "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
            "images": [{"names": None}],
        },
    }
    return made | changed


def test_a_healthy_node() -> None:
    found = read_node(node(), gpu_resource=GPU)
    assert (found.name, found.ready, found.schedulable, found.problem) == ("gpu-01", True, True, "")
    assert (found.gpu_capacity, found.gpu_allocatable, found.product, found.driver) == (8, 7, "X", "550.1")
    assert found.taints == (Taint(GPU, "", "NoSchedule"),)


def test_older_driver_labels() -> None:
    labels = {
        f"nvidia.com/cuda.driver.{part}": value for part, value in (("major", "550"), ("minor", "1"), ("rev", "2"))
    }
    assert read_node(node(metadata={"name": "n", "labels": labels}), gpu_resource=GPU).driver == "550.1.2"


@pytest.mark.parametrize(
    ("value", "count", "odd"),
    [("0", 0, False), (None, 0, False), (8, 8, False), ("2k", 2000, False), ("8.5", 0, True), (True, 0, True),
     ([], 0, True), ("-1", 0, True), ("", 0, True)],
)  # fmt: skip
def test_counts(value: Any, count: int, odd: bool) -> None:
    found = read_node(
        node(status={"capacity": {GPU: value}, "conditions": [{"type": "Ready", "status": "True"}]}), gpu_resource=GPU
    )
    assert found.gpu_capacity == count
    assert bool(found.problem) is odd


def test_not_ready_says_why() -> None:
    conditions = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "stopped posting"}]
    found = read_node(node(status={"conditions": conditions}), gpu_resource=GPU)
    assert not found.ready
    assert "NodeStatusUnknown" in found.problem
    assert not read_node(node(status=None), gpu_resource=GPU).ready


def test_cordoned() -> None:
    found = read_node(node(spec={"unschedulable": True, "taints": None}), gpu_resource=GPU)
    assert not found.schedulable
    assert "cordoned" in found.problem


def test_pool() -> None:
    items = [node(), node(metadata={"name": "b", "labels": {"node-pool": "b"}}), node(metadata={"name": "c"}), {}]
    found = read_inventory(items, gpu_resource=GPU, resource_version="5")
    assert [entry.name for entry in found.in_pool({"node-pool": "a"})] == ["gpu-01"]
    assert set(found.nodes) == {"gpu-01", "b", "c"}


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": GPU, "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"operator": "Exists"}, True),
        ({"key": GPU}, True),
        ({"key": GPU, "value": "x"}, False),
        ({"key": GPU, "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_tolerations(toleration: dict[str, Any], tolerated: bool) -> None:
    found = read_node(node(), gpu_resource=GPU)
    assert (untolerated(found, [toleration]) == ()) is tolerated


def test_a_preference_keeps_nobody_away() -> None:
    soft = node(spec={"taints": [{"key": "k", "effect": "PreferNoSchedule"}]})
    assert untolerated(read_node(soft, gpu_resource=GPU), []) == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["labels", "taints", "name", "status"]), inner)
    ),
    max_leaves=6,
)


@given(field=st.sampled_from(["metadata", "spec", "status"]), value=JSON)
def test_garbage_never_crashes(field: str, value: Any) -> None:
    read_inventory([node(**{field: value})], gpu_resource=GPU)
