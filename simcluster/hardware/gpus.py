"""The GPUs of one node as hardware: identity, health, and the state file that the stand-ins read.

Owns the hardware's own view, apart from what the device plugin offers. It must not know pods; it gets
lists of granted GPUs.

State file: first line "node<TAB>key=value…", then one line a GPU "gpu<TAB>key=value…". Values hold no tab.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from simcluster.topology import GpuModel

_NAMESPACE = uuid.UUID("5f0c3a52-6d9a-4f4e-9f6b-0d1f5a1c7e33")


@dataclass(frozen=True)
class Gpu:
    """One GPU. Error codes are the driver API's (0: no error); `flips_bits` is a GPU that computes wrong."""

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
    sm_clock_mhz: int = 345
    max_sm_clock_mhz: int = 1980
    mem_clock_mhz: int = 2619
    ecc_corrected: int = 0
    ecc_uncorrected: int = 0
    mig_mode: str = "Disabled"
    xid: int = 0
    context_error: int = 0
    compute_error: int = 0
    flips_bits: bool = False


@dataclass
class NodeGpus:
    """All GPUs of a node. `init_error` makes the driver's initialisation fail with that code."""

    node: str
    model: GpuModel
    driver: str = ""
    init_error: int = 0
    gpus: list[Gpu] = field(default_factory=list)
    _views: dict[Path, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, node: str, model: GpuModel) -> NodeGpus:
        """The GPUs that a model describes, with identities that depend on the node's name only."""
        gpus = []
        for index in range(model.count):
            identity = uuid.uuid5(_NAMESPACE, f"{node}/{index}")
            gpus.append(
                Gpu(
                    index=index,
                    uuid=f"GPU-{identity}",
                    pci_bus_id=f"00000000:{0x1B + 0x10 * index & 0xFF:02X}:00.0",
                    serial=str(identity.int % 10**13),
                    memory_mib=model.memory_mib,
                )
            )
        return cls(node, model, model.driver, 0, gpus)

    def show(self, place: Path, uuids: Sequence[str]) -> None:
        """Write a container's state file with just these GPUs, and keep it up to date until `hide`."""
        self._views[place] = tuple(uuids)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(self.render(uuids))

    def hide(self, place: Path) -> None:
        """The container is gone."""
        self._views.pop(place, None)

    def change(self, index: int | None, **values: object) -> None:
        """Alter one GPU (or all, with None) and tell the containers that see it."""
        self.gpus = [replace(gpu, **values) if index in (None, gpu.index) else gpu for gpu in self.gpus]  # type: ignore[arg-type]
        self.publish()

    def publish(self) -> None:
        """Rewrite every state file in place, since containers have the file itself mounted."""
        for place, uuids in self._views.items():
            with place.open("r+", encoding="utf-8") as file:
                file.write(self.render(uuids))
                file.truncate()

    def render(self, uuids: Sequence[str]) -> str:
        """The state file for a container that was granted these GPUs; indexes are the container's own."""
        major, _, minor = self.model.cuda.partition(".")
        lines = [f"node\tdriver={self.driver}\tcuda={int(major) * 1000 + int(minor or 0) * 10}\tinit={self.init_error}"]
        granted = [gpu for gpu in self.gpus if gpu.uuid in uuids]
        for index, gpu in enumerate(granted):
            pairs = {
                "index": index,
                "uuid": gpu.uuid,
                "product": self.model.product,
                "pci": gpu.pci_bus_id,
                "serial": gpu.serial,
                "memory": gpu.memory_mib,
                "used": gpu.used_mib,
                "compute": self.model.compute,
                "utilization": gpu.utilization,
                "temperature": gpu.temperature_c,
                "power": gpu.power_w,
                "power_limit": gpu.power_limit_w,
                "sm_clock": gpu.sm_clock_mhz,
                "max_sm_clock": gpu.max_sm_clock_mhz,
                "mem_clock": gpu.mem_clock_mhz,
                "ecc_corrected": gpu.ecc_corrected,
                "ecc_uncorrected": gpu.ecc_uncorrected,
                "mig": gpu.mig_mode,
                "xid": gpu.xid,
                "context": gpu.context_error,
                "launch": gpu.compute_error,
                "flip": int(gpu.flips_bits),
            }
            lines.append("gpu\t" + "\t".join(f"{key}={value}" for key, value in pairs.items()))
        return "\n".join(lines) + "\n"
