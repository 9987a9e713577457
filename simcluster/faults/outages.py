"""Outages and decay: frozen, cut-off and killed nodes, slow or dead links, GPUs and adapters that wear out.

Owns these actions' shape and how they are carried out. It must not know which check notices.
Durations are a real cluster's seconds: the cluster's time scale applies.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from simcluster.api.port import ApiError, Client, Object
from simcluster.controllers.remediation import OUT_OF_SERVICE, others
from simcluster.hardware.gpus import GPU_RESOURCE
from simcluster.node.fabric import Fabric
from simcluster.node.kubelet import NodeKubelet

CounterName = Literal["link_downed", "port_rcv_errors", "port_xmit_discards", "symbol_error"]
_NotNegative = Annotated[float, Field(ge=0)]


class _Action(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    node: str


class LimitLink(_Action):
    """A node's uplink (or its adapters' links on the RDMA network) carries only `mbit`."""

    do: Literal["limit-link"]
    mbit: Annotated[int, Field(gt=0)]
    network: Literal["eth0", "rdma"] = "eth0"


class ImpairLink(_Action):
    """A node's uplink delays and loses packets; only where the kernel has netem."""

    do: Literal["impair-link"]
    delay_ms: _NotNegative = 0.0
    loss_percent: Annotated[float, Field(ge=0, le=100)] = 0.0


class PartitionNode(_Action):
    """A node is cut off, for `for_s` seconds or for good: its pods and its kubelet live on."""

    do: Literal["partition-node"]
    for_s: Annotated[float, Field(gt=0)] | None = None


class FreezeNode(_Action):
    """A kubelet falls silent, for `for_s` seconds or for good; its pods run on and keep their network."""

    do: Literal["freeze-node"]
    for_s: Annotated[float, Field(gt=0)] | None = None


class ForsakeNode(_Action):
    """
    A kubelet falls silent, and somebody declares its node out of service: its pods are removed by force and made anew
    elsewhere, while they run on. After `for_s` seconds the kubelet is back, and ends what the API no longer has.
    """

    do: Literal["forsake-node"]
    for_s: Annotated[float, Field(gt=0)] | None = None


class KillNode(_Action):
    """A node loses power; after `for_s` seconds it boots again."""

    do: Literal["kill-node"]
    for_s: Annotated[float, Field(gt=0)] | None = None


class ChangeAdapter(_Action):
    """An RDMA adapter (or all of a node): its port goes down or is not managed, trains at another rate, counts errors,
    more of them with every byte, has another MTU or address, a GID table without the interface's address, or a cable to
    another rail."""

    do: Literal["change-adapter"]
    adapter: str | None = None
    active: bool = True
    gbps: Annotated[int, Field(gt=0)] | None = None
    mbit: Annotated[int, Field(gt=0)] | None = None
    counters: dict[str, int] = {}
    errors_per_mib: dict[CounterName, Annotated[float, Field(gt=0)]] = {}
    rail: Annotated[int, Field(ge=0)] | None = None
    waits_for_manager: bool = False
    mtu: Annotated[int, Field(gt=0)] | None = None
    link_local_only: bool = False
    address: Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+\.\d+$")] | None = None


class ChangeGpu(_Action):
    """What the driver says of a GPU (or all of a node), as fields of `hardware.gpus.Gpu`."""

    do: Literal["change-gpu"]
    gpu: int | None = None
    throttle_cause: int | None = None
    clock_cap_mhz: int | None = None
    mem_clock_cap_mhz: int | None = None
    extra_heat_c: int | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    sram_corrected: int | None = None
    sram_uncorrected: int | None = None
    retired_single: int | None = None
    retired_double: int | None = None
    remapped_correctable: int | None = None
    remapped_uncorrectable: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pcie_replays: int | None = None
    vbios: str | None = None
    nvlinks_down: int | None = None
    nvlink_mb_s: int | None = None
    nvlink_replays: int | None = None
    nvlink_recoveries: int | None = None
    nvlink_crc_errors: int | None = None
    fabric_state: int | None = None
    fabric_status: int | None = None
    unreachable_peers: tuple[int, ...] | None = None
    xid: int | None = None
    xid_at_load: int | None = None
    recovery_action: int | None = None
    held_mib: int | None = None
    bad_mib: int | None = None
    foreign_percent: int | None = None
    counters_frozen: bool | None = None
    counters_of: int | None = None
    lost: bool | None = None
    errors: tuple[str, ...] | None = None


class MarkUnhealthy(_Action):
    """The device plugin calls the first `count` GPUs unhealthy: they leave allocatable, not capacity."""

    do: Literal["mark-unhealthy"]
    count: Annotated[int, Field(gt=0)] = 1


_LOOK_S = 0.02

Outage = (
    LimitLink
    | ImpairLink
    | PartitionNode
    | FreezeNode
    | ForsakeNode
    | KillNode
    | ChangeAdapter
    | ChangeGpu
    | MarkUnhealthy
)


async def carry_out(kubelet: NodeKubelet, action: Outage, client: Client) -> None:
    """
    Do it to one node, once it is up; where it lasts a while, undo it after that. Raises `NoNetemError`.

    `client` is anybody's but the node's own, which may fall silent.
    """
    await kubelet.started.wait()
    node, fabric = kubelet.node, kubelet.node.site.fabric
    match action:
        case LimitLink(network="eth0"):
            fabric.limit_uplink(node.name, action.mbit)
        case LimitLink():
            change_adapters(kubelet, None, mbit=action.mbit)
        case ImpairLink():
            fabric.impair_uplink(node.name, delay_ms=action.delay_ms, loss_percent=action.loss_percent)
        case ChangeAdapter():
            given = action.model_dump(exclude={"do", "node", "adapter"}, exclude_none=True)
            change_adapters(kubelet, action.adapter, **given)
        case ChangeGpu():
            if node.gpus is not None:
                given = action.model_dump(exclude={"do", "node", "gpu"}, exclude_none=True)
                node.gpus.change(action.gpu, **given)
        case MarkUnhealthy():
            node.devices.unhealthy.update(node.devices.units.get(GPU_RESOURCE, [])[: action.count])
            await kubelet.post_status()
        case ForsakeNode():
            await _forsake(kubelet, action, client)
        case FreezeNode() | PartitionNode() | KillNode():
            await _take_out(kubelet, action, fabric)


async def _take_out(kubelet: NodeKubelet, action: FreezeNode | PartitionNode | KillNode, fabric: Fabric) -> None:
    if isinstance(action, KillNode):
        await kubelet.power_off()
    else:
        kubelet.freeze()
    if isinstance(action, PartitionNode):
        _cut(kubelet, fabric, cut=True)
    if action.for_s is None:
        return
    await asyncio.sleep(kubelet.node.site.timing.s(action.for_s))
    if isinstance(action, PartitionNode):
        _cut(kubelet, fabric, cut=False)
    if isinstance(action, KillNode):
        await kubelet.boot()
    else:
        await kubelet.thaw()


async def _forsake(kubelet: NodeKubelet, action: ForsakeNode, client: Client) -> None:
    name = kubelet.node.name
    kubelet.freeze()
    before = (await client.get("nodes", name))["spec"].get("taints") or []
    await client.patch("nodes", name, {"spec": {"taints": [*before, OUT_OF_SERVICE]}})
    for pod in (await client.list("pods", field_selector=f"spec.nodeName={name}")).items:
        owners = pod["metadata"].get("ownerReferences") or []
        if not any(owner["kind"] == "DaemonSet" for owner in owners):  # these tolerate it
            await _remove_by_force(client, pod)
    if action.for_s is not None:
        await asyncio.sleep(kubelet.node.site.timing.s(action.for_s))
        await kubelet.thaw()
        now = (await client.get("nodes", name))["spec"].get("taints")
        await client.patch("nodes", name, {"spec": {"taints": others(now)}})


async def _remove_by_force(client: Client, pod: Object) -> None:
    """As the collector of pods does it for nodes out of service: called failed, then deleted without waiting."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    gone = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "PodGC: node is out of service",
    }
    status = {"phase": "Failed", "conditions": [gone]}
    try:
        await client.patch("pods", name, {"status": status}, namespace, kind="strategic", subresource="status")
        await client.delete("pods", name, namespace, grace_period_s=0)
    except ApiError as error:
        if error.code != 404:
            raise


def _cut(kubelet: NodeKubelet, fabric: Fabric, *, cut: bool) -> None:
    fabric.cut_uplink(kubelet.node.name, cut=cut)
    change_adapters(kubelet, None, active=not cut)


async def limit_pair(kubelet: NodeKubelet, other: NodeKubelet, mbit: int) -> None:
    """Both ways between the adapters that pods of the two nodes hold now. Waits until both hold some."""
    pair = (kubelet, other)
    # Attachments tell nobody when they come; a fault may look.
    while not all(one.node.rdma is not None and one.node.rdma.attached() for one in pair):  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_S)
    for one, far in (pair, pair[::-1]):
        if one.node.rdma is None or far.node.rdma is None:
            return
        sources = [attached.address for attached in far.node.rdma.attached()]
        for attached in one.node.rdma.attached():
            usual = one.node.rdma.adapters[attached.adapter].mbit
            one.node.site.fabric.limit_sources(attached.link, usual, sources, mbit)


def change_adapters(kubelet: NodeKubelet, name: str | None, **values: object) -> None:
    """Alter one adapter or all of a node, and the links of the pods that hold them."""
    rdma, fabric = kubelet.node.rdma, kubelet.node.site.fabric
    if rdma is None:
        return
    for adapter in [name] if name is not None else list(rdma.adapters):
        rdma.change(adapter, **values)
    for attached in rdma.attached():
        adapter_now = rdma.adapters[attached.adapter]
        fabric.limit_link(attached.link, adapter_now.mbit)
        fabric.plug_into_rail(attached.link, adapter_now.cabled_to)
        fabric.set_link(attached.link, up=adapter_now.active)
