"""What does a pod see of the node's GPUs that asked for none, with NVIDIA_VISIBLE_DEVICES=all in its environment?

That variable is in many images; a container runtime that obeys it hands out GPUs that nobody asked for.
"""

from __future__ import annotations

from typing import Dict

from workloads.contract import Fact, Measurement, emit, identity, leave_on_sigterm, parameters
from workloads.gpus_seen import look, samples_of

PARAMETERS = ("nvidia_smi_timeout_s",)
POD = {"gpus": "none", "tempted": True}


def measure() -> Measurement:
    """One look from a pod without GPUs."""
    seen = look(float(parameters().get("nvidia_smi_timeout_s", 30)))
    samples = samples_of(seen, 0, "alone")
    facts: Dict[str, Fact] = {"uuids_seen_without_asking": list(seen.uuids) or ["none"]}
    return Measurement(
        "isolation_none", world_size=1, hosts=1, samples=tuple(samples), facts=facts, environment={}, **identity()
    )


if __name__ == "__main__":
    leave_on_sigterm()
    emit(measure())
