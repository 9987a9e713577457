"""Topologies: which nodes a simulated cluster has, from a built-in name or a TOML file.

Owns the file's shape and the node objects' labels. It must not know how nodes run.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Mode = Literal["full", "light", "hollow"]


class TopologyError(Exception):
    """The topology cannot be read; the text names file and key."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GpuModel(_Strict):
    """The GPUs of a pool's nodes. `memory_mib` is what the driver reports, not the marketing number."""

    count: Annotated[int, Field(ge=0)] = 2
    product: str = "SIMULATED-GPU"
    memory_mib: Annotated[int, Field(gt=0)] = 4096
    driver: str = "580.82.07"
    cuda: str = "13.0"
    compute: str = "9.0"
    family: str = "simulated"


class Pool(_Strict):
    """Nodes alike. Names are `prefix` and a number from `first` on."""

    prefix: str
    nodes: Annotated[int, Field(ge=0)]
    first: int = 1
    gpu: GpuModel | None = None
    labels: dict[str, str] = {}
    taints: list[dict[str, str]] = []
    mode: Mode = "full"
    cpu: str = "16"
    memory: str = "64Gi"
    pods: str = "110"


class Topology(_Strict):
    """A whole cluster's nodes, besides the control plane's one."""

    name: str
    control_plane: bool = True
    pools: list[Pool]


def gpu_pool(
    nodes: int, *, mode: Mode = "full", gpus: int = 2, labels: dict[str, str] | None = None, first: int = 1
) -> Pool:
    """A pool of simulated GPU nodes gpu-01 …, tainted as GPU operators do."""
    return Pool(
        prefix="gpu-",
        nodes=nodes,
        first=first,
        gpu=GpuModel(count=gpus),
        labels={"node-pool": "sim-train", **(labels or {})},
        taints=[{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
        mode=mode,
    )


def _rack() -> Topology:
    pools = []
    for rack in range(4):
        labels = {
            "topology.kubernetes.io/zone": f"hall-{rack // 2 + 1}",
            "topology.kubernetes.io/rack": f"rack-{rack + 1}",
            "network.topology.nvidia.com/block": f"block-{rack // 2 + 1}",
        }
        pools.append(gpu_pool(4, gpus=8, labels=labels, first=rack * 4 + 1))
    return Topology(name="rack", pools=pools)


def load(source: str) -> Topology:
    """`small`, `rack`, `light-N`, `hollow-N`, or the path of a TOML file; raises `TopologyError`."""
    if source == "small":
        return Topology(name="small", pools=[gpu_pool(4)])
    if source == "rack":
        return _rack()
    kind, _, number = source.partition("-")
    if number.isdigit() and kind == "light":
        return Topology(name=source, pools=[gpu_pool(int(number), mode="light")])
    if number.isdigit() and kind == "hollow":
        return Topology(name=source, pools=[gpu_pool(int(number), mode="hollow")])
    return _read(Path(source))


def _read(path: Path) -> Topology:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise TopologyError(
            f"no topology {str(path)!r}: expected small, rack, light-N, hollow-N or a TOML file"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TopologyError(f"{path}: not TOML: {error}") from error
    try:
        return Topology.model_validate({"name": path.stem, **data})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise TopologyError(f"{path}: {where}: {first['msg']}") from error


def node_names(pool: Pool) -> list[str]:
    """The pool's node names, numbers padded to two digits at least."""
    last = pool.first + pool.nodes - 1
    width = max(2, len(str(last)))
    return [f"{pool.prefix}{number:0{width}d}" for number in range(pool.first, last + 1)]


def gpu_labels(gpu: GpuModel) -> dict[str, str]:
    """The labels that GPU feature discovery and the GPU operator put on a node with these GPUs."""
    driver = gpu.driver.split(".")
    major, _, minor = gpu.cuda.partition(".")
    compute_major, _, compute_minor = gpu.compute.partition(".")
    deployed = ("driver", "container-toolkit", "dcgm", "dcgm-exporter", "device-plugin", "gpu-feature-discovery")
    return {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.count": str(gpu.count),
        "nvidia.com/gpu.product": gpu.product,
        "nvidia.com/gpu.family": gpu.family,
        "nvidia.com/gpu.machine": "simulated-machine",
        "nvidia.com/gpu.memory": str(gpu.memory_mib),
        "nvidia.com/gpu.mode": "compute",
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/gpu.compute.major": compute_major,
        "nvidia.com/gpu.compute.minor": compute_minor or "0",
        "nvidia.com/cuda.driver-version.full": gpu.driver,
        "nvidia.com/cuda.driver-version.major": driver[0],
        "nvidia.com/cuda.driver-version.minor": driver[1] if len(driver) > 1 else "0",
        "nvidia.com/cuda.driver-version.revision": driver[2] if len(driver) > 2 else "",
        "nvidia.com/cuda.runtime-version.full": gpu.cuda,
        "nvidia.com/cuda.runtime-version.major": major,
        "nvidia.com/cuda.runtime-version.minor": minor or "0",
        "nvidia.com/mig.capable": "false",
        "nvidia.com/mig.config": "all-disabled",
        "nvidia.com/mig.config.state": "success",
        "nvidia.com/mig.strategy": "single",
        "nvidia.com/mps.capable": "false",
        "nvidia.com/vgpu.present": "false",
        "nvidia.com/gpu-driver-upgrade-state": "upgrade-done",
        "feature.node.kubernetes.io/pci-10de.present": "true",
        **{f"nvidia.com/gpu.deploy.{what}": "true" for what in deployed},
    }
