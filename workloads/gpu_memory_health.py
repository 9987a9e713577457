"""A GPU's memory errors as its driver counts them: ECC by place, remapped rows, retired pages. Knows no limit."""

from __future__ import annotations

from typing import Dict, List

from workloads.contract import Sample, Scalar
from workloads.nvml import Device
from workloads.nvml_types import (
    AGGREGATE,
    CORRECTED,
    DOUBLE_BIT,
    DRAM,
    MULTIPLE_SINGLE_BIT,
    SRAM,
    UNCORRECTED,
    VOLATILE,
)

_ERRORS = {"ecc_corrected": CORRECTED, "ecc_uncorrected": UNCORRECTED}
_PLACES = {"dram": DRAM, "sram": SRAM}
_SPANS = {"since_boot": VOLATILE, "ever": AGGREGATE}
_ROWS = {
    "rows_correctable": "correctable",
    "rows_uncorrectable": "uncorrectable",
    "rows_pending": "pending",
    "rows_failure": "failure",
}


def ecc_samples(device: Device) -> List[Sample]:
    """Errors corrected and uncorrected, in DRAM and SRAM, since boot and ever; what the product counts of these."""
    found = []
    for metric, number in _ERRORS.items():
        for place, location in _PLACES.items():
            for span, counter in _SPANS.items():
                errors = device.ecc_errors(number, counter, location)
                if errors is not None:
                    at: Dict[str, Scalar] = {"gpu": device.index, "memory": place, "span": span}
                    found.append(Sample(metric, float(errors), "count", at))
    return found


def row_samples(device: Device) -> List[Sample]:
    """Remapped rows (Ampere and later) and retired pages (before): a product has one or the other."""
    at = {"gpu": device.index}
    rows = device.remapped_rows()
    found = [] if rows is None else [Sample(name, float(rows[key]), "count", at) for name, key in _ROWS.items()]
    pages = [device.retired_pages(cause) for cause in (MULTIPLE_SINGLE_BIT, DOUBLE_BIT)]
    known = [each for each in pages if each is not None]
    return found + ([Sample("retired_pages", float(sum(known)), "count", at)] if known else [])
