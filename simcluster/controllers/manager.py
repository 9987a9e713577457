"""All controllers of a cluster: built over one client, started and stopped together.

Owns their order and their shared informers; must not know what any of them does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from simcluster.api.port import Client
from simcluster.controllers.disruption import DisruptionController
from simcluster.controllers.endpoints import EndpointsController
from simcluster.controllers.events import EventRecorder
from simcluster.controllers.eviction import TaintEviction
from simcluster.controllers.garbage import GarbageCollector
from simcluster.controllers.informers import Informers
from simcluster.controllers.job.controller import JobController
from simcluster.controllers.namespaces import NamespaceController
from simcluster.controllers.nodes import NodeLifecycle
from simcluster.controllers.podgc import PodGarbageCollector
from simcluster.controllers.quotas import QuotaController
from simcluster.controllers.remediation import Remediation
from simcluster.controllers.scheduler.controller import Scheduler
from simcluster.controllers.serviceaccounts import ServiceAccounts
from simcluster.controllers.ttl import TtlController
from simcluster.controllers.volumes.binder import VolumeBinder
from simcluster.controllers.volumes.resizer import VolumeResizer
from simcluster.controllers.workloads.daemonset import DaemonSetController
from simcluster.controllers.workloads.deployment import DeploymentController
from simcluster.controllers.workloads.replicaset import ReplicaSetController
from simcluster.timing import Timing


class Controller(Protocol):
    """What the manager asks of each: the constructor registers handlers, `start` begins to act."""

    def start(self) -> None: ...

    async def stop(self) -> None: ...


MoreControllers = Callable[[Client, Timing, Informers, EventRecorder], Iterable[Controller]]


class ControllerManager:
    """The controllers, scheduler included, of one simulated cluster.

    `more` builds those of operators, whose kinds must be served before `start`; between the kinds in `owned` (by
    apiVersion and kind) owner references are followed as between the built-in ones.
    """

    def __init__(
        self,
        client: Client,
        timing: Timing,
        remediate_after_s: float | None = None,
        *,
        owned: Mapping[tuple[str, str], str] | None = None,
        more: MoreControllers | None = None,
    ) -> None:
        self._informers = Informers(client)
        self._recorder = EventRecorder(client)
        informers, recorder = self._informers, self._recorder
        self._accounts = ServiceAccounts(client, timing, informers)
        self._controllers: list[Controller] = [
            JobController(client, timing, informers, recorder),
            Scheduler(client, timing, informers, recorder),
            NamespaceController(client, timing, informers),
            GarbageCollector(client, timing, informers, owned or {}),
            TtlController(client, timing, informers),
            PodGarbageCollector(client, timing, informers),
            NodeLifecycle(client, timing, informers, recorder),
            TaintEviction(client, timing, informers, recorder),
            self._accounts,
            EndpointsController(client, timing, informers),
            DisruptionController(client, timing, informers, recorder),
            DaemonSetController(client, timing, informers, recorder),
            ReplicaSetController(client, timing, informers, recorder),
            DeploymentController(client, timing, informers, recorder),
            VolumeBinder(client, timing, informers, recorder),
            VolumeResizer(client, timing, informers, recorder),
            QuotaController(client, timing, informers),
        ]
        if remediate_after_s is not None:
            self._controllers.append(Remediation(client, timing, informers, remediate_after_s))
        if more is not None:
            self._controllers += more(client, timing, informers, recorder)

    async def start(self, root_ca: str = "") -> None:
        """Fill the caches, then start every controller. Raises ApiError where a first list fails.

        `root_ca` is the PEM text by which pods trust the API, in every namespace's kube-root-ca.crt.
        """
        self._accounts.root_ca = root_ca
        self._recorder.start()
        await self._informers.start()
        for controller in self._controllers:
            controller.start()

    async def stop(self) -> None:
        """Stop every controller and all watches; nothing is left running."""
        await asyncio.gather(*(controller.stop() for controller in self._controllers))
        await self._informers.stop()
        await self._recorder.stop()
