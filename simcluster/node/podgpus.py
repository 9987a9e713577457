"""GPUs in one pod: which its containers were granted, what they see of them, and what they get mounted for that.

Owns the way from a grant to a container's view, with what a sick container runtime makes of it. It must not know the
pod's lifecycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simcluster.api.port import Object
from simcluster.hardware.gpus import NodeGpus
from simcluster.node.context import NodeContext

Bind = tuple[str, str, bool]
_STATE = "/run/simcluster/gpus"
_LOAD = "/run/simcluster/gpu-load"
_KERNEL_LOG = "/run/simcluster/kernel-log"
_MEMORY = "/run/simcluster/gpu-memory"
_PCI_BUS = "/sys/bus/pci/devices"
_TOOLS = "/opt/simcluster"
_KERNEL_LIBRARY = "/opt/simcluster/lib/libsimkernel.so"
_VISIBLE = "NVIDIA_VISIBLE_DEVICES"


class PodGpus:
    """The GPUs of one pod."""

    def __init__(self, node: NodeContext, uid: str, directory: Path) -> None:
        self._node = node
        self._uid = uid
        self._directory = directory

    def binds(self, container: Object, variables: dict[str, str]) -> list[Bind]:
        """What a container on a node with GPUs gets mounted; its variables are completed. Nothing on other nodes."""
        gpus = self._node.gpus
        if gpus is None:
            return []
        name = str(container["name"])
        seen = self._seen(gpus, container, variables)
        gpus.show(self._state(name), seen)
        gpus.count_work(self._load(name), seen)
        if seen:
            variables[_VISIBLE] = ",".join(dict.fromkeys(unit.partition("::")[0] for unit in seen))
        variables["SIMCLUSTER_GPU_STATE"] = _STATE
        variables["PATH"] = f"{_TOOLS}/gpu/bin:{variables.get('PATH', '')}"
        libraries = [f"{_TOOLS}/gpu/lib", variables.get("LD_LIBRARY_PATH", "")]
        variables["LD_LIBRARY_PATH"] = ":".join(part for part in libraries if part)
        variables["LD_PRELOAD"] = " ".join(part for part in (_KERNEL_LIBRARY, variables.get("LD_PRELOAD", "")) if part)
        log = self._node.directory / "host/var/log/gpu-kernel-log"
        gpus.kernel_log.write_to(log)
        return [
            (str(self._state(name)), _STATE, True),
            (str(self._load(name)), _LOAD, False),
            (str(log), _KERNEL_LOG, True),
            (str(self._bus(gpus)), _PCI_BUS, True),
            *self._device_files(gpus, seen),
            *self._memory(),
        ]

    def forget(self, containers: Sequence[str]) -> None:
        """The pod has ended."""
        if self._node.gpus is not None:
            for name in containers:
                self._node.gpus.hide(self._state(name))
                self._node.gpus.forget_work(self._load(name))

    def _seen(self, gpus: NodeGpus, container: Object, variables: dict[str, str]) -> list[str]:
        troubles = self._node.troubles
        asked = (container.get("resources") or {}).get("limits") or {}
        held = self._node.devices.grant(self._uid, container["name"], asked)
        granted = [unit for resource, units in held.items() if resource.startswith("nvidia.com/") for unit in units]
        everything = [unit for units in gpus.units().values() for unit in units]
        if granted and troubles.shows_all_gpus:
            return everything
        if not granted and troubles.obeys_visible_devices and variables.get(_VISIBLE) == "all":
            return everything
        return granted[: max(0, len(granted) - troubles.hidden_gpus)]

    def _state(self, container: str) -> Path:
        return self._directory / f"{container}.gpus"

    def _load(self, container: str) -> Path:
        return self._directory / f"{container}.gpu-load"

    def _bus(self, gpus: NodeGpus) -> Path:
        bus = self._node.directory / "pci"
        if not bus.is_dir():
            gpus.show_bus(bus)
        return bus

    def _device_files(self, gpus: NodeGpus, seen: Sequence[str]) -> list[Bind]:
        """/dev/nvidiaN by the node's own numbers. Light containers share one /dev, where they would show to all."""
        if self._node.mode != "full":
            return []
        behind = {gpus.physical(unit) for unit in seen}
        return [("/dev/null", f"/dev/nvidia{gpu.index}", False) for gpu in gpus.gpus if gpu.uuid in behind]

    def _memory(self) -> list[Bind]:
        """Where the driver stand-in keeps what programs leave in device memory: only where it is not cleared."""
        if not self._node.troubles.keeps_gpu_memory:
            return []
        place = self._node.directory / "gpu-memory"
        place.mkdir(exist_ok=True)
        return [(str(place), _MEMORY, False)]
