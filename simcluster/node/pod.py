"""One pod on its node: from admission to its last status, as recorded on a real kubelet (golden 01b, 05, 07c, 18).

Owns the order of things in a pod. It must not know how a container starts, nor the API but for writing one pod.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simcluster.api.port import ApiError, Object
from simcluster.node.clock import now
from simcluster.node.container import Container
from simcluster.node.context import NodeContext
from simcluster.node.hosts import HostsFiles
from simcluster.node.launching import LaunchPlanner
from simcluster.node.plan import planned
from simcluster.node.podrdma import PodRdma
from simcluster.node.podvolumes import PodVolumes
from simcluster.node.reporting import StatusReporter, is_older
from simcluster.node.runtime import Launch
from simcluster.node.sandbox import PodSandbox
from simcluster.node.sources import PodFacts
from simcluster.node.states import LOST
from simcluster.node.status import PodView

_DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"
_DELETE_LAG_S = 0.5
"""From a deleted pod's last status to the kubelet's own DELETE (02, 04b, 05f: 0.4 to 1 s)."""
_log = logging.getLogger(__name__)


class PodWorker:
    """Drives one pod; `update` and `vanish` are told what the watch says."""

    def __init__(self, node: NodeContext, hosts: HostsFiles, pod: Object) -> None:
        self.node = node
        self.pod = pod
        self.uid = str(pod["metadata"]["uid"])
        self.directory = node.directory / "pods" / self.uid
        self.stopping = False
        self.containers = {
            item.record.name: Container(self, item.spec, item.record, item.restart_policy) for item in planned(pod)
        }
        self.finished = asyncio.Event()
        self._start_time = now()
        self._show_address = False
        self._final = False
        self._deadline_passed = False
        self._rdma = PodRdma(node, pod, self.directory)
        self._sandbox = PodSandbox(node, hosts, pod, self.directory, self._rdma)
        share_pids = bool(pod["spec"].get("shareProcessNamespace"))
        self._planner = LaunchPlanner(node, self.uid, self.directory, self._rdma, share_pids=share_pids)
        self._dirty = asyncio.Event()
        self._reporter = StatusReporter(node.site.client)
        self._tasks: set[asyncio.Task[None]] = set()
        self._terminating: asyncio.Task[None] | None = None
        self._gone = False
        self._volumes: PodVolumes | None = None

    # ---- what the kubelet tells

    def start(self) -> None:
        """Begin; returns at once."""
        self._spawn(self._run(), "run")
        self._spawn(self._keep_status(), "status")
        deadline_s = self.pod["spec"].get("activeDeadlineSeconds")
        if deadline_s is not None:
            self._spawn(self._enforce_deadline(float(deadline_s)), "deadline")
        if self.pod["metadata"].get("deletionTimestamp"):
            self.update(self.pod)

    def update(self, pod: Object) -> None:
        """The pod's object has changed."""
        if is_older(pod, self.pod):
            return
        told = [self.pod["metadata"].get(key) for key in ("annotations", "labels")]
        self.pod = pod
        if told[0] != pod["metadata"].get("annotations"):
            for hook in self.node.site.on_told:
                hook(self.node.name, pod)
        if self._volumes is not None and told != [pod["metadata"].get(key) for key in ("annotations", "labels")]:
            self._volumes.hurry()
        if pod["metadata"].get("deletionTimestamp") and self._terminating is None:
            grace_s = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
            self._terminating = self._spawn(self._delete(grace_s), "delete")

    def vanish(self) -> None:
        """The pod's object is gone (a forced delete): kill what runs."""
        self._gone = True
        if not self.done:
            self._spawn(self._stop(self.node.site.timing.s(2.0)), "vanish")

    @property
    def done(self) -> bool:
        """The pod has ended: it holds nothing of the node any more."""
        return self.finished.is_set()

    async def abandon(self) -> None:
        """The kubelet stops: forget the pod and leave its processes alone."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ---- for containers (PodSide)

    def facts(self) -> PodFacts:
        """What the downward API can tell."""
        return PodFacts(self.pod, self.node.name, self.node.host_ip, self.address, self.node.capacity)

    def changed(self, container: Container) -> None:
        """A container's record has changed."""
        for other in self.containers.values():
            if other is not container:
                other.look()
        self._show_address = self._sandbox.ready
        self._dirty.set()

    @property
    def address(self) -> str:
        """The pod's IP, or "" before it has one."""
        return self._sandbox.address

    async def launch_for(self, container: Object, env: Mapping[str, str], argv: list[str], message: Path) -> Launch:
        """How to start a container: its root with volumes, files and devices."""
        return self._planner.plan(container, env, argv, message)

    # ---- the way up

    async def _run(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._dirty.set()
        if not await self._set_up_volumes() or not await self._set_up_sandbox():
            return
        for container in self.containers.values():
            if container.record.role == "app" or self.stopping:
                break
            if container.record.role == "sidecar":
                self._spawn(container.run(), container.record.name)
                await container.first_start.wait()
                continue
            await container.run()
            if container.record.exit_code != 0:
                await self._finish()
                return
        apps = [container for container in self.containers.values() if container.record.role == "app"]
        if not self.stopping:
            for container in apps:
                self._spawn(container.run(), container.record.name)
            await asyncio.gather(*(container.ended.wait() for container in apps))
            await self._finish()

    async def _set_up_volumes(self) -> bool:
        volumes = PodVolumes(self.node, self.facts, self.directory)
        places = await volumes.set_up(lambda: self.stopping)
        if places is None:
            return False
        self._planner.volumes = places
        self._volumes = volumes
        self._spawn(volumes.keep_fresh(self.finished), "volumes")
        return True

    async def _set_up_sandbox(self) -> bool:
        timing = self.node.site.timing
        while not self.stopping:
            trouble = self.node.troubles.sandbox_error or await self._sandbox.make()
            if not trouble:
                self._dirty.set()
                # A real kubelet shows the ready sandbox before any container: give the status time to be written.
                await asyncio.sleep(0)
                return True
            self.node.events.emit(
                self.pod, "Warning", "FailedCreatePodSandBox", f"Failed to create pod sandbox: {trouble}"
            )
            await asyncio.sleep(timing.s(12.0))
        return False

    # ---- the way down

    async def _finish(self) -> None:
        """All app containers have ended, or an init container has failed: stop sidecars, lag, write the last status."""
        await self._stop_sidecars()
        if not self.stopping:
            await asyncio.sleep(self.node.site.timing.pod_terminal_lag_s)
        await self._end()

    async def _stop_sidecars(self) -> None:
        sidecars = [item for item in self.containers.values() if item.record.role == "sidecar"]
        grace_s = float(self.pod["spec"].get("terminationGracePeriodSeconds") or 30)
        for sidecar in reversed(sidecars):
            if not sidecar.ended.is_set() and sidecar.first_start.is_set():
                await sidecar.stop(grace_s)
                await sidecar.ended.wait()

    async def _stop(self, grace_s: float) -> None:
        self.stopping = True
        everyone = list(self.containers.values())
        await asyncio.gather(*(container.stop(grace_s) for container in everyone))
        await asyncio.gather(*(container.ended.wait() for container in everyone if container.begun))
        if self._gone:
            await self._end()

    async def _delete(self, grace_s: float) -> None:
        timing = self.node.site.timing
        if not self.done:
            await self._stop(max(grace_s, timing.s(2.0)))
            await self._end()
        await asyncio.sleep(timing.s(_DELETE_LAG_S))
        with contextlib.suppress(ApiError):
            await self.node.site.client.delete(
                "pods", self.pod["metadata"]["name"], self.pod["metadata"]["namespace"], grace_period_s=0, uid=self.uid
            )

    async def _enforce_deadline(self, deadline_s: float) -> None:
        await asyncio.sleep(deadline_s)
        if self.done or self.stopping:
            return
        self._deadline_passed = True
        self.node.events.emit(self.pod, "Normal", "DeadlineExceeded", _DEADLINE_MESSAGE)
        await self._write()
        await self._stop(float(self.pod["spec"].get("terminationGracePeriodSeconds") or 30))
        await self._end()

    async def _end(self) -> None:
        """Free what the pod holds and write its final status. May be called twice."""
        if self.done:
            return
        self.finished.set()
        self._close_unstarted()
        self._final = True
        self.node.devices.release(self.uid)
        await self._write()
        await self._let_go()

    async def lose_power(self) -> None:
        """The node has: forget the pod and what it holds here, and tell nobody."""
        await self.abandon()
        self.node.devices.release(self.uid)
        await self._let_go()

    async def _let_go(self) -> None:
        self.node.images.let_go(self.uid)
        self._rdma.detach()
        self._planner.forget(list(self.containers))
        await self._sandbox.release()
        await self._lose_waiting_sidecars()

    async def _lose_waiting_sidecars(self) -> None:
        """A sidecar that still waited for its restart is told as lost a moment after the pod has ended (golden 18)."""
        records = [container.record for container in self.containers.values()]
        lost = [record for record in records if record.role == "sidecar" and "waiting" in record.state]
        if lost:
            await asyncio.sleep(self.node.site.timing.pod_terminal_lag_s)
            for record in lost:
                record.state = LOST
            await self._write()

    def _close_unstarted(self) -> None:
        """Containers that never ran cannot have succeeded: a deleted pod that was still waiting is Failed."""
        if not self.stopping:
            return
        for container in self.containers.values():
            record = container.record
            if record.exit_code is None and record.role == "app":
                record.state = LOST
            record.finished = True

    def remove_files(self) -> None:
        """The object is gone: so are the pod's files."""
        self.node.events.forget(self.uid)
        shutil.rmtree(self.directory, ignore_errors=True)

    # ---- status

    async def _keep_status(self) -> None:
        while not self.done:
            await self._dirty.wait()
            self._dirty.clear()
            # While a pod is being stopped a real kubelet writes nothing before all has ended (golden 05b, 07c).
            if not self.stopping:
                await self._write()

    def _view(self) -> PodView:
        return PodView(
            pod=self.pod,
            records=[container.record for container in self.containers.values()],
            host_ip=self.node.host_ip,
            start_time=self._start_time,
            pod_ip=self.address if self._show_address else "",
            sandbox_ready=self._sandbox.ready,
            final=self._final,
            doomed=self._deadline_passed,
            reason="DeadlineExceeded" if self._deadline_passed else "",
            message=_DEADLINE_MESSAGE if self._deadline_passed else "",
        )

    async def _write(self) -> None:
        if not self._gone:
            stored = await self._reporter.write(self._view)
            if stored is not None:
                self.pod = stored

    def _spawn(self, work: Any, name: str) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work, name=f"pod-{self.pod['metadata']['name']}-{name}")
        self._tasks.add(task)
        task.add_done_callback(self._on_task_end)
        return task

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("%s failed", task.get_name(), exc_info=task.exception())
