"""Topologies: which nodes a simulated cluster has, from a built-in name or a TOML file.

Owns the file's shape. It must not know how nodes run, nor which labels they carry.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from simcluster.hardware.presets import PRESETS

Mode = Literal["full", "light", "hollow"]
OperatorName = Literal["jobset", "trainer", "volcano", "kueue"]
_FOLDER = Path(__file__).resolve().parent / "topologies"
_Count = Annotated[int, Field(ge=0)]
_Positive = Annotated[int, Field(gt=0)]


class TopologyError(Exception):
    """The topology cannot be read; the text names file and key."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Mig(_Strict):
    """Partitioned GPUs: `profiles` says how many instances of which profile each of the first `gpus` GPUs holds.

    `single` offers instances as nvidia.com/gpu, `mixed` as nvidia.com/mig-PROFILE beside the whole GPUs.
    """

    strategy: Literal["single", "mixed"] = "mixed"
    profiles: Annotated[dict[str, _Positive], Field(min_length=1)]
    gpus: _Positive | None = None

    @model_validator(mode="after")
    def _check(self) -> Mig:
        if self.strategy == "single" and (len(self.profiles) != 1 or self.gpus is not None):
            raise ValueError("strategy single means one profile on all GPUs")
        return self


class TimeSlicing(_Strict):
    """Each GPU is offered `replicas` times, as nvidia.com/gpu or (`rename`) as nvidia.com/gpu.shared."""

    replicas: Annotated[int, Field(gt=1)]
    rename: bool = False


class GpuModel(_Strict):
    """The GPUs of a pool's nodes. `model` (H100, H200, B200, A100, L40S) fills in what is not given.

    `memory_mib` is what the driver reports, not the marketing number; `name` is what nvidia-smi calls it.
    `nvlinks` is a GPU's number of NVLinks, `nvlink_mb_s` what one claims in MB/s; `fabric`: they end in NVSwitches.
    """

    model: str = ""
    count: _Count = 2
    product: str = "SIMULATED-GPU"
    name: str = ""
    memory_mib: _Positive = 4096
    driver: str = "580.82.07"
    cuda: str = "13.0"
    compute: str = "9.0"
    family: str = "simulated"
    machine: str = "simulated-machine"
    power_w: _Positive = 700
    sm_clock_mhz: _Positive = 1980
    mem_clock_mhz: _Positive = 2619
    nvlinks: Annotated[int, Field(ge=0, le=18)] = 4
    nvlink_mb_s: _Positive = 25000
    fabric: bool = True
    mig_capable: bool = False
    mig: Mig | None = None
    time_slicing: TimeSlicing | None = None

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, given: Any) -> Any:
        if not isinstance(given, dict) or not given.get("model"):
            return given
        preset = PRESETS.get(given["model"])
        if preset is None:
            raise ValueError(f"unknown model {given['model']!r}: expected one of {', '.join(PRESETS)}")
        return {**preset, **given}

    @model_validator(mode="after")
    def _check(self) -> GpuModel:
        if self.mig is not None and self.time_slicing is not None:
            raise ValueError("mig and time_slicing exclude each other")
        if self.mig is not None and not self.mig_capable:
            raise ValueError("these GPUs cannot be partitioned: mig_capable is false")
        return self

    @property
    def shown_name(self) -> str:
        """The product as the driver names it."""
        return self.name or self.product


class Rdma(_Strict):
    """RDMA adapters of a pool's nodes: one link each on a fabric of their own, shaped to `mbit`.

    A container that is granted k of `resource` gets k adapters, or all of them where they are `shared` (then the node
    offers `count`, as shared device plugins do). `gbps` is the rate that the adapter claims for its link.
    """

    resource: Annotated[str, Field(pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$")] = "rdma/ib"
    devices: Annotated[int, Field(gt=0, le=8)] = 1
    shared: bool = False
    count: _Positive = 63
    mbit: _Positive = 2500
    gbps: _Positive = 400
    link_layer: Literal["InfiniBand", "Ethernet"] = "InfiniBand"


class Busy(_Strict):
    """Pods of somebody else, there from the start, that hold GPUs on the pool's first `nodes` nodes."""

    nodes: _Positive = 1
    gpus: _Positive = 1
    namespace: str = "tenant"


class Pool(_Strict):
    """Nodes alike. Names are `prefix` and a number from `first` on. `eth0_mbit` shapes each node's own link to the
    other nodes; 0 leaves it as fast as the host is."""

    prefix: str
    nodes: _Count
    first: int = 1
    gpu: GpuModel | None = None
    labels: dict[str, str] = {}
    taints: list[dict[str, str]] = []
    mode: Mode = "full"
    cpu: str = "16"
    memory: str = "64Gi"
    pods: str = "110"
    rdma: Rdma | None = None
    eth0_mbit: _Count = 0
    busy: Busy | None = None


class Prometheus(_Strict):
    """A Prometheus in the namespace monitoring that scrapes the metrics exporters every `interval_s`.

    `honor_labels` leaves the exporters' pod labels as they are; series with the Hostname `leaves_out` are dropped.
    """

    interval_s: Annotated[float, Field(gt=0)] = 1.0
    honor_labels: bool = True
    leaves_out: str = ""


class Remediation(_Strict):
    """A stand-in for a node health operator: a node is out of service `after_s` after it became unknown (a real
    cluster's seconds)."""

    after_s: Annotated[float, Field(gt=0)]


class OperatorTroubles(_Strict):
    """How an operator of the cluster misbehaves; nothing where it works as it should."""

    jobset: Literal["", "never-restarts"] = ""
    volcano: Literal["", "never-restarts"] = ""
    kueue: Literal["", "never-admits"] = ""


class Topology(_Strict):
    """A whole cluster's nodes, besides the control plane's one.

    `operators` are installed with their kinds; without one its kinds are not served. `operator_troubles` says how one
    of them misbehaves.
    `dcgm` installs the metrics exporter, which looks at its GPUs every `dcgm_interval_ms`, `second_exporter` one more
    on that node, `prometheus` what scrapes them; `object_store` an HTTP store that pods reach as
    object-store.simcluster.svc; `remediation` is what declares nodes out of service that stay silent."""

    name: str
    control_plane: bool = True
    dcgm: bool = False
    dcgm_interval_ms: _Positive = 500
    second_exporter: str = ""
    prometheus: Prometheus | None = None
    object_store: bool = False
    remediation: Remediation | None = None
    operators: list[OperatorName] = []
    operator_troubles: OperatorTroubles = OperatorTroubles()
    pools: list[Pool]

    @field_validator("operators")
    @classmethod
    def _check_operators(cls, names: list[OperatorName]) -> list[OperatorName]:
        if len(set(names)) < len(names):
            raise ValueError(f"{names!r}: name each operator once")
        if "trainer" in names and "jobset" not in names:
            raise ValueError(f"{names!r}: trainer makes JobSets and needs jobset beside it")
        return names

    @field_validator("operator_troubles")
    @classmethod
    def _check_troubles(cls, troubles: OperatorTroubles, info: ValidationInfo) -> OperatorTroubles:
        absent = [name for name, trouble in troubles if trouble and name not in info.data.get("operators", [])]
        if absent:
            raise ValueError(f"not in operators: {', '.join(absent)}")
        return troubles


def gpu_pool(nodes: int, *, mode: Mode) -> Pool:
    """A pool of simulated GPU nodes gpu-01 … of two GPUs each, tainted as GPU operators do."""
    return Pool(
        prefix="gpu-",
        nodes=nodes,
        gpu=GpuModel(count=2),
        labels={"node-pool": "sim-train"},
        taints=[{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
        mode=mode,
    )


def built_in() -> list[str]:
    """Names of the topologies that come with the simulator."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def load(source: str) -> Topology:
    """A built-in name, `light-N`, `hollow-N`, or the path of a TOML file; raises `TopologyError`."""
    kind, _, number = source.partition("-")
    if number.isdigit() and kind == "light":
        return Topology(name=source, pools=[gpu_pool(int(number), mode="light")])
    if number.isdigit() and kind == "hollow":
        return Topology(name=source, pools=[gpu_pool(int(number), mode="hollow")])
    return _read(_FOLDER / f"{source}.toml" if source in built_in() else Path(source))


def _read(path: Path) -> Topology:
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError) as error:
        names = ", ".join(built_in())
        raise TopologyError(f"no topology {str(path)!r}: expected {names}, light-N, hollow-N or a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TopologyError(f"{path}: not TOML: {error}") from error
    try:
        topology = Topology.model_validate({"name": path.stem, **data})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise TopologyError(f"{path}: {where}: {first['msg']}") from error
    seen: set[str] = set()
    for pool in topology.pools:
        for node in node_names(pool):
            if node in seen:
                raise TopologyError(f"{path}: two pools have a node {node!r}: give one of them another prefix or first")
            seen.add(node)
    return topology


def node_names(pool: Pool) -> list[str]:
    """The pool's node names, numbers padded to two digits at least."""
    last = pool.first + pool.nodes - 1
    width = max(2, len(str(last)))
    return [f"{pool.prefix}{number:0{width}d}" for number in range(pool.first, last + 1)]
