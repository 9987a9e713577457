"""Hollow pods: no process at all, only the statuses that a pod would show, so that a thousand nodes fit on a laptop.

Owns the model (annotations below). It must not know the runtime. Hollow pods are never evidence that a check fails.

`simcluster.local/duration-s`: seconds that the `measure` container (or the first) runs, default 0.1.
`simcluster.local/termination-message`: its last words, $(NODE) and $(POD) replaced. Other containers run until
deletion.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import Any

from simcluster.api.port import ApiError, Object
from simcluster.node.clock import now
from simcluster.node.context import NodeContext
from simcluster.node.reporting import StatusReporter, is_older
from simcluster.node.status import ContainerRecord, PodView, waiting

_DURATION = "simcluster.local/duration-s"
_MESSAGE = "simcluster.local/termination-message"


class HollowPod:
    """Drives one hollow pod; the same interface towards the kubelet as `PodWorker`."""

    def __init__(self, node: NodeContext, pod: Object) -> None:
        self.node = node
        self.pod = pod
        self.finished = asyncio.Event()
        self.address = ""
        names = [container["name"] for container in pod["spec"]["containers"]]
        self._busy = "measure" if "measure" in names else names[0]
        self._records = [
            ContainerRecord(container["name"], container["image"], "app", waiting("ContainerCreating"))
            for container in pod["spec"]["containers"]
        ]
        self._started_at = now()
        self._reporter = StatusReporter(node.site.client)
        self._lease = node.site.addresses.take()
        self._final = False
        self._deleted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def done(self) -> bool:
        """The pod has ended: it holds nothing of the node any more."""
        return self.finished.is_set()

    def start(self) -> None:
        """Begin; returns at once."""
        self._task = asyncio.create_task(self._run(), name=f"hollow-{self.pod['metadata']['name']}")

    def update(self, pod: Object) -> None:
        """The pod's object has changed."""
        if is_older(pod, self.pod):
            return
        self.pod = pod
        if pod["metadata"].get("deletionTimestamp"):
            self._deleted.set()

    def vanish(self) -> None:
        """The pod's object is gone."""
        self._deleted.set()
        self.finished.set()

    def remove_files(self) -> None:
        """There are none."""

    async def abandon(self) -> None:
        """The kubelet stops."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        annotations = self.pod["metadata"].get("annotations") or {}
        self.address = self._lease.address
        for record in self._records:
            record.container_id = f"containerd://{uuid.uuid4().hex}"
            record.state, record.ready = {"running": {"startedAt": now()}}, True
        await self._write()
        for listener in self.node.site.on_running:
            listener(self.node.name, self.pod, self._busy)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._deleted.wait(), float(annotations.get(_DURATION, 0.1)))
        code = 137 if self._deleted.is_set() else 0
        self._end_of(self._busy, code, "" if code else self._message(annotations))
        if len(self._records) > 1 and not self._deleted.is_set():
            await self._write()
            await self._deleted.wait()
        for record in self._records:
            if record.running:
                self._end_of(record.name, 137, "")
        if not self._deleted.is_set():
            await asyncio.sleep(self.node.site.timing.pod_terminal_lag_s)
        self._final = True
        await self._write()
        self.finished.set()
        self.node.site.addresses.give_back(self._lease)
        await self._deleted.wait()
        await self._delete()

    def _message(self, annotations: dict[str, str]) -> str:
        text = annotations.get(_MESSAGE, "")
        return text.replace("$(NODE)", self.node.name).replace("$(POD)", self.pod["metadata"]["name"])

    def _end_of(self, name: str, code: int, message: str) -> None:
        for record in self._records:
            if record.name == name:
                state: dict[str, Any] = {
                    "exitCode": code,
                    "reason": "Completed" if code == 0 else "Error",
                    "startedAt": self._started_at,
                    "finishedAt": now(),
                    "containerID": record.container_id,
                }
                if message:
                    state["message"] = message
                record.state, record.ready, record.finished = {"terminated": state}, False, True

    def _view(self) -> PodView:
        return PodView(
            self.pod,
            self._records,
            self.node.host_ip,
            self._started_at,
            pod_ip=self.address,
            sandbox_ready=True,
            final=self._final,
        )

    async def _write(self) -> None:
        stored = await self._reporter.write(self._view)
        if stored is not None:
            self.pod = stored

    async def _delete(self) -> None:
        metadata = self.pod["metadata"]
        with contextlib.suppress(ApiError):
            await self.node.site.client.delete(
                "pods", metadata["name"], metadata["namespace"], grace_period_s=0, uid=metadata["uid"]
            )
