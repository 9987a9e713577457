"""A whole simulated cluster from a topology: API server, controllers and one kubelet a node, in one event loop.

Owns the joining of the three and their order of start. It must not know how any of them works.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from simcluster.api.auth.tokens import TokenTable
from simcluster.api.kubeconfig import make_certificates, write_kubeconfig
from simcluster.api.port import KubeletRegistry
from simcluster.api.server import ApiServer
from simcluster.control import Control, ControlError, How
from simcluster.controllers.manager import ControllerManager
from simcluster.faults.engine import FaultEngine
from simcluster.faults.file import Fault
from simcluster.faults.outages import FreezeNode, KillNode, Outage, PartitionNode, carry_out
from simcluster.hardware.devices import DevicePlugins
from simcluster.hardware.gpus import NodeGpus
from simcluster.hardware.labels import hardware_labels
from simcluster.hardware.rdma import NodeRdma
from simcluster.hardware.standins import install_standins
from simcluster.installed import OBJECT_STORE_PORT, install
from simcluster.node.claims import Claims
from simcluster.node.context import NodeContext, Site
from simcluster.node.dns import NameServer
from simcluster.node.events import EventRecorder
from simcluster.node.fabric import Fabric
from simcluster.node.gate import GatedClient
from simcluster.node.hosts import HostsFiles
from simcluster.node.kubelet import NodeKubelet
from simcluster.node.load import LoadMeter
from simcluster.node.network import AddressPool, make_bridge
from simcluster.node.runtime import GATEWAY, Runtime
from simcluster.node.site import base_environment, make_shim, root_plan
from simcluster.objectstore import ObjectStore
from simcluster.operators.installed import Operators
from simcluster.timing import Timing
from simcluster.topology import Mode, Pool, Topology, node_names

_CONTROL_PLANE = "control-plane"
_IN_CLUSTER_PORT = 443
_API_NAME = "kubernetes.default.svc.cluster.local"


@dataclass(frozen=True)
class Access:
    """How a client reaches the cluster."""

    kubeconfig: Path
    server: str
    http: str | None
    token: str


class Cluster:
    """One simulated cluster; needs the namespaces that `boot` makes, and `scratch` on a file system of its own."""

    def __init__(self, topology: Topology, faults: Sequence[Fault], timing: Timing, scratch: Path) -> None:
        self.faults = FaultEngine(faults)
        self.topology = self.faults.shape(topology)
        self.timing = timing
        self.registry = KubeletRegistry()
        self.tokens = TokenTable()
        self._operators = Operators(self.topology.operators, self.topology.operator_troubles.model_dump())
        self.api = ApiServer(
            registry=self.registry,
            tokens=self.tokens,
            hooks=self.faults.hooks(),
            webhooks=self._operators.webhooks(),
        )
        self.api.resources.admission += self._operators.checks(self.api.resources)
        self.kubelets: dict[str, NodeKubelet] = {}
        self._scratch = scratch
        self._load: LoadMeter | None = None
        self.objects = ObjectStore(scratch / "objects", self._node_of)
        self._root_ca = ""
        self._runtime = Runtime()
        health = self.topology.remediation
        self._controllers = ControllerManager(
            self.api.client,
            timing,
            health.after_s if health is not None else None,
            owned=self._operators.owned,
            more=self._operators.controllers,
        )
        self._hosts = HostsFiles(self.api.client)
        self._control: Control | None = None
        self._names = NameServer(lambda: {**self._hosts.names(), _API_NAME: [GATEWAY]})

    async def start(self, directory: Path, tls: socket.socket, plain: socket.socket | None) -> Access:
        """Start everything; `directory` gets the kubeconfig. The sockets are bound loopback sockets."""
        access = await self._serve(directory, tls, plain)
        await self._start_runtime()
        await self._operators.install(self.api.client)
        await self._controllers.start(root_ca=self._root_ca)
        await self._hosts.start()
        await self._names.start(GATEWAY)
        await self._site.claims.start()
        self._make_nodes()
        self.faults.prepare(self)
        await asyncio.gather(*(kubelet.start() for kubelet in self.kubelets.values()))
        if self.topology.object_store:
            await self.objects.start(socket.create_server((GATEWAY, OBJECT_STORE_PORT)))
        await install(self.api.client, self.topology)
        if self.topology.dcgm:
            self._load = LoadMeter(self.kubelets)
            self._load.start()
        self._control = Control(directory, self._lose_node)
        await self._control.start()
        return access

    async def _lose_node(self, name: str, how: How) -> None:
        if name not in self.kubelets:
            raise ControlError(f"no node {name!r}: the cluster has {', '.join(sorted(self.kubelets))}")
        action: Outage
        if how == "power":
            action = KillNode(do="kill-node", node=name)
        elif how == "network":
            action = PartitionNode(do="partition-node", node=name)
        else:
            action = FreezeNode(do="freeze-node", node=name)
        await carry_out(self.kubelets[name], action, self.api.client)

    async def stop(self) -> None:
        """Stop in the reverse order."""
        if self._control is not None:
            await self._control.stop()
        await self._controllers.stop()
        if self._load is not None:
            self._load.stop()
        for kubelet in self.kubelets.values():
            await kubelet.stop()
        self._names.stop()
        await self._hosts.stop()
        await self.objects.stop()
        await self._site.claims.stop()
        self._fabric.close()
        await self._runtime.stop()
        await self.api.close()

    async def _serve(self, directory: Path, tls: socket.socket, plain: socket.socket | None) -> Access:
        certificates = make_certificates(GATEWAY)
        self._root_ca = certificates.ca.decode()
        token = self.tokens.issue_admin()
        server = f"https://127.0.0.1:{tls.getsockname()[1]}"
        context = certificates.server_context(self._scratch)
        await self.api.serve(tls, context)
        if plain is not None:
            await self.api.serve(plain, None)
        kubeconfig = directory / "kubeconfig"
        write_kubeconfig(kubeconfig, server=server, ca=certificates.ca, token=token)
        make_bridge()
        in_cluster = socket.create_server((GATEWAY, _IN_CLUSTER_PORT))
        await self.api.serve(in_cluster, context)
        http = None if plain is None else f"http://127.0.0.1:{plain.getsockname()[1]}"
        return Access(kubeconfig, server, http, token)

    async def _start_runtime(self) -> None:
        await self._runtime.start(network=True)
        shim = self._scratch / "shim"
        make_shim(shim)
        rdma_tools = self._scratch / "rdma-tools"
        install_standins(shim, rdma_tools)
        self._fabric = Fabric()
        plan = root_plan(self._scratch / "base")
        if any(pool.mode == "light" for pool in self.topology.pools):
            await self._runtime.prepare_light(str(self._scratch / "light"), plan)
        self._site = Site(
            client=self.api.client,
            tokens=self.tokens,
            runtime=self._runtime,
            timing=self.timing,
            addresses=AddressPool(),
            directory=self._scratch,
            root=plan,
            shim=shim,
            rdma_tools=rdma_tools,
            fabric=self._fabric,
            claims=Claims(self.api.client, self._scratch / "claims"),
            base_env=base_environment(GATEWAY, _IN_CLUSTER_PORT),
        )

    async def _node_of(self, address: str | None) -> str:
        """The node of the pod with this address; '' where there is none."""
        pods = (await self.api.client.list("pods")).items
        found = (pod["spec"].get("nodeName", "") for pod in pods if (pod.get("status") or {}).get("podIP") == address)
        return str(next(found, ""))

    @property
    def site(self) -> Site:
        """What all nodes share."""
        return self._site

    def _make_nodes(self) -> None:
        if self.topology.control_plane:
            modes: set[Mode] = {pool.mode for pool in self.topology.pools}
            role = "node-role.kubernetes.io/control-plane"
            pool = Pool(
                prefix=_CONTROL_PLANE,
                nodes=1,
                labels={role: ""},
                taints=[{"key": role, "effect": "NoSchedule"}],
                mode="full" if "full" in modes or not modes else "light" if "light" in modes else "hollow",
                cpu="8",
                memory="32Gi",
            )
            self._add_node(_CONTROL_PLANE, pool, 0)
        number = 0
        for pool in self.topology.pools:
            for name in node_names(pool):
                number += 1
                self._add_node(name, pool, number)

    def _add_node(self, name: str, pool: Pool, number: int) -> None:
        capacity = {
            "cpu": pool.cpu,
            "ephemeral-storage": "264212084Ki",
            "hugepages-1Gi": "0",
            "hugepages-2Mi": "0",
            "memory": pool.memory,
            "pods": pool.pods,
        }
        gpus = NodeGpus.of(name, pool.gpu) if pool.gpu is not None else None
        rdma = NodeRdma(name, pool.rdma) if pool.rdma is not None else None
        gate = GatedClient(self.api.client)
        context = NodeContext(
            name=name,
            site=replace(self._site, client=gate),
            gate=gate,
            mode=pool.mode,
            host_ip=f"10.250.{number >> 8}.{(number & 255) + 1}",
            capacity=capacity,
            gpus=gpus,
            rdma=rdma,
            devices=DevicePlugins(
                {**(gpus.units() if gpus is not None else {}), **(rdma.units() if rdma is not None else {})}
            ),
            bridge=self._connect(name, pool, number, rdma),
            events=EventRecorder(gate, self.timing, name),
            labels={**hardware_labels(pool), **pool.labels},
            taints=list(pool.taints),
        )
        self.kubelets[name] = NodeKubelet(context, self._hosts, self.registry)

    def _connect(self, name: str, pool: Pool, number: int, rdma: NodeRdma | None) -> str:
        """Lay a node's cables; the name of its bridge."""
        if pool.mode != "full":
            return ""
        if rdma is not None:
            self._fabric.count_for(rdma)
        return self._fabric.add_node(name, number, pool.eth0_mbit)
