"""Owns what a profile promises about a cluster, a scope and its exceptions, as values; must not know files or pods."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from typing import Literal

Scalar = str | int | float | bool

BITS_PER_BYTE = 8


class Attach(StrEnum):
    """How RDMA reaches a pod."""

    RESOURCE = "resource"
    """An extended resource of a device plugin, whatever its name."""
    NETWORK = "network"
    """An annotation that names secondary networks (Multus)."""
    RESOURCE_AND_NETWORK = "resource+network"
    HOST_NETWORK = "host-network"
    """The host's own network, and its /dev/infiniband mounted."""
    CLAIM = "claim"
    """A ResourceClaim (dynamic resource allocation) of a template that the platform provides."""
    EFA = "efa"
    """AWS: an extended resource, huge pages, no GIDs and link layer Unspecified."""
    MULTI_NETWORK = "multi-network"
    """GKE: annotations that name interfaces, and a resource for each network."""


@dataclass(frozen=True)
class Rdma:
    """
    The RDMA network a node was bought with: extended resource, devices a node, line rate in Gb/s, link layer.

    `attach` and what follows say how it reaches a pod; `resource` is "" where no extended resource is asked for, or the
    profile does not name it. `request` units of it are asked for, by default one a device; shared device plugins want
    1. `resources` are further limits of the container, `annotations` of the pod.
    """

    resource: str
    per_node: int
    rate_gbps: float
    link_layer: str
    attach: Attach = Attach.RESOURCE
    request: int | None = None
    resources: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    claim_template: str = ""
    ipc_lock: bool = False

    @property
    def needs_resource(self) -> bool:
        """Whether a pod gets RDMA by an extended resource whose name must be known."""
        return self.attach in {Attach.RESOURCE, Attach.RESOURCE_AND_NETWORK, Attach.EFA}


@dataclass(frozen=True)
class ClusterExpectation:
    """
    What was bought, from `[cluster]` of the profile; never read from the cluster under test.

    `extra` holds further expected facts (`[cluster.extra]`), addressed by their plain key. Where GPUs are shared (MIG,
    time-slicing, MPS), `gpus_per_node` counts the shares that a node offers, `physical_gpus_per_node` the cards behind
    them, and `gpus_per_pod` how many shares one pod asks for.
    """

    gpu_product: str
    gpus_per_node: int
    nodes: int
    gpu_resource: str
    device: Literal["cuda", "cpu"]
    gpu_driver: str | None = None
    gpu_memory_mib: int | None = None
    gpu_sharing: str = "none"
    mig_profile: str | None = None
    gpus_per_pod: int | None = None
    physical_gpus_per_node: int | None = None
    kernel_version: str | None = None
    os_image: str | None = None
    container_runtime: str | None = None
    kubelet_version: str | None = None
    taints: str | None = None
    rdma: Rdma | None = None
    extra: Mapping[str, Scalar] = field(default_factory=dict)

    def expected(self, key: str) -> Scalar | None:
        """Return the expected value under a key of `[cluster]`, `rdma.<key>` or `[cluster.extra]`; None if unset."""
        return self.expectations().get(key)

    def expectations(self) -> dict[str, Scalar]:
        """Return every set expectation by the key that a limit's `expected` may name."""
        named: dict[str, Scalar | None] = {
            "gpu_product": self.gpu_product,
            "gpus_per_node": self.gpus_per_node,
            "nodes": self.nodes,
            "gpu_resource": self.gpu_resource,
            "device": self.device,
            "gpu_driver": self.gpu_driver,
            "gpu_memory_mib": self.gpu_memory_mib,
            "gpu_sharing": self.gpu_sharing,
            "mig_profile": self.mig_profile,
            "gpu_offers": f"{self.gpu_resource}={self.gpus_per_node}",
            "gpus_per_pod": self.pod_gpus,
            "physical_gpus_per_node": self.physical_gpus,
            "kernel_version": self.kernel_version,
            "os_image": self.os_image,
            "container_runtime": self.container_runtime,
            "kubelet_version": self.kubelet_version,
            "taints": self.taints,
        }
        if self.rdma is not None:
            named |= {
                "rdma.resource": self.rdma.resource or None,
                "rdma.per_node": self.rdma.per_node,
                "rdma.rate_gbps": self.rdma.rate_gbps,
                "rdma.link_layer": self.rdma.link_layer,
            }
        return {key: value for key, value in (named | dict(self.extra)).items() if value is not None}

    @property
    def shared(self) -> bool:
        """Whether what a pod gets is a share of a GPU."""
        return self.gpu_sharing != "none"

    @property
    def sharing_text(self) -> str:
        """Name how GPUs are handed out, for a person: `whole GPUs`, `MIG 1g.10gb`, `time-slicing`."""
        if self.gpu_sharing == "mig":
            return f"MIG {self.mig_profile or ''}".strip()
        return self.gpu_sharing if self.shared else "whole GPUs"

    @property
    def pod_gpus(self) -> int:
        """Return how many GPUs, or shares, a pod asks for that is to hold all it may: `gpus_per_pod`, or all."""
        return self.gpus_per_node if self.gpus_per_pod is None else self.gpus_per_pod

    @property
    def physical_gpus(self) -> int | None:
        """Return how many cards a node has; None where it offers shares and the profile does not say."""
        if self.physical_gpus_per_node is None and not self.shared:
            return self.gpus_per_node
        return self.physical_gpus_per_node

    def ring_ceiling_gb_per_s(self) -> float | None:
        """
        Return the bus bandwidth in GB/s that a ring over all NICs of a node can reach; None without RDMA.

        Every byte that leaves a node crosses one of its NICs, so the ceiling is NICs a node x line rate / 8.
        """
        if self.rdma is None:
            return None
        return self.rdma.per_node * self.rdma.rate_gbps / BITS_PER_BYTE

    def hierarchical_ceiling_gb_per_s(self) -> float | None:
        """
        Return the bus bandwidth in GB/s of an all-reduce that adds up inside each node first; None where undefined.

        N (n-1)/(k-1) for k nodes of g GPUs, n = g k, N a GPU's share of its node's NICs: what crosses the NICs is 2
        (k-1)/k of each GPU's part. Above the ring's, and on few nodes above what NVLink inside a node gives.
        """
        ring = self.ring_ceiling_gb_per_s()
        if ring is None or self.nodes < 2:
            return None
        share = ring / self.gpus_per_node
        return share * (self.gpus_per_node * self.nodes - 1) / (self.nodes - 1)

    def alltoall_ceiling_gb_per_s(self) -> float | None:
        """
        Return the bus bandwidth in GB/s of an all-to-all, N (n-1)/(n-g); None where undefined.

        Only what stays in the node, (g-1) of (n-1) parts, does not cross a GPU's share N of the NICs.
        """
        ring = self.ring_ceiling_gb_per_s()
        if ring is None or self.nodes < 2:
            return None
        ranks = self.gpus_per_node * self.nodes
        return ring / self.gpus_per_node * (ranks - 1) / (ranks - self.gpus_per_node)


@dataclass(frozen=True)
class Storage:
    """
    One storage of the profile's `[storage.NAME]`: what a claim in the run's namespace asks for, and what it is for.

    `size` is a Kubernetes quantity with a binary unit, e.g. "64Gi"; so is `expands_to`, the size that a bound claim is
    asked to grow to ("": it is not asked). `purpose` is shown and never judged.
    """

    name: str
    storage_class: str
    size: str
    access_mode: str
    purpose: str = ""
    expands_to: str = ""


@dataclass(frozen=True)
class DataObject:
    """One object of a dataset: its size in bytes and the sha256 of its content ('' where it is generated)."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class HttpSource:
    """Objects under one http(s) address; it must need no credentials."""

    url: str


@dataclass(frozen=True)
class S3Source:
    """Objects of a bucket of an S3-compatible store; URLs are signed for `expires_s` seconds."""

    endpoint: str
    region: str
    bucket: str
    prefix: str
    expires_s: int
    secure: bool = True


@dataclass(frozen=True)
class ClaimSource:
    """Objects that lie under a path of one of the profile's storages."""

    storage: str
    path: str


@dataclass(frozen=True)
class GeneratedSource:
    """Objects that the pods make up, because the profile says so in as many words."""


DataSource = HttpSource | S3Source | ClaimSource | GeneratedSource


@dataclass(frozen=True)
class Dataset:
    """`[dataset]`: what is staged, and from where."""

    source: DataSource
    objects: tuple[DataObject, ...]
    manifest: str = field(default="", compare=False)
    """The file that lists the objects, as the profile writes it; "" where there is none."""
    declared_in: str = field(default="", compare=False)
    """The file of the profile that says so."""


@dataclass(frozen=True)
class CoverAll:
    """Every expected node of the pool is judged in this run."""


@dataclass(frozen=True)
class CoverShare:
    """At least this share (0..1) of the expected nodes was judged within so many days, this run included."""

    at_least: float
    within_days: int


@dataclass(frozen=True)
class CoverCanary:
    """Only the nodes with these labels are judged, and this many are expected."""

    selector: Mapping[str, str]
    nodes: int


Cover = CoverAll | CoverShare | CoverCanary


@dataclass(frozen=True)
class Scope:
    """What an ACCEPTED speaks for: the node pool by labels, and how much of it."""

    pool: Mapping[str, str]
    cover: Cover


@dataclass(frozen=True)
class Waiver:
    """A signed exception: the verdict of this check on this subject does not decide, up to and including `expires`."""

    check: str
    subject: str
    owner: str
    reason: str
    expires: date

    def expired(self, today: date) -> bool:
        """Say whether the waiver no longer holds."""
        return today > self.expires


class State(StrEnum):
    """What the profile wants of a check."""

    REQUIRED = "required"
    RECORDED = "recorded"
    NOT_APPLICABLE = "not-applicable"


@dataclass(frozen=True)
class CheckState:
    """The state of one check, with the reason that anything but `required` must give."""

    state: State
    reason: str = ""


@dataclass(frozen=True)
class Service:
    """A Service in the cluster, reached through the API's proxy."""

    namespace: str
    name: str
    port: int


@dataclass(frozen=True)
class Telemetry:
    """
    How the platform's own GPU metrics are found and read, from `[telemetry]`.

    `selectors` are label selectors of exporter pods, in any namespace. `fields` must be there for every whole GPU,
    `mig_fields` for every MIG instance. An exporter is asked every `every_s`, has `deadline_s` for a page of at most
    `max_bytes`, may fail `attempts` times in a row, `ready_s` to get ready, and `settle_s` to show what has changed
    since its own interval. `prometheus`, a URL or a Service, is where the same is asked of Prometheus.
    """

    selectors: tuple[str, ...]
    port: int
    path: str
    every_s: float
    deadline_s: float
    max_bytes: int
    attempts: int
    ready_s: float
    settle_s: float
    fields: tuple[str, ...]
    mig_fields: tuple[str, ...]
    prometheus: str | Service | None = None


@dataclass(frozen=True)
class Deadlines:
    """Seconds a pod may take in each phase, and a whole run may take."""

    scheduling_s: float
    pulling_s: float
    starting_s: float
    running_s: float
    run_s: float
