"""The labels that feature discovery and the operators of GPUs and networks put on nodes.

Owns their names and values. Pure: it must not know nodes; it gets the hardware's description.
"""

from __future__ import annotations

from simcluster.topology import GpuModel, Pool, Rdma

_DEPLOYED = (
    "driver",
    "container-toolkit",
    "dcgm",
    "dcgm-exporter",
    "device-plugin",
    "gpu-feature-discovery",
    "mig-manager",
    "node-status-exporter",
    "operator-validator",
)
_FEATURE = "feature.node.kubernetes.io"


def hardware_labels(pool: Pool) -> dict[str, str]:
    """All labels that follow from a pool's hardware."""
    labels: dict[str, str] = {}
    if pool.gpu is not None and pool.gpu.count > 0:
        labels |= gpu_labels(pool.gpu)
    if pool.rdma is not None:
        labels |= rdma_labels(pool.rdma)
    return labels


def gpu_labels(gpu: GpuModel) -> dict[str, str]:
    """A GPU node's labels (names: k8s-device-plugin's feature discovery, gpu-operator, NFD)."""
    driver = [*gpu.driver.split("."), "", ""]
    major, _, minor = gpu.cuda.partition(".")
    compute_major, _, compute_minor = gpu.compute.partition(".")
    return {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.family": gpu.family,
        "nvidia.com/gpu.machine": gpu.machine,
        "nvidia.com/gpu.mode": "compute",
        "nvidia.com/gpu.compute.major": compute_major,
        "nvidia.com/gpu.compute.minor": compute_minor or "0",
        "nvidia.com/cuda.driver-version.full": gpu.driver,
        "nvidia.com/cuda.driver-version.major": driver[0],
        "nvidia.com/cuda.driver-version.minor": driver[1] or "0",
        "nvidia.com/cuda.driver-version.revision": driver[2],
        "nvidia.com/cuda.runtime-version.full": gpu.cuda,
        "nvidia.com/cuda.runtime-version.major": major,
        "nvidia.com/cuda.runtime-version.minor": minor or "0",
        "nvidia.com/mps.capable": "false",
        "nvidia.com/vgpu.present": "false",
        "nvidia.com/gpu-driver-upgrade-state": "upgrade-done",
        f"{_FEATURE}/pci-10de.present": "true",
        f"{_FEATURE}/system-os_release.ID": "ubuntu",
        **_sharing(gpu),
        **_partitions(gpu),
        **{f"nvidia.com/gpu.deploy.{what}": "true" for what in _DEPLOYED},
    }


def _sharing(gpu: GpuModel) -> dict[str, str]:
    """Count, memory and product, which a single MIG profile and time slicing change."""
    product, memory, count = gpu.product, gpu.memory_mib, gpu.count
    sliced = gpu.time_slicing
    if gpu.mig is not None and gpu.mig.strategy == "single":
        profile, each = next(iter(gpu.mig.profiles.items()))
        product, memory, count = f"{product}-MIG-{profile}", profile_memory_mib(gpu, profile), count * each
    elif sliced is not None and not sliced.rename:
        product = f"{product}-SHARED"
    return {
        "nvidia.com/gpu.count": str(count),
        "nvidia.com/gpu.product": product,
        "nvidia.com/gpu.memory": str(memory),
        "nvidia.com/gpu.replicas": str(sliced.replicas if sliced is not None else 1),
        "nvidia.com/gpu.sharing-strategy": "time-slicing" if sliced is not None else "none",
    }


def _partitions(gpu: GpuModel) -> dict[str, str]:
    labels = {
        "nvidia.com/mig.capable": "true" if gpu.mig_capable else "false",
        "nvidia.com/mig.config": "all-disabled",
        "nvidia.com/mig.config.state": "success",
        "nvidia.com/mig.strategy": "single",
    }
    if gpu.mig is None:
        return labels
    labels["nvidia.com/mig.strategy"] = gpu.mig.strategy
    labels["nvidia.com/mig.config"] = (
        f"all-{next(iter(gpu.mig.profiles))}" if len(gpu.mig.profiles) == 1 and gpu.mig.gpus is None else "custom"
    )
    if gpu.mig.strategy == "mixed":
        split = gpu.mig.gpus if gpu.mig.gpus is not None else gpu.count
        for profile, each in gpu.mig.profiles.items():
            base = f"nvidia.com/mig-{profile}"
            labels |= {
                f"{base}.count": str(split * each),
                f"{base}.product": f"{gpu.product}-MIG-{profile}",
                f"{base}.memory": str(profile_memory_mib(gpu, profile)),
                f"{base}.replicas": "1",
                f"{base}.sharing-strategy": "none",
                f"{base}.slices.gi": profile.partition("g")[0],
                f"{base}.slices.ci": profile.partition("g")[0],
            }
    return labels


def profile_memory_mib(gpu: GpuModel, profile: str) -> int:
    """The memory of one MIG instance: the profile's share of the GPU's eighths, by its own name (1g.10gb: 10 GB)."""
    gigabytes = int("".join(c for c in profile.partition(".")[2] if c.isdigit()) or 0)
    whole = gpu.memory_mib / 1024
    eighths = max(1, min(8, round(gigabytes / whole * 8)))
    return gpu.memory_mib * eighths // 8


def rdma_labels(rdma: Rdma) -> dict[str, str]:
    """A node with RDMA adapters (NFD's PCI vendor and RDMA features, the network operator's states)."""
    del rdma
    return {
        f"{_FEATURE}/pci-15b3.present": "true",
        f"{_FEATURE}/pci-15b3.sriov.capable": "true",
        f"{_FEATURE}/rdma.capable": "true",
        f"{_FEATURE}/rdma.available": "true",
        "network.nvidia.com/operator.mofed.wait": "false",
        "network.nvidia.com/operator.nic-configuration.wait": "false",
        "nvidia.com/ofed-driver-upgrade-state": "upgrade-done",
    }
