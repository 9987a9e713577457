"""Reads a termination message as a measurement and insists that it is this run's, this pod's and of the size asked.

It must not know limits, statuses or how the message was fetched.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuproof.evidence import failure
from gpuproof.failure import JobFailure, Reason
from workloads.contract import ContractError, Measurement, Truncated, parse


@dataclass(frozen=True)
class Expected:
    """Who must have measured what: all but `world_size` and `hosts` are compared as words."""

    workload: str
    run_id: str
    node: str
    pod: str
    world_size: int
    hosts: int


def read_message(text: str, expected: Expected) -> Measurement | JobFailure:
    """The measurement, or why there is none that counts; a partial reading is never returned."""
    if not text.strip():
        return failure(
            Reason.NO_MEASUREMENT, "measure ended with exit code 0 and left no termination message; read its log"
        )
    try:
        measurement = parse(text)
    except Truncated as error:
        what = f"the measurement was cut on its way: {error}; look for a kubelet or container count that shortens it"
        return failure(Reason.TRUNCATED_MEASUREMENT, what, [text])
    except ContractError as error:
        return failure(Reason.MALFORMED_MEASUREMENT, f"the termination message is no measurement: {error}", [text])
    return _ours(measurement, expected, text) or measurement


def _ours(found: Measurement, expected: Expected, text: str) -> JobFailure | None:
    pairs = (
        ("workload", found.workload, expected.workload),
        ("run", found.run_id, expected.run_id),
        ("node", found.node, expected.node),
        ("pod", found.pod, expected.pod),
    )
    for what, actual, wanted in pairs:
        if actual != wanted:
            said = f"the measurement names {what} {actual!r}, expected {wanted!r}; it is not counted"
            return failure(Reason.FOREIGN_MEASUREMENT, said, [text])
    if found.world_size != expected.world_size:
        said = f"{found.world_size} ranks took part, expected {expected.world_size}; read the workload's log"
        return failure(Reason.WRONG_WORLD_SIZE, said, [text])
    if found.hosts != expected.hosts:
        said = f"{found.hosts} hosts took part, expected {expected.hosts}; look where the pods were placed"
        return failure(Reason.WRONG_NODE_COUNT, said, [text])
    return None
