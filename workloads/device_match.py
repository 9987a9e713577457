"""Which of NVML's GPUs is which of CUDA's: both number them in their own order, the UUID is the same.

Knows no limit.
"""

from __future__ import annotations

from typing import Dict, List, Optional

from workloads.cuda_driver import Driver
from workloads.nvml import Device, Nvml


def by_ordinal(driver: Driver, nvml: Nvml) -> List[Optional[Device]]:
    """NVML's device of each CUDA ordinal; None where NVML has none of that UUID (a MIG instance, or a lost GPU)."""
    known: Dict[Optional[str], Device] = {device.uuid(): device for device in nvml.devices()}
    return [known.get(driver.uuid(gpu)) for gpu in range(driver.device_count())]
