"""Carries out the actions of faults: on the topology, at admission, on nodes, at the start or when an event happens.

Owns the translation from action to change. It must not know which check notices.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from simcluster.api.port import AdmissionHook, ApiError, Client, Object
from simcluster.faults import exposure, file, handing_out, outages
from simcluster.faults.admission import (
    CapJobRetries,
    ChangeStorageClass,
    ForbidJobPods,
    LimitGpuMemory,
    PatchSource,
    SuspendUnqueuedJobs,
)
from simcluster.node.context import GPU_RESOURCE, Site
from simcluster.node.images import ImageStore
from simcluster.node.kubelet import NodeKubelet
from simcluster.objectstore import ObjectStore
from simcluster.topology import Prometheus, Topology

_log = logging.getLogger(__name__)


class Target(Protocol):
    """What the engine may touch of a cluster."""

    kubelets: dict[str, NodeKubelet]

    objects: ObjectStore

    @property
    def site(self) -> Site: ...


class FaultEngine:
    """All faults of one cluster."""

    def __init__(self, faults: Sequence[file.Fault]) -> None:
        self._faults = tuple(faults)
        self._waiting = [fault for fault in faults if fault.at != "start"]
        self._seen: Counter[str] = Counter()
        self._target: Target | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def _actions_at_start(self) -> Iterable[file.Action]:
        return (
            action
            for fault in self._faults
            for action in fault.action
            if fault.at == "start" or isinstance(action, file.PatchWorkload)
        )

    def shape(self, topology: Topology) -> Topology:
        """The topology with the faults that concern which nodes exist."""
        changes: dict[str, object] = {}
        for action in self._actions_at_start():
            if isinstance(action, file.RemoveGpuNodes):
                changes["pools"] = [pool for pool in topology.pools if pool.gpu is None]
            elif isinstance(action, file.SecondExporter):
                changes["second_exporter"] = action.node
            elif isinstance(action, file.SetExporterInterval):
                changes["dcgm_interval_ms"] = action.interval_ms
            elif isinstance(action, file.SetPrometheus):
                changes["prometheus"] = Prometheus(**action.model_dump(exclude={"do"}))
        return topology.model_copy(update=changes)

    def hooks(self) -> list[AdmissionHook]:
        """Admission hooks for the API server."""
        hooks: list[AdmissionHook] = []
        for action in self._actions_at_start():
            if isinstance(action, file.LimitMemory):
                hooks.append(LimitGpuMemory(action.container, action.memory))
            elif isinstance(action, file.PatchWorkload):
                hooks.append(PatchSource(action.file, action.applied))
            elif isinstance(action, file.CapRetries):
                hooks.append(CapJobRetries())
            elif isinstance(action, file.SuspendJobs):
                hooks.append(SuspendUnqueuedJobs())
            elif isinstance(action, file.ForbidPods):
                hooks.append(ForbidJobPods(action.message))
            elif isinstance(action, file.ExhaustQuota):
                hooks.append(self._quota_hook(action.hard))
            elif isinstance(action, file.ChangeStorageClass):
                hooks.append(ChangeStorageClass(action.storage_class, action.fields, action.parameters))
        return hooks

    def _quota_hook(self, hard: dict[str, str]) -> AdmissionHook:
        def on_admission(resource: str, operation: str, obj: Object) -> Object:
            if resource == "namespaces" and operation == "CREATE" and self._target is not None:
                self._spawn(_make_quota(self._target.site.client, str(obj["metadata"]["name"]), hard))
            return obj

        return on_admission

    def prepare(self, target: Target) -> None:
        """Strike what strikes at the start (before any node registers), and lie in wait with the rest.

        Raises `NoNetemError` where a fault needs what this kernel lacks.
        """
        self._target = target
        target.site.claims.armed = any(
            isinstance(action, file.TroubleStorage) for fault in self._faults for action in fault.action
        )
        if any(isinstance(action, outages.ImpairLink) for fault in self._faults for action in fault.action):
            target.site.fabric.require_netem()
        for action in self._actions_at_start():
            self._strike(action, target)
        if self._waiting:
            target.site.on_running.append(self._on_running)
            target.site.on_told.append(self._on_told)

    def _on_told(self, node: str, pod: Object) -> None:
        self._on_event("told", node, pod, "")

    def _on_running(self, node: str, pod: Object, container: str) -> None:
        self._on_event("measuring", node, pod, container)

    def _on_event(self, event: str, node: str, pod: Object, container: str) -> None:
        labels = pod["metadata"].get("labels") or {}
        for fault in list(self._waiting):
            when = fault.at
            if not isinstance(when, file.When) or when.event != event or when.node not in (node, file.EVERY_NODE):
                continue
            if container in ("", when.container) and when.labels.items() <= labels.items():
                self._seen[fault.id] += 1
                if self._seen[fault.id] < when.nth:
                    continue
                self._waiting.remove(fault)
                _log.info("fault %s strikes: a pod on %s: %s %s", fault.id, node, event, container)
                if when.after_s:
                    self._spawn(self._strike_later(fault, node, when.after_s))
                else:
                    self._strike_all(fault, node)

    async def _strike_later(self, fault: file.Fault, node: str, after_s: float) -> None:
        if self._target is not None:
            await asyncio.sleep(self._target.site.timing.s(after_s))
            self._strike_all(fault, node)

    def _strike_all(self, fault: file.Fault, node: str) -> None:
        if self._target is not None:
            for action in fault.action:
                here = getattr(action, "node", None) == file.WHERE_IT_STRIKES
                self._strike(action.model_copy(update={"node": node}) if here else action, self._target)

    def _strike(self, action: file.Action, target: Target) -> None:
        if isinstance(action, file.TroubleStorage):
            target.site.claims.trouble(action.storage_class, action.settings, action.node)
        if isinstance(action, file.TroubleObjectStore):
            target.objects.trouble(action.node, action.settings)
        if isinstance(action, file.TroubleStorage | file.TroubleObjectStore | file.SecondExporter) or not hasattr(
            action, "node"
        ):
            return
        for kubelet in _chosen(target.kubelets, action.node):
            if isinstance(action, outages.Outage):
                self._spawn(outages.carry_out(kubelet, action, target.site.client))
            elif isinstance(action, file.LimitPair):
                self._spawn(outages.limit_pair(kubelet, target.kubelets[action.other], action.mbit))
            elif isinstance(action, exposure.Exposure):
                exposure.expose(kubelet.node, action)
            elif isinstance(action, handing_out.HandingOut):
                handing_out.trouble(kubelet.node, action)
            elif isinstance(action, file.VanishNode):
                self._spawn(_vanish(kubelet))
            else:
                _alter(kubelet, action)

    def _spawn(self, work: asyncio.coroutines.Coroutine[None, None, None]) -> None:  # type: ignore[name-defined]
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_end)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a fault could not be carried out", exc_info=task.exception())


def _chosen(kubelets: dict[str, NodeKubelet], name: str) -> list[NodeKubelet]:
    if name == file.EVERY_NODE:
        return list(kubelets.values())
    return [kubelets[name]] if name in kubelets else []


def _alter(kubelet: NodeKubelet, action: file.Action) -> None:
    node = kubelet.node
    match action:
        case file.OfferGpus():
            node.devices.offer(GPU_RESOURCE, action.count)
            node.labels["nvidia.com/gpu.count"] = str(action.count)
        case file.BreakGpu():
            _break(kubelet, action)
        case file.HideGpus():
            node.troubles.hidden_gpus = action.count
        case file.SetDriver():
            _set_driver(kubelet, action.version)
        case file.RejectPods():
            node.troubles.reject_reason, node.troubles.reject_message = action.reason, action.message
            node.troubles.reject_labels = dict(action.labels)
        case file.BreakSandbox():
            node.troubles.sandbox_error = action.message
        case file.SilentKubelet():
            node.troubles.silent = True
        case file.RefuseImage() | file.TroubleImages():
            _trouble_images(node.images, action)
        case file.TruncateMessages():
            node.troubles.message_limit = action.keep_bytes
        case _:
            _alter_exporter(kubelet, action)


def _trouble_images(images: ImageStore, action: file.RefuseImage | file.TroubleImages) -> None:
    if isinstance(action, file.RefuseImage):
        images.refuse(action.image)
        return
    images.collects = action.collects
    if action.registry_mb_per_s is not None:
        images.registry_bps = action.registry_mb_per_s * 1e6


def _alter_exporter(kubelet: NodeKubelet, action: file.Action) -> None:
    node = kubelet.node
    if isinstance(action, file.RemoveExporter):
        node.labels["nvidia.com/gpu.deploy.dcgm-exporter"] = "false"
        return
    if not isinstance(action, file.TroubleExporter):
        raise TypeError(f"no node can carry out {action.do}")
    place = node.directory / "host/run/simcluster/exporter"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(action.lines(), encoding="utf-8")


def _break(kubelet: NodeKubelet, action: file.BreakGpu) -> None:
    gpus = kubelet.node.gpus
    if gpus is None:
        return
    gpus.init_error = action.init_error
    gpus.change(
        action.gpu,
        context_error=action.context_error,
        compute_error=action.compute_error,
        flips_bits=action.flips_bits,
        hangs=action.hangs,
    )


def _set_driver(kubelet: NodeKubelet, version: str) -> None:
    node = kubelet.node
    if node.gpus is None:
        return
    node.gpus.driver = version
    node.gpus.publish()
    parts = [*version.split("."), "", ""]
    for name, value in zip(("full", "major", "minor", "revision"), (version, *parts[:3]), strict=True):
        node.labels[f"nvidia.com/cuda.driver-version.{name}"] = value


async def _vanish(kubelet: NodeKubelet) -> None:
    await kubelet.stop()
    await kubelet.kill_pods()
    try:
        await kubelet.node.site.client.delete("nodes", kubelet.node.name)
    except ApiError as error:
        _log.warning("node %s could not be deleted: %s", kubelet.node.name, error)


async def _make_quota(client: Client, namespace: str, hard: dict[str, str]) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "exhausted", "namespace": namespace},
        "spec": {"hard": hard},
    }
    try:
        await client.create("resourcequotas", quota, namespace)
    except ApiError as error:
        _log.warning("no quota in %s: %s", namespace, error)
