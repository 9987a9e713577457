"""What one node's kubelet and pods share: its names, directories, devices, images and injected troubles.

Owns no behaviour but the allocation of devices. It must not know the lifecycle of pods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from simcluster.api.auth.tokens import TokenTable
from simcluster.api.port import Client, Object
from simcluster.hardware.devices import DevicePlugins
from simcluster.hardware.gpus import GPU_RESOURCE, NodeGpus
from simcluster.hardware.rdma import NodeRdma
from simcluster.node.claims import Claims
from simcluster.node.events import EventRecorder
from simcluster.node.fabric import Fabric
from simcluster.node.gate import GatedClient
from simcluster.node.images import ImageStore
from simcluster.node.network import AddressPool
from simcluster.node.rootfs import RootPlan
from simcluster.node.runtime import Runtime
from simcluster.timing import Timing
from simcluster.topology import Mode

__all__ = ["GPU_RESOURCE", "NodeContext", "Site", "Troubles"]


@dataclass
class Troubles:
    """What is wrong with a node, set by faults. The defaults are a healthy node."""

    reject_reason: str = ""
    reject_message: str = ""
    reject_labels: Mapping[str, str] = field(default_factory=dict)
    """Only pods that carry all of these are rejected; every pod where there are none."""
    sandbox_error: str = ""
    silent: bool = False
    message_limit: int | None = None
    hidden_gpus: int = 0
    """So many of a container's granted GPUs do not appear inside it."""
    shows_all_gpus: bool = False
    """A container that was granted any GPU sees all of the node."""
    obeys_visible_devices: bool = False
    """A container that asked for no GPU gets what its NVIDIA_VISIBLE_DEVICES says."""
    keeps_gpu_memory: bool = False
    """What a program leaves in a GPU's memory is there for the next one."""
    keeps_scratch: bool = False
    """An emptyDir is handed out again as the pod before left it."""


@dataclass(frozen=True)
class Site:
    """What all nodes of the cluster share."""

    client: Client
    tokens: TokenTable
    runtime: Runtime
    timing: Timing
    addresses: AddressPool
    directory: Path
    root: RootPlan
    """The root of every container, without its volumes."""
    shim: Path
    """Directory with `bin` (python3), `gpu/bin` (nvidia-smi) and `gpu/lib` (driver stand-ins)."""
    rdma_tools: Path
    """Directory with `bin` (ibv_devinfo …) and `lib` (libibverbs), mounted only where an adapter was granted."""
    fabric: Fabric
    claims: Claims
    base_env: dict[str, str]
    on_running: list[Callable[[str, Object, str], None]] = field(default_factory=list)
    """Called with node, pod and container name whenever a container starts to run."""
    on_told: list[Callable[[str, Object], None]] = field(default_factory=list)
    """Called with node and pod when a pod's annotations have changed, before its own files show it."""


@dataclass
class NodeContext:
    """One node."""

    name: str
    site: Site
    mode: Mode
    host_ip: str
    capacity: dict[str, str]
    gpus: NodeGpus | None
    events: EventRecorder
    gate: GatedClient
    images: ImageStore = field(default_factory=ImageStore)
    troubles: Troubles = field(default_factory=Troubles)
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[dict[str, str]] = field(default_factory=list)
    rdma: NodeRdma | None = None
    bridge: str = ""
    """The node's own bridge; "" for the cluster's."""
    boots: int = 1
    system: dict[str, str] = field(default_factory=dict)
    """Fields of its nodeInfo that differ from what every simulated node says."""
    devices: DevicePlugins = field(default_factory=lambda: DevicePlugins({}))

    @property
    def directory(self) -> Path:
        """The node's own files."""
        return self.site.directory / "nodes" / self.name
