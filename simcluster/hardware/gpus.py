"""The GPUs of one node as hardware: identity, health, and the state file that the stand-ins read.

Owns the hardware's own view, apart from what the device plugin offers. It must not know pods; it gets
lists of granted units: a GPU's UUID, UUID::N for one of its time slices, or the UUID of a MIG instance.

State file: first line "node<TAB>key=value…", then a line a device. Values hold no tab. "gpu" lines are what CUDA
enumerates; where those are MIG instances, "parent" lines give the physical GPUs that nvidia-smi and NVML list.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from simcluster.hardware.gpu import Gpu, MigInstance
from simcluster.hardware.gpu_state import instance_pairs, line_of, pairs
from simcluster.hardware.kernel_log import KernelLog
from simcluster.hardware.labels import profile_memory_mib
from simcluster.topology import GpuModel

_NAMESPACE = uuid.UUID("5f0c3a52-6d9a-4f4e-9f6b-0d1f5a1c7e33")
GPU_RESOURCE = "nvidia.com/gpu"
_COMPLETED = 3
"""NVML_GPU_FABRIC_STATE_COMPLETED."""
PAGE_BYTES = 64 * 5 * 8
"""A container's page of work done: `struct load` of native/load.h for each of MAX_GPUS."""
IDLE_SHARE = 0.1
"""Of the power limit, drawn by an idle GPU."""


@dataclass
class NodeGpus:
    """All GPUs of a node. `init_error` makes the driver's initialisation fail with that code."""

    node: str
    model: GpuModel
    driver: str = ""
    init_error: int = 0
    gpus: list[Gpu] = field(default_factory=list)
    instances: list[MigInstance] = field(default_factory=list)
    pages: dict[Path, tuple[str, ...]] = field(default_factory=dict)
    """The containers' pages of work done, each with the UUIDs of its GPUs in order."""
    kernel_log: KernelLog = field(default_factory=KernelLog)
    _views: dict[Path, tuple[str, ...]] = field(default_factory=dict)
    _refusing: dict[Path, tuple[int, int]] = field(default_factory=dict)

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
                nvlinks=model.nvlinks,
                nvlink_mb_s=model.nvlink_mb_s,
                fabric_state=_COMPLETED if model.nvlinks and model.fabric else 0,
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
        self._refusing.pop(place, None)

    def refuse(self, nvml_error: int, init_error: int) -> None:
        """From now on running containers cannot open a GPU anew: what is open works on, and so do new containers."""
        running = [place for place in self._views if place.suffix == ".gpus"]
        self._refusing |= dict.fromkeys(running, (nvml_error, init_error))
        self.publish()

    def count_work(self, page: Path, units: Sequence[str]) -> None:
        """Make the page in which a container's CUDA library writes down what these units have done."""
        behind = {self.physical(unit) for unit in units}
        page.write_bytes(bytes(PAGE_BYTES))
        self.pages[page] = tuple(gpu.uuid for gpu in self.gpus if gpu.uuid in behind)

    def forget_work(self, page: Path) -> None:
        """The container is gone."""
        self.pages.pop(page, None)

    def change(self, index: int | None, **values: object) -> None:
        """Alter one GPU (or all, with None) and tell the containers that see it."""
        before = self.gpus
        self.gpus = [replace(gpu, **values) if index in (None, gpu.index) else gpu for gpu in self.gpus]  # type: ignore[arg-type]
        for old, new in zip(before, self.gpus, strict=True):
            if new.xid not in (0, old.xid):
                self.kernel_log.tell_xid(new.pci_bus_id, new.xid)
        self.publish()

    def publish(self) -> None:
        """Rewrite every state file in place, since containers have the file itself mounted."""
        for place, units in self._views.items():
            with place.open("r+", encoding="utf-8") as file:
                file.write(self.render(units, *self._refusing.get(place, (0, 0))))
                file.truncate()

    def render(self, units: Sequence[str], nvml_error: int = 0, init_error: int = 0) -> str:
        """The state file for a container that was granted these units; indexes are the container's own."""
        major, _, minor = self.model.cuda.partition(".")
        version = int(major) * 1000 + int(minor or 0) * 10
        init = init_error or self.init_error
        lines = [f"node\tdriver={self.driver}\tcuda={version}\tinit={init}\tnvml={nvml_error}"]
        behind = {self.physical(unit) for unit in units}
        seen = [gpu for gpu in self.gpus if gpu.uuid in behind]
        instances = [each for each in self.instances if each.uuid in units]
        for index, gpu in enumerate(seen):
            lines.append(line_of("parent" if instances else "gpu", pairs(self.model, gpu, index)))
        for number, each in enumerate(instances):
            index = next(place for place, gpu in enumerate(seen) if gpu.uuid == each.parent)
            lines.append(line_of("gpu", instance_pairs(self.model, seen[index], index, each, number)))
        return "\n".join(lines) + "\n"


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
