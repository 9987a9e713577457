"""GPUs that work as hard as their pods' processes do: utilisation, power, heat, memory and energy from real CPU use.

Owns the model from processes to GPUs, and the node's files that the metrics exporter reads. It must not know pods but
for who holds which unit.
"""

from __future__ import annotations

import asyncio
import logging
import os
import struct
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from simcluster.hardware.gpu import Gpu
from simcluster.hardware.gpus import IDLE_SHARE, NodeGpus
from simcluster.node import memory
from simcluster.node.kubelet import NodeKubelet
from simcluster.node.pod import PodWorker

PERIOD_S = 0.5
_SLOT = struct.Struct("=5Q")
_TICKS = os.sysconf("SC_CLK_TCK")
_IDLE_C, _BUSY_C = 34, 70
_FULL_SHARE = 0.9
_IDLE_MHZ = 345
_GPU_IDLE = 0x1
_log = logging.getLogger(__name__)
Load = tuple[float, float]
"""CPU seconds a second, and resident bytes."""


class LoadMeter:
    """Looks at every node with GPUs twice a second."""

    def __init__(self, kubelets: Mapping[str, NodeKubelet]) -> None:
        self._kubelets = [
            each for each in kubelets.values() if each.node.gpus is not None and each.node.mode != "hollow"
        ]
        self._cpu_s: dict[int, float] = {}
        self._worked_ns: dict[tuple[Path, str], int] = {}
        self._told: dict[str, str] = {}
        self._at = time.monotonic()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Make the nodes' files and begin to measure."""
        for kubelet in self._kubelets:
            gpus = kubelet.node.gpus
            assert gpus is not None
            units = [unit for units in gpus.units().values() for unit in units]
            gpus.show(kubelet.node.directory / "host/run/simcluster/gpus", units)
            self._tell_allocations(kubelet)
        self._task = asyncio.create_task(self._run(), name="gpu-load")

    def stop(self) -> None:
        """Stop measuring."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(PERIOD_S)
            now = time.monotonic()
            elapsed_s, self._at = now - self._at, now
            seen: dict[int, float] = {}
            for kubelet in self._kubelets:
                try:
                    self._measure(kubelet, elapsed_s, seen)
                except OSError as error:
                    _log.warning("load of %s not measured: %s", kubelet.node.name, error)
            self._cpu_s = seen

    def _measure(self, kubelet: NodeKubelet, elapsed_s: float, seen: dict[int, float]) -> None:
        gpus = kubelet.node.gpus
        assert gpus is not None
        holders = kubelet.node.devices.holders()
        shares: dict[str, Load] = {}
        for holder in set(holders.values()):
            behind = {gpus.physical(unit) for unit, other in holders.items() if other == holder}
            for uuid, (cpu, resident) in self._load_of(kubelet, holder, behind, elapsed_s, seen).items():
                before = shares.get(uuid, (0.0, 0.0))
                shares[uuid] = before[0] + cpu, before[1] + resident
        for uuid, (busy, xid) in self._kernels(gpus, elapsed_s).items():
            before = shares.get(uuid, (0.0, 0.0))
            shares[uuid] = max(before[0], busy), before[1]
            for gpu in gpus.gpus:
                if gpu.uuid == uuid and xid not in (0, gpu.xid):
                    gpus.change(gpu.index, xid=xid)
        changed = [loaded(gpu, *shares.get(gpu.uuid, (0.0, 0.0)), elapsed_s) for gpu in gpus.gpus]
        if changed != gpus.gpus:
            gpus.gpus = changed
            gpus.publish()
        self._tell_allocations(kubelet)

    def _kernels(self, gpus: NodeGpus, elapsed_s: float) -> dict[str, tuple[float, int]]:
        """By GPU: the share of the time in which kernels of any container ran on it, and the last XID they caused."""
        found: dict[str, tuple[float, int]] = {}
        pages = {page: uuids for page, uuids in gpus.pages.items() if page.is_file()}
        for page, uuids in pages.items():
            for uuid, (worked_ns, xid) in zip(uuids, read_page(page.read_bytes(), time.monotonic_ns()), strict=False):
                done_ns = worked_ns - self._worked_ns.get((page, uuid), 0)
                self._worked_ns[page, uuid] = worked_ns
                busy, last = found.get(uuid, (0.0, 0))
                found[uuid] = busy + max(0.0, done_ns / 1e9 / max(elapsed_s, 1e-3)), xid or last
        return found

    def _load_of(
        self, kubelet: NodeKubelet, holder: tuple[str, str], behind: set[str], elapsed_s: float, seen: dict[int, float]
    ) -> dict[str, Load]:
        """What the processes of a container do to each of its GPUs."""
        worker = kubelet.worker(holder[0])
        container = worker.containers.get(holder[1]) if isinstance(worker, PodWorker) else None
        if container is None or container.process is None:
            return {}
        found: dict[str, Load] = {}
        for pid in memory.tree(container.process.pid):
            total_s = _cpu_seconds(pid)
            seen[pid] = total_s
            used_s = max(0.0, total_s - self._cpu_s.get(pid, total_s if total_s > elapsed_s else 0.0))
            chosen = behind & visible_gpus(pid) or behind
            for uuid in chosen:
                cpu, resident = found.get(uuid, (0.0, 0.0))
                share = used_s / max(elapsed_s, 1e-3) / len(chosen)
                found[uuid] = cpu + share, resident + memory.own_bytes(pid) / len(chosen)
        return found

    def _tell_allocations(self, kubelet: NodeKubelet) -> None:
        lines = []
        for unit, (uid, container) in sorted(kubelet.node.devices.holders().items()):
            worker = kubelet.worker(uid)
            if worker is not None:
                metadata = worker.pod["metadata"]
                lines.append(f"{unit}\t{metadata['namespace']}\t{metadata['name']}\t{container}\n")
        text = "".join(lines)
        if self._told.get(kubelet.node.name) != text:
            place = kubelet.node.directory / "host/var/lib/kubelet/pod-resources/allocations"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
            self._told[kubelet.node.name] = text


def read_page(page: bytes, now_ns: int) -> list[tuple[int, int]]:
    """(nanoseconds of work up to now, last XID) of every slot of a container's page of work (native/load.h)."""
    return [
        (base + max(0, min(now_ns, until) - start), xid if xids else 0)
        for base, start, until, xids, xid in _SLOT.iter_unpack(page)
    ]


def loaded(gpu: Gpu, cpu: float, resident: float, elapsed_s: float) -> Gpu:
    """The GPU under a load of `cpu` CPU seconds a second and `resident` bytes, after `elapsed_s` of it."""
    busy = min(1.0, cpu + gpu.foreign_percent / 100)
    idle = busy < 0.01
    power = gpu.power_limit_w * (IDLE_SHARE + (_FULL_SHARE - IDLE_SHARE) * busy) + 1.5
    return replace(
        gpu,
        utilization=round(busy * 100),
        power_w=round(power, 3),
        temperature_c=round(_IDLE_C + (_BUSY_C - _IDLE_C) * busy) + gpu.extra_heat_c,
        used_mib=min(gpu.memory_mib, int(resident) >> 20),
        sm_clock_mhz=_IDLE_MHZ if idle else gpu.top_clock_mhz,
        energy_mj=gpu.energy_mj + int(power * 1000 * elapsed_s),
        throttle=(_GPU_IDLE if idle else 0) | gpu.throttle_cause,
    )


def visible_gpus(pid: int) -> set[str]:
    """The UUIDs of the GPUs that a process was confined to at its start (CUDA_VISIBLE_DEVICES); empty for all."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return set()
    given = next((entry for entry in environment if entry.startswith(b"CUDA_VISIBLE_DEVICES=")), b"")
    return set(given.partition(b"=")[2].decode(errors="replace").split(","))


def _cpu_seconds(pid: int) -> float:
    """Of one process with all its threads."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS
