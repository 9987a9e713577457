"""What goes wrong between a node's RDMA adapters and its pods: grants without mounts, strays, leaks, limits, labels.

Owns these actions' shape and how they are carried out. It must not know which check notices.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from simcluster.node.context import NodeContext


class TroubleRdma(BaseModel):
    """What is wrong with how a node hands out RDMA adapters; fields as of `hardware.rdma.RdmaTroubles`.

    `offers`: the device plugin has so many units. `stray`: who is granted any adapter gets one of another network too.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    do: Literal["trouble-rdma"]
    node: str
    offers: Annotated[int, Field(ge=0)] | None = None
    hides: bool = False
    stray: bool = False
    no_verbs_files: bool = False
    leaks: Literal["", "files", "adapters"] = ""
    locked_kib: Annotated[int, Field(gt=0)] | None = None


class RemoveLabel(BaseModel):
    """A node does not carry a label: feature discovery does not run there, or sees nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    do: Literal["remove-label"]
    node: str
    label: str


HandingOut = TroubleRdma | RemoveLabel


def trouble(node: NodeContext, action: HandingOut) -> None:
    """Do it to one node, before it registers."""
    if isinstance(action, RemoveLabel):
        node.labels.pop(action.label, None)
        return
    rdma = node.rdma
    if rdma is None:
        return
    if action.offers is not None:
        node.devices.offer(rdma.model.resource, action.offers)
    if action.stray:
        rdma.plug_in_stray()
    rdma.troubles.hides = action.hides
    rdma.troubles.no_verbs_files = action.no_verbs_files
    rdma.troubles.leaks = action.leaks
    rdma.troubles.locked_kib = action.locked_kib
