"""A pod's sandbox: its address, its namespaces and the files by which its containers know names.

Owns their making and their release. It must not know containers or statuses.
"""

from __future__ import annotations

from pathlib import Path

from simcluster.api.port import Object
from simcluster.node.context import NodeContext
from simcluster.node.hosts import HostsFiles, resolver_file
from simcluster.node.network import Lease
from simcluster.node.podrdma import PodRdma
from simcluster.node.runtime import GATEWAY, LaunchError


class PodSandbox:
    """The sandbox of one pod; `directory` gets its files."""

    def __init__(self, node: NodeContext, hosts: HostsFiles, pod: Object, directory: Path, rdma: PodRdma) -> None:
        self.ready = False
        self._node = node
        self._hosts = hosts
        self._pod = pod
        self._uid = str(pod["metadata"]["uid"])
        self._directory = directory
        self._rdma = rdma
        self._lease: Lease | None = None

    @property
    def address(self) -> str:
        """The pod's IP, or "" before it has one."""
        return self._lease.address if self._lease is not None else ""

    async def make(self) -> str:
        """Make it; why it cannot be made, or "" where it is ready."""
        self._lease = self._lease or self._node.site.addresses.take()
        if self._node.mode == "full":
            try:
                await self._make(self._lease)
            except LaunchError as failure:
                return f"rpc error: code = Unknown desc = failed to create network namespace: {failure}"
        self.ready = True
        return ""

    async def _make(self, lease: Lease) -> None:
        metadata, spec = self._pod["metadata"], self._pod["spec"]
        hostname = spec.get("hostname") or metadata["name"]
        interfaces = self._rdma.attach(lease)
        await self._node.site.runtime.create_sandbox(
            self._uid, hostname, lease.cidr, lease.number, bridge=self._node.bridge, interfaces=interfaces
        )
        self._rdma.connected()
        subdomain, namespace = spec.get("subdomain"), metadata["namespace"]
        names = [f"{hostname}.{subdomain}.{namespace}.svc.cluster.local"] if subdomain else []
        self._hosts.add(self._directory / "hosts", namespace, f"{lease.address}\t{' '.join([*names, hostname])}")
        (self._directory / "hostname").write_text(hostname + "\n")
        (self._directory / "nsswitch.conf").write_text("hosts: files dns\n")
        (self._directory / "resolv.conf").write_text(resolver_file(namespace, GATEWAY))

    async def release(self) -> None:
        """Give back what it holds."""
        self._hosts.remove(self._directory / "hosts")
        if self.ready and self._node.mode == "full":
            await self._node.site.runtime.release_sandbox(self._uid)
        if self._lease is not None:
            self._node.site.addresses.give_back(self._lease)
