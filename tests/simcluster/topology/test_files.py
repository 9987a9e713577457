"""Topology files: what they may say, what they refuse, and the labels and resources that follow."""

from __future__ import annotations

from pathlib import Path

import pytest

from simcluster.hardware.devices import DevicePlugins
from simcluster.hardware.gpus import NodeGpus
from simcluster.hardware.labels import hardware_labels
from simcluster.topology import GpuModel, Pool, TopologyError, built_in, load


@pytest.mark.parametrize("name", built_in())
def test_each_built_in_topology_can_be_read_and_names_its_nodes_once(name: str) -> None:
    assert load(name).pools


def pool_of(topology: str, prefix: str) -> Pool:
    return next(pool for pool in load(topology).pools if pool.prefix == prefix)


def gpus_of(topology: str, prefix: str) -> NodeGpus:
    model = pool_of(topology, prefix).gpu
    assert model is not None
    return NodeGpus.of(f"{prefix}01", model)


def test_a_model_fills_in_what_the_file_leaves_out_and_no_more() -> None:
    gpu = GpuModel.model_validate({"model": "H100", "count": 8, "driver": "550.107.02"})
    assert (gpu.product, gpu.memory_mib, gpu.driver) == ("NVIDIA-H100-80GB-HBM3", 81559, "550.107.02")
    labels = hardware_labels(Pool(prefix="n-", nodes=1, gpu=gpu))
    assert labels["nvidia.com/gpu.memory"] == "81559"
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert labels["nvidia.com/cuda.driver-version.full"] == "550.107.02"
    assert labels["nvidia.com/cuda.driver-version.revision"] == "02"
    assert labels["nvidia.com/mig.capable"] == "true"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[[pools]]\nprefix = "a"\nnodes = 1\ngpu = { model = "H900" }', "unknown model 'H900'"),
        ('[[pools]]\nprefix = "a"\nnodes = -1', "nodes"),
        ('[[pools]]\nprefix = "a"\nnodes = 1\nspeed = 3', "speed"),
        ('[[pools]]\nprefix = "a"\nnodes = 1\n[[pools]]\nprefix = "a"\nnodes = 2', "two pools have a node 'a01'"),
        (
            '[[pools]]\nprefix = "a"\nnodes = 1\ngpu = { model = "L40S", mig = { profiles = { "1g.10gb" = 1 } } }',
            "cannot be partitioned",
        ),
        ('[[pools]]\nprefix = "a"\nnodes = 1\nrdma = { resource = "ib" }', "resource"),
        ('operators = ["slurm"]\npools = []', "operators"),
        ('operators = ["trainer"]\npools = []', "needs jobset"),
        ('operators = ["kueue", "kueue"]\npools = []', "once"),
        ('operator_troubles = { kueue = "never-admits" }\npools = []', "not in operators: kueue"),
        ('operators = ["jobset"]\noperator_troubles = { jobset = "sleeps" }\npools = []', "operator_troubles.jobset"),
        ("pools = 3 3", "not TOML"),
    ],
)
def test_a_bad_file_is_refused_with_the_key(tmp_path: Path, text: str, told: str) -> None:
    place = tmp_path / "t.toml"
    place.write_text(text)
    with pytest.raises(TopologyError, match=r"t\.toml") as refused:
        load(str(place))
    assert told in str(refused.value)


def test_mig_mixed_offers_instances_beside_whole_gpus() -> None:
    gpus = gpus_of("shared", "mig-mixed-")
    assert {name: len(units) for name, units in gpus.units().items()} == {
        "nvidia.com/gpu": 1,
        "nvidia.com/mig-1g.10gb": 2,
        "nvidia.com/mig-2g.20gb": 1,
        "nvidia.com/mig-3g.40gb": 1,
    }
    labels = hardware_labels(pool_of("shared", "mig-mixed-"))
    assert labels["nvidia.com/mig.strategy"] == "mixed"
    assert labels["nvidia.com/mig-1g.10gb.count"] == "2"
    assert labels["nvidia.com/mig-1g.10gb.product"] == "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"


def test_mig_single_looks_like_many_small_gpus() -> None:
    gpus = gpus_of("shared", "mig-single-")
    assert {name: len(units) for name, units in gpus.units().items()} == {"nvidia.com/gpu": 14}
    labels = hardware_labels(pool_of("shared", "mig-single-"))
    assert labels["nvidia.com/gpu.count"] == "14"
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"


def test_time_slices_share_a_gpu_and_the_label_says_so() -> None:
    gpus = gpus_of("shared", "sliced-")
    units = gpus.units()["nvidia.com/gpu"]
    assert len(units) == 8
    assert len({gpus.physical(unit) for unit in units}) == 2
    labels = hardware_labels(pool_of("shared", "sliced-"))
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-L40S-SHARED"
    assert labels["nvidia.com/gpu.replicas"] == "4"
    assert list(gpus_of("shared", "sliced-renamed-").units()) == ["nvidia.com/gpu.shared"]
    assert hardware_labels(pool_of("shared", "sliced-renamed-"))["nvidia.com/gpu.product"] == "NVIDIA-L40S"


def test_a_unit_is_held_once_and_free_again_with_the_pod() -> None:
    plugins = DevicePlugins({"nvidia.com/gpu": ["a", "b"]})
    assert plugins.grant("pod", "c", {"nvidia.com/gpu": "1", "cpu": "1"}) == {"nvidia.com/gpu": ["a"]}
    assert plugins.grant("other", "c", {"nvidia.com/gpu": "1"}) == {"nvidia.com/gpu": ["b"]}
    assert plugins.holders() == {"a": ("pod", "c"), "b": ("other", "c")}
    plugins.release("pod")
    assert plugins.grant("third", "c", {"nvidia.com/gpu": "2"}) == {"nvidia.com/gpu": ["a"]}


def test_an_unhealthy_unit_leaves_allocatable_but_not_capacity() -> None:
    plugins = DevicePlugins({"nvidia.com/gpu": ["a", "b"]})
    plugins.unhealthy.add("a")
    assert plugins.capacity() == {"nvidia.com/gpu": "2"}
    assert plugins.allocatable() == {"nvidia.com/gpu": "1"}
    assert plugins.grant("pod", "c", {"nvidia.com/gpu": "1"}) == {"nvidia.com/gpu": ["b"]}
