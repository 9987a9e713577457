"""What nodes a cluster has, as values read from raw node objects; odd or absent fields become a node's `problem`.

It must not know how nodes are fetched, what is expected of them, or a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuproof.cluster import raw
from gpuproof.rdma_attachment import looks_like_rdma

PRODUCT_LABEL = "nvidia.com/gpu.product"
DRIVER_LABEL = "nvidia.com/cuda.driver-version.full"
_OLD_DRIVER_LABELS = ("nvidia.com/cuda.driver.major", "nvidia.com/cuda.driver.minor", "nvidia.com/cuda.driver.rev")
HOSTNAME_LABEL = "kubernetes.io/hostname"
SHARING_LABEL = "nvidia.com/gpu.sharing-strategy"
_WHOLE, _SLICE = "nvidia.com/gpu", "nvidia.com/mig-"
_CONDITIONS = "node.kubernetes.io/"
"""Taints that follow a node's state; that state has its own words (`problem`)."""
_SUFFIXES = {"": 1, "k": 1000, "M": 1000**2}


@dataclass(frozen=True)
class Taint:
    """A taint: pods without a matching toleration stay away (NoSchedule) or are driven out (NoExecute)."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True)
class Node:
    """One node. GPU counts are whole numbers; a resource that is advertised with 0 counts as absent."""

    name: str
    ready: bool
    schedulable: bool
    gpu_capacity: int = 0
    gpu_allocatable: int = 0
    product: str = ""
    driver: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    uid: str = ""
    """Who it is: a node that was deleted and made anew under its name has another one."""
    kernel_version: str = ""
    os_image: str = ""
    container_runtime: str = ""
    kubelet_version: str = ""
    offers: tuple[str, ...] = ()
    """What its device plugins offer of GPUs and their shares, as `nvidia.com/gpu=8`, sorted; 0 is no offer."""
    rdma_offers: Mapping[str, int] = field(default_factory=dict)
    """What its device plugins offer that looks like RDMA, or is what the profile calls so."""
    problem: str = ""
    """What hinders work here, in plain words (not ready and why, cordoned, an unreadable count); empty if nothing."""

    @property
    def standing_taints(self) -> str:
        """The taints that somebody set on purpose, in one line; `none` where there is none."""
        chosen = sorted(str(taint) for taint in self.taints if not taint.key.startswith(_CONDITIONS))
        return "; ".join(chosen) or "none"

    @property
    def sharing(self) -> str:
        """How the node's labels say that its GPUs are handed out: none, mig, time-slicing, mps; '' where they do not.

        With MIG's mixed strategy the whole GPUs keep their own label, so what is offered decides.
        """
        if "-MIG-" in self.product or any(offer.startswith(_SLICE) for offer in self.offers):
            return "mig"
        return self.labels.get(SHARING_LABEL, "")

    @property
    def hostname(self) -> str:
        """The value that `kubernetes.io/hostname` selects by; it may differ from the name."""
        return self.labels.get(HOSTNAME_LABEL, self.name)


@dataclass(frozen=True)
class Inventory:
    """The nodes of a cluster at one resourceVersion, by name."""

    nodes: Mapping[str, Node]
    resource_version: str = ""
    """Where a watch on nodes goes on from."""

    def in_pool(self, selector: Mapping[str, str]) -> tuple[Node, ...]:
        """The nodes that carry every label of the selector, sorted by name."""
        found = (n for n in self.nodes.values() if all(n.labels.get(k) == v for k, v in selector.items()))
        return tuple(sorted(found, key=lambda node: node.name))


def read_inventory(
    items: Iterable[raw.Raw], *, gpu_resource: str, resource_version: str = "", rdma_resource: str = ""
) -> Inventory:
    """All nodes of a list; an item without a name is left out, for nothing can be said about it."""
    nodes = (read_node(item, gpu_resource=gpu_resource, rdma_resource=rdma_resource) for item in items)
    return Inventory({node.name: node for node in nodes if node.name}, resource_version)


def read_node(obj: raw.Raw, *, gpu_resource: str, rdma_resource: str = "") -> Node:
    """One raw node. Never raises: what cannot be read is said in `problem`."""
    labels = raw.words(obj, "metadata", "labels")
    ready = raw.condition(obj, "Ready")
    schedulable = raw.at(obj, "spec", "unschedulable") is not True
    problems = []
    if raw.text(ready, "status") != "True":
        problems.append(_not_ready(ready))
    if not schedulable:
        problems.append("cordoned (spec.unschedulable)")
    counts = {}
    for kind in ("capacity", "allocatable"):
        counts[kind], problem = _count(raw.at(obj, "status", kind, gpu_resource))
        if problem:
            problems.append(f"status.{kind}.{gpu_resource}: {problem}")
    return Node(
        name=raw.text(obj, "metadata", "name"),
        uid=raw.text(obj, "metadata", "uid"),
        kernel_version=raw.text(obj, "status", "nodeInfo", "kernelVersion"),
        os_image=raw.text(obj, "status", "nodeInfo", "osImage"),
        container_runtime=raw.text(obj, "status", "nodeInfo", "containerRuntimeVersion"),
        kubelet_version=raw.text(obj, "status", "nodeInfo", "kubeletVersion"),
        offers=_offers(obj, gpu_resource),
        rdma_offers=_rdma_offers(obj, rdma_resource),
        ready=raw.text(ready, "status") == "True",
        schedulable=schedulable,
        gpu_capacity=counts["capacity"],
        gpu_allocatable=counts["allocatable"],
        product=labels.get(PRODUCT_LABEL, ""),
        driver=_driver(labels),
        labels=labels,
        taints=tuple(_taint(entry) for entry in raw.objects(obj, "spec", "taints")),
        problem="; ".join(problems),
    )


def gpus_in_use(pods: Iterable[raw.Raw], *, gpu_resource: str) -> dict[str, int]:
    """By node, the GPUs that pods which have not ended hold there; unreadable counts hold nothing."""
    held: dict[str, int] = {}
    for pod in pods:
        node = raw.text(pod, "spec", "nodeName")
        if not node or raw.text(pod, "status", "phase") in ("Succeeded", "Failed"):
            continue
        for container in raw.objects(pod, "spec", "containers"):
            wanted, _ = _count(raw.at(container, "resources", "limits", gpu_resource))
            if wanted:
                held[node] = held.get(node, 0) + wanted
    return held


def untolerated(node: Node, tolerations: Iterable[raw.Raw]) -> tuple[Taint, ...]:
    """The taints that keep a pod with these tolerations off the node."""
    wanted = list(tolerations)
    hard = (taint for taint in node.taints if taint.effect in ("NoSchedule", "NoExecute"))
    return tuple(taint for taint in hard if not any(_tolerates(entry, taint) for entry in wanted))


def _tolerates(toleration: raw.Raw, taint: Taint) -> bool:
    effect, key = raw.text(toleration, "effect"), raw.text(toleration, "key")
    if effect and effect != taint.effect:
        return False
    if raw.text(toleration, "operator") == "Exists":
        return not key or key == taint.key
    return key == taint.key and raw.text(toleration, "value") == taint.value


def _offers(obj: raw.Raw, gpu_resource: str) -> tuple[str, ...]:
    allocatable = raw.mapping(obj, "status", "allocatable")
    known = (_WHOLE, f"{_WHOLE}.shared", gpu_resource)
    counts = {name: _count(value)[0] for name, value in allocatable.items() if name in known or name.startswith(_SLICE)}
    return tuple(sorted(f"{name}={count}" for name, count in counts.items() if count))


def _rdma_offers(obj: raw.Raw, rdma_resource: str) -> dict[str, int]:
    allocatable = raw.mapping(obj, "status", "allocatable")
    known = (name for name in allocatable if name == rdma_resource or looks_like_rdma(name))
    counts = {name: _count(allocatable[name])[0] for name in known}
    return {name: count for name, count in counts.items() if count}


def _taint(entry: raw.Raw) -> Taint:
    return Taint(raw.text(entry, "key"), raw.text(entry, "value"), raw.text(entry, "effect"))


def _not_ready(ready: raw.Raw) -> str:
    if not ready:
        return "not ready: the node has no Ready condition"
    reason, message = raw.text(ready, "reason"), raw.text(ready, "message")
    return f"not ready: Ready={raw.text(ready, 'status') or '?'} {reason}: {message}".rstrip(": ")


def _driver(labels: Mapping[str, str]) -> str:
    full = labels.get(DRIVER_LABEL, "")
    parts = [labels.get(key, "") for key in _OLD_DRIVER_LABELS]
    return full or ".".join(part for part in parts if part)


def _count(value: object) -> tuple[int, str]:
    """A count of devices: a whole quantity, as text or number; anything else is 0 and a problem."""
    if value is None:
        return 0, ""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value, ""
    if isinstance(value, str):
        digits = value.rstrip("kM")
        if digits.isascii() and digits.isdigit() and len(digits) < 10 and value[len(digits) :] in _SUFFIXES:
            return int(digits) * _SUFFIXES[value[len(digits) :]], ""
    return 0, f"{value!r} is not a count"
