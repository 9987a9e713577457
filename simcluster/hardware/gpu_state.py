"""How a GPU stands in the state file that the stand-ins read: one line a device, key=value between tabs.

Owns the keys. It must not know which container sees which device.
"""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.hardware.gpu import Gpu, MigInstance
from simcluster.hardware.pace import Pace, pace
from simcluster.topology import GpuModel

_UNKNOWN = 999


def instance_pairs(model: GpuModel, gpu: Gpu, index: int, each: MigInstance, number: int) -> dict[str, object]:
    """What it says of a partition; `index` is its GPU's place, `number` its own."""
    return pairs(model, gpu, number) | {
        "uuid": each.uuid,
        "product": f"{model.shown_name} MIG {each.profile}",
        "memory": each.memory_mib,
        "used": 0,
        "parent": index,
        "profile": each.profile,
        "device": each.number,
        "gi": each.instance,
    }


def pairs(model: GpuModel, gpu: Gpu, index: int) -> dict[str, object]:
    """What the state file says of a GPU; `index` is the container's own."""
    now = pace_of(gpu)
    return {
        "index": index,
        "uuid": gpu.uuid,
        "product": model.shown_name,
        "pci": gpu.pci_bus_id,
        "serial": gpu.serial,
        "memory": gpu.memory_mib,
        "used": gpu.used_mib,
        "held": gpu.held_mib,
        "compute": model.compute,
        "utilization": gpu.utilization,
        "temperature": gpu.temperature_c,
        "slowdown_c": gpu.slowdown_c,
        "power": gpu.power_w,
        "power_limit": gpu.power_limit_w,
        "energy": gpu.energy_mj,
        "sm_clock": gpu.sm_clock_mhz,
        "top_clock": gpu.top_clock_mhz,
        "max_sm_clock": gpu.max_sm_clock_mhz,
        "mem_clock": gpu.top_memory_clock_mhz,
        "throttle": gpu.throttle,
        "throttle_cause": gpu.throttle_cause,
        "ecc_corrected": gpu.ecc_corrected,
        "ecc_uncorrected": gpu.ecc_uncorrected,
        "sram_corrected": gpu.sram_corrected,
        "sram_uncorrected": gpu.sram_uncorrected,
        "retired_single": gpu.retired_single,
        "retired_double": gpu.retired_double,
        "remap_correctable": gpu.remapped_correctable,
        "remap_uncorrectable": gpu.remapped_uncorrectable,
        "remap_pending": int(gpu.remap_pending),
        "remap_failed": int(gpu.remap_failed),
        "pcie_gen": gpu.pcie_generation,
        "pcie_width": gpu.pcie_width,
        "pcie_replays": gpu.pcie_replays,
        "vbios": gpu.vbios,
        "links": gpu.nvlinks,
        "links_down": (1 << gpu.nvlinks_down) - 1,
        "link_mb": gpu.nvlink_mb_s,
        "link_replays": gpu.nvlink_replays,
        "link_recoveries": gpu.nvlink_recoveries,
        "link_crc": gpu.nvlink_crc_errors,
        "fabric": gpu.fabric_state,
        "fabric_status": gpu.fabric_status,
        "no_peer": sum(1 << peer for peer in gpu.unreachable_peers),
        "mig": gpu.mig_mode,
        "xid": gpu.xid,
        "xid_at_load": gpu.xid_at_load,
        "recovery": gpu.recovery_action,
        "bad_mib": gpu.bad_mib,
        "foreign_percent": gpu.foreign_percent,
        "frozen": int(gpu.counters_frozen),
        "counters_of": gpu.counters_of,
        "mflops": round(now.mflops, 3),
        "h2d": round(now.to_device, 3),
        "d2h": round(now.to_host, 3),
        "hbm": round(now.inside, 3),
        "peer": round(now.to_peer, 3),
        "context": gpu.context_error or (_UNKNOWN if gpu.lost else 0),
        "launch": gpu.compute_error,
        "flip": int(gpu.flips_bits),
        "hang": int(gpu.hangs),
        "lost": int(gpu.lost),
        "errors": ",".join(gpu.errors),
    }


def pace_of(gpu: Gpu) -> Pace:
    """How fast the GPU is as it is now."""
    return pace(
        clock_share=gpu.top_clock_mhz / gpu.max_sm_clock_mhz,
        memory_clock_share=gpu.top_memory_clock_mhz / gpu.mem_clock_mhz,
        foreign_share=gpu.foreign_percent / 100,
        pcie_generation=gpu.pcie_generation,
        pcie_width=gpu.pcie_width,
        nvlinks_up=gpu.nvlinks - gpu.nvlinks_down,
        nvlink_mb_s=gpu.nvlink_mb_s,
    )


def line_of(kind: str, pairs: Mapping[str, object]) -> str:
    """A line of the file."""
    return f"{kind}\t" + "\t".join(f"{key}={value}" for key, value in pairs.items())
