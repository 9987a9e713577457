"""RDMA in one pod: which adapters its containers were granted, their interfaces, and what the containers get mounted.

Owns the joining of grants, links and mounts. It must not know the pod's lifecycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simcluster.api.port import Object
from simcluster.hardware.rdma import Attachment, NodeRdma
from simcluster.node.context import NodeContext
from simcluster.node.network import Lease

_PLACE = "/opt/simcluster/rdma"
_DEVICE_FILES = ("rdma_cm", "uverbs", "umad", "issm")


class PodRdma:
    """The adapters of one pod."""

    def __init__(self, node: NodeContext, pod: Object, directory: Path) -> None:
        self._node = node
        self._uid = str(pod["metadata"]["uid"])
        self._directory = directory
        self._attached: dict[str, Attachment] = {}
        self._containers = [*pod["spec"].get("containers", []), *(pod["spec"].get("initContainers") or [])]

    def attach(self, lease: Lease) -> list[dict[str, Any]]:
        """Take the adapters that the pod's containers ask for; what the sandbox needs to make their interfaces."""
        rdma = self._node.rdma
        if rdma is None or self._node.mode != "full":
            return []
        wanted = {name: None for container in self._containers for name in self._granted(container)}
        interfaces = []
        for position, name in enumerate(wanted):
            adapter = rdma.adapters[name]
            # One subnet a rail, as rail-optimised fabrics have it: adapters n are neighbours.
            own = f"10.{128 + adapter.index}.{lease.number >> 8}.{lease.number & 255}"
            address = adapter.address or own
            link = f"rd{lease.number}-{adapter.index}"
            self._attached[name] = Attachment(name, f"net{position + 1}", address, link)
            interfaces.append(
                {
                    "name": f"net{position + 1}",
                    "link": link,
                    "bridge": self._node.site.fabric.rail(adapter.cabled_to),
                    "address": f"{address}/16",
                    "mbit": adapter.mbit,
                }
            )
        return interfaces

    def connected(self) -> None:
        """The interfaces exist: shape what they receive, and bring those of dead ports down."""
        rdma = self._node.rdma
        for name, attached in self._attached.items():
            if rdma is not None:
                self._node.site.fabric.limit_link(attached.link, rdma.adapters[name].mbit)
                self._node.site.fabric.set_link(attached.link, up=rdma.adapters[name].active)

    def _granted(self, container: Object) -> list[str]:
        rdma = self._node.rdma
        if rdma is None:
            return []
        limits: Mapping[str, Any] = (container.get("resources") or {}).get("limits") or {}
        held = self._node.devices.grant(self._uid, container["name"], limits)
        return rdma.granted(held.get(rdma.model.resource, ()))

    def binds(self, container: Object, variables: dict[str, str]) -> list[tuple[str, str, bool]]:
        """The container's tree, device files and tools; nothing where it was granted none."""
        rdma = self._node.rdma
        if rdma is None or self._node.mode != "full":
            return []
        names = [name for name in self._granted(container) if name in self._attached]
        if not names:
            return self._leaked(rdma, container, variables)
        if rdma.troubles.hides:
            return []
        kinds = ("umad", "issm") if rdma.troubles.no_verbs_files else _DEVICE_FILES[1:]
        devices = self._device_files(rdma, container, names, kinds)
        return [*self._tree(rdma, container, [self._attached[name] for name in names], variables), devices]

    def locked_kib(self, container: Object) -> int | None:
        """How much a process of the container may pin, where its node's runtime is stingy."""
        rdma = self._node.rdma
        return rdma.troubles.locked_kib if rdma is not None and self._granted(container) else None

    def _tree(
        self, rdma: NodeRdma, container: Object, shown: list[Attachment], variables: dict[str, str]
    ) -> list[tuple[str, str, bool]]:
        tree = self._directory / f"{container['name']}.infiniband"
        rdma.show(tree, shown)
        variables["PATH"] = f"{_PLACE}/bin:{variables.get('PATH', '')}"
        libraries = [f"{_PLACE}/lib", variables.get("LD_LIBRARY_PATH", "")]
        variables["LD_LIBRARY_PATH"] = ":".join(part for part in libraries if part)
        if _may_lock(container) and rdma.troubles.locked_kib is None:
            variables["SIMCLUSTER_IPC_LOCK"] = "1"
        return [(str(self._node.site.rdma_tools), _PLACE, True), (str(tree), "/sys/class/infiniband", True)]

    def _device_files(
        self, rdma: NodeRdma, container: Object, names: Sequence[str], kinds: Sequence[str]
    ) -> tuple[str, str, bool]:
        devices = self._directory / f"{container['name']}.dev-infiniband"
        devices.mkdir(exist_ok=True)
        (devices / "rdma_cm").touch()
        for name in names:
            for kind in kinds:
                (devices / f"{kind}{rdma.adapters[name].index}").touch()
        # Writable, as character devices are opened for both even on a mount that is read-only.
        return str(devices), "/dev/infiniband", False

    def _leaked(self, rdma: NodeRdma, container: Object, variables: dict[str, str]) -> list[tuple[str, str, bool]]:
        """What a container that asked for nothing gets where the node hands adapters to everybody."""
        if not rdma.troubles.leaks:
            return []
        files = self._device_files(rdma, container, list(rdma.adapters), _DEVICE_FILES[1:])
        if rdma.troubles.leaks == "files":
            return [files]
        shown = [Attachment(name, "eth0", "0.0.0.0", "") for name in rdma.adapters]
        return [*self._tree(rdma, container, shown, variables), files]

    def detach(self) -> None:
        """The pod has ended."""
        if self._node.rdma is not None:
            for container in self._containers:
                self._node.rdma.hide(self._directory / f"{container['name']}.infiniband")


def _may_lock(container: Object) -> bool:
    """Whether the runtime would give the container CAP_IPC_LOCK, with which pinned memory knows no limit."""
    context: Mapping[str, Any] = container.get("securityContext") or {}
    added = (context.get("capabilities") or {}).get("add") or []
    return bool(context.get("privileged")) or not {"IPC_LOCK", "CAP_IPC_LOCK", "ALL"}.isdisjoint(added)
