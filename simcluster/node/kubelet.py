"""The kubelet of one node: registers it, keeps it alive, and gives each pod bound to it a worker.

Owns the node's watch, its lease and the pods' workers. It must not know how a pod runs, nor other nodes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping, Sequence

from simcluster.api.informer import Informer
from simcluster.api.port import ApiError, ExecStream, KubeletRegistry, LogOptions, Object, ProxyResponse
from simcluster.node.admission import Refusal, refuse
from simcluster.node.boot_recovery import fail_lost_pods
from simcluster.node.clock import now, now_micro
from simcluster.node.container import Container
from simcluster.node.context import NodeContext
from simcluster.node.exec import run_in_container
from simcluster.node.hollow import HollowPod
from simcluster.node.hosts import HostsFiles
from simcluster.node.logs import read_log
from simcluster.node.pod import PodWorker
from simcluster.node.proxying import fetch
from simcluster.node.registration import allocatable, node_object, node_status

_log = logging.getLogger(__name__)
Worker = PodWorker | HollowPod


class NodeKubelet:
    """Implements `port.Kubelet` for one node."""

    def __init__(self, node: NodeContext, hosts: HostsFiles, registry: KubeletRegistry) -> None:
        self.node = node
        self._hosts = hosts
        self._registry = registry
        self._workers: dict[str, Worker] = {}
        self._informer = Informer(node.site.client, "pods", field_selector=f"spec.nodeName={node.name}")
        self._heartbeat: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._since = now()
        self._asking: set[str] = set()
        self.started = asyncio.Event()
        """The node is registered and takes pods."""

    async def start(self) -> None:
        """Register the node and begin to run pods."""
        self.node.directory.mkdir(parents=True, exist_ok=True)
        client = self.node.site.client
        try:
            await client.create("nodes", node_object(self.node, now()))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        self._registry.register(self.node.name, self)
        await self._renew_lease()
        self._informer.on_change(self._on_change)
        await self._informer.start()
        self._heartbeat = asyncio.create_task(self._beat(), name=f"heartbeat-{self.node.name}")
        self.started.set()

    def freeze(self) -> None:
        """Neither hear nor speak any more; pods run on."""
        self.node.gate.shut()
        self._registry.unregister(self.node.name)

    async def thaw(self) -> None:
        """Go on where it stopped."""
        self.node.gate.open()
        self._registry.register(self.node.name, self)
        await self._report_in()

    async def power_off(self) -> None:
        """The node is gone at once, with every process and what it held in memory; its object stays."""
        self.freeze()
        await self.kill_pods()
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        await self._informer.stop()
        for worker in self._workers.values():
            if isinstance(worker, PodWorker):
                await worker.lose_power()
            else:
                await worker.abandon()
        self._workers.clear()

    async def boot(self) -> None:
        """The node returns after `power_off`: pods that may be restarted are, the others have failed."""
        self.node.boots += 1
        self._since = now()
        self.node.gate.open()
        await fail_lost_pods(self.node.site.client, self.node.name)
        self._informer = Informer(self.node.site.client, "pods", field_selector=f"spec.nodeName={self.node.name}")
        self._registry.register(self.node.name, self)
        await self._report_in()
        self._informer.on_change(self._on_change)
        await self._informer.start()
        self._heartbeat = asyncio.create_task(self._beat(), name=f"heartbeat-{self.node.name}")

    async def _report_in(self) -> None:
        await self._renew_lease()
        await self.post_status()

    async def stop(self) -> None:
        """Fall silent, as a kubelet that died: containers run on, the Node object stays."""
        self._registry.unregister(self.node.name)
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        await self._informer.stop()
        self.node.events.stop()
        for worker in list(self._workers.values()):
            await worker.abandon()

    async def kill_pods(self) -> None:
        """End every process on the node at once, as a power cut does."""
        for worker in self._workers.values():
            if isinstance(worker, PodWorker):
                for container in worker.containers.values():
                    if container.process is not None:
                        await self.node.site.runtime.kill(container.process)

    def worker(self, uid: str) -> Worker | None:
        """What drives the pod of this uid here."""
        return self._workers.get(uid)

    # ---- the node

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self.node.site.timing.heartbeat_s)
            try:
                await self._renew_lease()
            except ApiError as error:
                _log.debug("lease of %s not renewed: %s", self.node.name, error)

    async def _renew_lease(self) -> None:
        client = self.node.site.client
        spec = {"holderIdentity": self.node.name, "leaseDurationSeconds": 40, "renewTime": now_micro()}
        try:
            await client.patch("leases.coordination.k8s.io", self.node.name, {"spec": spec}, "kube-node-lease")
        except ApiError as error:
            if error.code != 404:
                raise
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self.node.name, "namespace": "kube-node-lease"},
                "spec": spec,
            }
            await client.create("leases.coordination.k8s.io", lease, "kube-node-lease")

    async def post_status(self) -> None:
        """Write the node's status anew, after a change of devices or a return."""
        since = dict.fromkeys(("MemoryPressure", "DiskPressure", "PIDPressure", "Ready"), self._since)
        status = node_status(self.node, now(), since)
        await self.node.site.client.patch("nodes", self.node.name, {"status": status}, subresource="status")

    # ---- pods

    def _on_change(self, before: Object | None, after: Object | None) -> None:
        del before
        if after is None:
            return self._on_gone()
        uid = after["metadata"]["uid"]
        worker = self._workers.get(uid)
        if worker is not None:
            worker.update(after)
        elif not self.node.troubles.silent and _is_new(after):
            self._admit(after)
        return self._on_gone()

    def _on_gone(self) -> None:
        present = {pod["metadata"]["uid"] for pod in self._informer.items.values()}
        for uid in [uid for uid in self._workers if uid not in present]:
            worker = self._workers.pop(uid)
            worker.vanish()
            self._spawn(self._clean_up(worker))

    async def _clean_up(self, worker: Worker) -> None:
        await worker.finished.wait()
        worker.remove_files()

    def _admit(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if not pod["spec"].get("nodeSelector"):
            self._take(pod, {})
        elif uid not in self._asking:
            self._asking.add(uid)
            self._spawn(self._ask_and_take(pod))

    async def _ask_and_take(self, pod: Object) -> None:
        """Hold the pod's selector against the Node object: labels may have come through the API."""
        metadata = pod["metadata"]
        labels: Mapping[str, str] = {"kubernetes.io/hostname": self.node.name, **self.node.labels}
        with contextlib.suppress(ApiError):
            node = await self.node.site.client.get("nodes", self.node.name)
            labels = node["metadata"].get("labels") or {}
        self._asking.discard(metadata["uid"])
        present = self._informer.items.get((metadata["namespace"], metadata["name"]))
        if present is not None and present["metadata"]["uid"] == metadata["uid"] and _is_new(present):
            self._take(present, labels)

    def _take(self, pod: Object, labels: Mapping[str, str]) -> None:
        uid = pod["metadata"]["uid"]
        refusal = self._refusal(pod, labels)
        if refusal is not None:
            self._spawn(self._refuse(pod, refusal))
            return
        hollow = self.node.mode == "hollow"
        worker: Worker = HollowPod(self.node, pod) if hollow else PodWorker(self.node, self._hosts, pod)
        self._workers[uid] = worker
        worker.start()

    def _refusal(self, pod: Object, labels: Mapping[str, str]) -> Refusal | None:
        troubles = self.node.troubles
        own: Mapping[str, str] = pod["metadata"].get("labels") or {}
        if troubles.reject_reason and troubles.reject_labels.items() <= own.items():
            return Refusal(troubles.reject_reason, troubles.reject_message)
        others = [worker.pod for worker in self._workers.values() if not worker.done]
        return refuse(pod, others, allocatable(self.node), labels)

    async def _refuse(self, pod: Object, refusal: Refusal) -> None:
        status = {
            "phase": "Failed",
            "reason": refusal.reason,
            "message": f"Pod was rejected: {refusal.message}",
            "startTime": now(),
            "observedGeneration": pod["metadata"].get("generation", 1),
        }
        metadata = pod["metadata"]
        self.node.events.emit(pod, "Warning", refusal.reason, refusal.message)
        with contextlib.suppress(ApiError):
            await self.node.site.client.patch(
                "pods",
                metadata["name"],
                {"metadata": {"uid": metadata["uid"]}, "status": status},
                metadata["namespace"],
                subresource="status",
            )

    def _spawn(self, work: asyncio.Future[None] | object) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- port.Kubelet

    def _find(self, namespace: str, pod: str, container: str) -> tuple[PodWorker, Container]:
        for worker in self._workers.values():
            metadata = worker.pod["metadata"]
            if isinstance(worker, PodWorker) and (metadata["namespace"], metadata["name"]) == (namespace, pod):
                found = worker.containers.get(container)
                if found is not None:
                    return worker, found
        raise ApiError(404, "NotFound", f'pods "{pod}" not found', {"name": pod, "kind": "pods"})

    async def logs(self, namespace: str, pod: str, container: str, options: LogOptions) -> AsyncIterator[bytes]:
        """The container's log in pieces. `ApiError` 400 where it has none yet."""
        _, found = self._find(namespace, pod, container)
        record = found.record
        if options.previous and record.restart_count == 0:
            raise ApiError(400, "BadRequest", f'previous terminated container "{container}" in pod "{pod}" not found')
        if not record.container_id:
            reason = record.state.get("waiting", {}).get("reason", "ContainerCreating")
            raise ApiError(400, "BadRequest", f'container "{container}" in pod "{pod}" is waiting to start: {reason}')
        path = found.log_path(previous=options.previous)
        async for piece in read_log(path, options, None if options.previous else found.ended):
            yield piece

    async def exec(
        self, namespace: str, pod: str, container: str, command: Sequence[str], stream: ExecStream, *, tty: bool
    ) -> int:
        """Run a command in a running container; its exit code. `ApiError` 500 where it cannot start."""
        _, found = self._find(namespace, pod, container)
        if found.process is None or found.launch is None:
            raise ApiError(500, "InternalError", f'container not found ("{container}")')
        return await run_in_container(self.node.site.runtime, found.process, found.launch, command, stream, tty=tty)

    async def proxy(
        self, namespace: str, pod: str, port: int, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> ProxyResponse:
        """Ask the pod's own HTTP server. `ApiError` 503 where it does not answer."""
        worker = next(
            (
                worker
                for worker in self._workers.values()
                if (worker.pod["metadata"]["namespace"], worker.pod["metadata"]["name"]) == (namespace, pod)
            ),
            None,
        )
        if not isinstance(worker, PodWorker) or not worker.address:
            raise ApiError(503, "ServiceUnavailable", f'no endpoints available for pod "{pod}"')
        host = worker.address if self.node.mode == "full" else "127.0.0.1"
        return await fetch(host, port, method, path, headers, body)


def _is_new(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in (None, "Pending", "Running")
