"""Which GPU does the first of two pods on a node get? It keeps it while the second one asks for its own."""

from __future__ import annotations

from workloads.contract import Measurement, Sample, emit, identity, leave_on_sigterm, parameters
from workloads.gpus_seen import look

PARAMETERS = ("nvidia_smi_timeout_s",)
POD = {"gpus": 1, "kept": True}


def measure(workload: str = "exclusive_first", pod: str = "first") -> Measurement:
    """The UUIDs that this pod sees; `granted_gpu_uuid` of both pods is held to be unique."""
    seen = look(float(parameters().get("nvidia_smi_timeout_s", 30)))
    counted = Sample("gpus_granted", float(len(seen.uuids)), "count", {"of": pod})
    return Measurement(
        workload,
        world_size=1,
        hosts=1,
        samples=(counted,),
        facts={"granted_gpu_uuid": list(seen.uuids)},
        environment={},
        **identity(),
    )


if __name__ == "__main__":
    leave_on_sigterm()
    emit(measure())
