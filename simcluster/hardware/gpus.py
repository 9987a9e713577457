"""The GPUs of one node as hardware: identity, health, and the state file that the stand-ins read.

Owns the hardware's own view, apart from what the device plugin offers. It must not know pods; it gets
lists of granted units: a GPU's UUID, UUID::N for one of its time slices, or the UUID of a MIG instance.

State file: first line "node<TAB>key=value…", then a line a device. Values hold no tab. "gpu" lines are what CUDA
enumerates; where those are MIG instances, "parent" lines give the physical GPUs that nvidia-smi and NVML list.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from simcluster.hardware.labels import profile_memory_mib
from simcluster.topology import GpuModel

_NAMESPACE = uuid.UUID("5f0c3a52-6d9a-4f4e-9f6b-0d1f5a1c7e33")
GPU_RESOURCE = "nvidia.com/gpu"
_UNKNOWN = 999
IDLE_SHARE = 0.1
"""Of the power limit, drawn by an idle GPU."""


@dataclass(frozen=True)
class Gpu:
    """One GPU. Error codes are the driver API's (0: no error); `flips_bits` is a GPU that computes wrong.

    `throttle` is NVML's bit mask of clock event reasons; `throttle_cause` (such bits), `clock_cap_mhz`, `extra_heat_c`
    are what is wrong with it; `errors` names what the driver cannot read (power,
    temperature, utilization, memory, clocks, ecc, fan); `lost` is a GPU that has fallen off the bus.
    """

    index: int
    uuid: str
    pci_bus_id: str
    serial: str
    memory_mib: int
    used_mib: int = 0
    utilization: int = 0
    temperature_c: int = 34
    power_w: float = 71.5
    power_limit_w: float = 700.0
    energy_mj: int = 0
    sm_clock_mhz: int = 345
    max_sm_clock_mhz: int = 1980
    mem_clock_mhz: int = 2619
    throttle: int = 0x1
    throttle_cause: int = 0
    clock_cap_mhz: int = 0
    extra_heat_c: int = 0
    ecc_corrected: int = 0
    ecc_uncorrected: int = 0
    remapped_correctable: int = 0
    remapped_uncorrectable: int = 0
    remap_pending: bool = False
    remap_failed: bool = False
    pcie_generation: int = 5
    pcie_width: int = 16
    pcie_replays: int = 0
    mig_mode: str = "Disabled"
    xid: int = 0
    context_error: int = 0
    compute_error: int = 0
    flips_bits: bool = False
    lost: bool = False
    errors: tuple[str, ...] = ()


@dataclass(frozen=True)
class MigInstance:
    """One partition of a GPU: `number` is its place among the GPU's MIG devices, `instance` the GPU instance's id."""

    uuid: str
    parent: str
    profile: str
    number: int
    instance: int
    memory_mib: int


@dataclass
class NodeGpus:
    """All GPUs of a node. `init_error` makes the driver's initialisation fail with that code."""

    node: str
    model: GpuModel
    driver: str = ""
    init_error: int = 0
    gpus: list[Gpu] = field(default_factory=list)
    instances: list[MigInstance] = field(default_factory=list)
    _views: dict[Path, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, node: str, model: GpuModel) -> NodeGpus:
        """The GPUs that a model describes, with identities that depend on the node's name only."""
        gpus, instances = [], []
        partitioned = 0 if model.mig is None else (model.mig.gpus if model.mig.gpus is not None else model.count)
        for index in range(model.count):
            identity = uuid.uuid5(_NAMESPACE, f"{node}/{index}")
            gpu = Gpu(
                index=index,
                uuid=f"GPU-{identity}",
                pci_bus_id=f"00000000:{0x1B + 0x10 * index & 0xFF:02X}:00.0",
                serial=str(identity.int % 10**13),
                memory_mib=model.memory_mib,
                power_w=model.power_w * IDLE_SHARE + 1.5,
                power_limit_w=float(model.power_w),
                max_sm_clock_mhz=model.sm_clock_mhz,
                mem_clock_mhz=model.mem_clock_mhz,
                mig_mode="Enabled" if index < partitioned else "Disabled" if model.mig_capable else "N/A",
            )
            gpus.append(gpu)
            if index < partitioned:
                instances += _partition(node, model, gpu)
        return cls(node, model, model.driver, 0, gpus, instances)

    def show_bus(self, directory: Path) -> None:
        """Write the node's PCI devices as sysfs shows them: its boards, and a bridge of another vendor."""
        boards = {gpu.pci_bus_id[4:].lower(): "0x030200" for gpu in self.gpus}
        for address, kind in {**boards, "0000:00:00.0": "0x060000"}.items():
            place = directory / address
            place.mkdir(parents=True, exist_ok=True)
            (place / "vendor").write_text("0x10de\n" if address in boards else "0x1022\n", encoding="ascii")
            (place / "class").write_text(f"{kind}\n", encoding="ascii")

    def remove_board(self, index: int) -> None:
        """The board is not enumerated: neither bus nor driver know of it."""
        self.gpus = [gpu for gpu in self.gpus if gpu.index != index]
        self.publish()

    def units(self) -> dict[str, list[str]]:
        """What the device plugin offers, by resource name."""
        if self.model.time_slicing is not None:
            name = f"{GPU_RESOURCE}.shared" if self.model.time_slicing.rename else GPU_RESOURCE
            replicas = range(self.model.time_slicing.replicas)
            return {name: [f"{gpu.uuid}::{number}" for number in replicas for gpu in self.gpus]}
        whole = [gpu.uuid for gpu in self.gpus if gpu.mig_mode != "Enabled"]
        if self.model.mig is None:
            return {GPU_RESOURCE: whole}
        if self.model.mig.strategy == "single":
            return {GPU_RESOURCE: [instance.uuid for instance in self.instances]}
        offered: dict[str, list[str]] = {GPU_RESOURCE: whole}
        for instance in self.instances:
            offered.setdefault(f"nvidia.com/mig-{instance.profile}", []).append(instance.uuid)
        return offered

    def physical(self, unit: str) -> str:
        """The UUID of the GPU behind a unit."""
        return next((each.parent for each in self.instances if each.uuid == unit), unit.partition("::")[0])

    def show(self, place: Path, units: Sequence[str]) -> None:
        """Write a container's state file with just these units, and keep it up to date until `hide`."""
        self._views[place] = tuple(units)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(self.render(units))

    def hide(self, place: Path) -> None:
        """The container is gone."""
        self._views.pop(place, None)

    def change(self, index: int | None, **values: object) -> None:
        """Alter one GPU (or all, with None) and tell the containers that see it."""
        self.gpus = [replace(gpu, **values) if index in (None, gpu.index) else gpu for gpu in self.gpus]  # type: ignore[arg-type]
        self.publish()

    def publish(self) -> None:
        """Rewrite every state file in place, since containers have the file itself mounted."""
        for place, units in self._views.items():
            with place.open("r+", encoding="utf-8") as file:
                file.write(self.render(units))
                file.truncate()

    def render(self, units: Sequence[str]) -> str:
        """The state file for a container that was granted these units; indexes are the container's own."""
        major, _, minor = self.model.cuda.partition(".")
        lines = [f"node\tdriver={self.driver}\tcuda={int(major) * 1000 + int(minor or 0) * 10}\tinit={self.init_error}"]
        behind = {self.physical(unit) for unit in units}
        seen = [gpu for gpu in self.gpus if gpu.uuid in behind]
        instances = [each for each in self.instances if each.uuid in units]
        for index, gpu in enumerate(seen):
            lines.append(_line("parent" if instances else "gpu", self._pairs(gpu, index)))
        for number, each in enumerate(instances):
            index = next(place for place, gpu in enumerate(seen) if gpu.uuid == each.parent)
            lines.append(_line("gpu", self._instance_pairs(seen[index], index, each, number)))
        return "\n".join(lines) + "\n"

    def _instance_pairs(self, gpu: Gpu, index: int, each: MigInstance, number: int) -> dict[str, object]:
        return self._pairs(gpu, number) | {
            "uuid": each.uuid,
            "product": f"{self.model.shown_name} MIG {each.profile}",
            "memory": each.memory_mib,
            "used": 0,
            "parent": index,
            "profile": each.profile,
            "device": each.number,
            "gi": each.instance,
        }

    def _pairs(self, gpu: Gpu, index: int) -> dict[str, object]:
        return {
            "index": index,
            "uuid": gpu.uuid,
            "product": self.model.shown_name,
            "pci": gpu.pci_bus_id,
            "serial": gpu.serial,
            "memory": gpu.memory_mib,
            "used": gpu.used_mib,
            "compute": self.model.compute,
            "utilization": gpu.utilization,
            "temperature": gpu.temperature_c,
            "power": gpu.power_w,
            "power_limit": gpu.power_limit_w,
            "energy": gpu.energy_mj,
            "sm_clock": gpu.sm_clock_mhz,
            "max_sm_clock": gpu.max_sm_clock_mhz,
            "mem_clock": gpu.mem_clock_mhz,
            "throttle": gpu.throttle,
            "ecc_corrected": gpu.ecc_corrected,
            "ecc_uncorrected": gpu.ecc_uncorrected,
            "remap_correctable": gpu.remapped_correctable,
            "remap_uncorrectable": gpu.remapped_uncorrectable,
            "remap_pending": int(gpu.remap_pending),
            "remap_failed": int(gpu.remap_failed),
            "pcie_gen": gpu.pcie_generation,
            "pcie_width": gpu.pcie_width,
            "pcie_replays": gpu.pcie_replays,
            "mig": gpu.mig_mode,
            "xid": gpu.xid,
            "context": gpu.context_error or (_UNKNOWN if gpu.lost else 0),
            "launch": gpu.compute_error,
            "flip": int(gpu.flips_bits),
            "lost": int(gpu.lost),
            "errors": ",".join(gpu.errors),
        }


def _line(kind: str, pairs: Mapping[str, object]) -> str:
    return f"{kind}\t" + "\t".join(f"{key}={value}" for key, value in pairs.items())


def _partition(node: str, model: GpuModel, gpu: Gpu) -> list[MigInstance]:
    assert model.mig is not None
    found: list[MigInstance] = []
    for profile, count in model.mig.profiles.items():
        for _ in range(count):
            number = len(found)
            identity = uuid.uuid5(_NAMESPACE, f"{node}/{gpu.index}/{number}")
            memory = profile_memory_mib(model, profile)
            found.append(MigInstance(f"MIG-{identity}", gpu.uuid, profile, number, number + 7, memory))
    return found
