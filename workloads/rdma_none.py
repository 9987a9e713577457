"""Which RDMA adapters can a pod open that asked for none?"""

from __future__ import annotations

from workloads import rdma_files, rdma_sysfs
from workloads.contract import Measurement, Sample, emit, identity, leave_on_sigterm
from workloads.verbs import NoVerbsError, Verbs

PARAMETERS = ()
POD = {"gpus": "none"}
A_PAGE = 1 << 12


def measure() -> Measurement:
    """Try every way in."""
    counts = {"sysfs": len(rdma_sysfs.devices()), "device files": len(rdma_files.openable()), "libibverbs": usable()}
    return Measurement(
        "rdma_none",
        world_size=1,
        hosts=1,
        samples=tuple(Sample("rdma_seen", float(count), "count", {"by": by}) for by, count in counts.items()),
        facts={"device_files_seen": " ".join(rdma_files.present()) or "none"},
        environment={},
        **identity(),
    )


def usable() -> int:
    """How many adapters could carry a connection; a container without the library can use none."""
    try:
        verbs = Verbs()
    except NoVerbsError:
        return 0
    return sum(not verbs.use(handle, A_PAGE).failed for handle in verbs.devices().values())


if __name__ == "__main__":
    leave_on_sigterm()
    emit(measure())
