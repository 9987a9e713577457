"""One GPU of a simulated node as hardware, and a partition of one: identity, state, and what ails it.

Owns these values. Pure data: it must not know nodes, files or the stand-ins that answer from it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    """One GPU. Error codes are the driver API's (0: no error); `flips_bits` is a GPU that computes wrong.

    `throttle` is NVML's bit mask of clock event reasons; `throttle_cause` (such bits), `clock_cap_mhz`, `extra_heat_c`
    are what is wrong with it; `errors` names what the driver cannot read (power,
    temperature, utilization, memory, clocks, ecc, fan); `lost` is a GPU that has fallen off the bus.
    `held_mib` and `foreign_percent` are memory and time that somebody else's processes take. `bad_mib` is where a cell
    of the memory lies that does not keep its value. `counters_frozen` and `counters_of` (a GPU's index + 1) are
    performance counters that stand still, or are another GPU's. `xid_at_load` is an XID that the next kernel causes.
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
    mem_clock_cap_mhz: int = 0
    slowdown_c: int = 87
    ecc_corrected: int = 0
    ecc_uncorrected: int = 0
    sram_corrected: int = 0
    sram_uncorrected: int = 0
    retired_single: int = 0
    retired_double: int = 0
    remapped_correctable: int = 0
    remapped_uncorrectable: int = 0
    remap_pending: bool = False
    remap_failed: bool = False
    pcie_generation: int = 5
    pcie_width: int = 16
    pcie_replays: int = 0
    vbios: str = "96.00.00.00.00"
    nvlinks: int = 0
    nvlinks_down: int = 0
    nvlink_mb_s: int = 0
    nvlink_replays: int = 0
    nvlink_recoveries: int = 0
    nvlink_crc_errors: int = 0
    fabric_state: int = 0
    fabric_status: int = 0
    unreachable_peers: tuple[int, ...] = ()
    mig_mode: str = "Disabled"
    xid: int = 0
    xid_at_load: int = 0
    recovery_action: int = 0
    held_mib: int = 0
    bad_mib: int = 0
    foreign_percent: int = 0
    counters_frozen: bool = False
    counters_of: int = 0
    context_error: int = 0
    compute_error: int = 0
    flips_bits: bool = False
    hangs: bool = False
    """What it is given to do never ends."""
    lost: bool = False
    errors: tuple[str, ...] = ()

    @property
    def top_clock_mhz(self) -> int:
        """The clock it runs at under load."""
        return min(self.max_sm_clock_mhz, self.clock_cap_mhz or self.max_sm_clock_mhz)

    @property
    def top_memory_clock_mhz(self) -> int:
        """The memory's clock."""
        return min(self.mem_clock_mhz, self.mem_clock_cap_mhz or self.mem_clock_mhz)


@dataclass(frozen=True)
class MigInstance:
    """One partition of a GPU: `number` is its place among the GPU's MIG devices, `instance` the GPU instance's id."""

    uuid: str
    parent: str
    profile: str
    number: int
    instance: int
    memory_mib: int
