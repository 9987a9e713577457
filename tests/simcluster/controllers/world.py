"""What tests do to a cluster: add nodes, create Jobs, script what pods do, wait for states, read status histories.

Owns the fake kubelet: it writes pod statuses as a client, in the order and with the (scaled) delays of a real one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from simcluster.api.port import ApiError, Client, Object
from simcluster.controllers import clock, fields
from simcluster.timing import Timing

NS = "default"
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Act:
    """What a pod does: start after `start_s`, run `run_s` (None: until deleted), exit with `code`.

    On SIGTERM it exits with `term_code` after `term_s`; None means that it ignores the signal for its grace period.
    All seconds are those of a real cluster; the world scales them.
    """

    run_s: float | None = 1.0
    code: int = 0
    term_code: int | None = 143
    term_s: float = 0.1
    start_s: float = 0.6
    rejected: str = ""


@dataclass
class Gate:
    """An admission hook that refuses pods while `closed` is set; `refused` keeps the times of the refusals."""

    closed: ApiError | None = None
    refused: list[float] = field(default_factory=list)

    def __call__(self, resource: str, operation: str, obj: Object) -> Object:
        """See AdmissionHook."""
        if self.closed is not None and resource == "pods" and operation == "CREATE":
            self.refused.append(asyncio.get_running_loop().time())
            raise self.closed
        return obj


@dataclass
class World:
    """A cluster under test."""

    client: Client
    timing: Timing
    act: Callable[[Object], Act] = lambda _pod: Act()
    gate: Gate = field(default_factory=Gate)
    silent_nodes: set[str] = field(default_factory=set)
    histories: dict[tuple[str, str], list[Object]] = field(default_factory=dict)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _pods: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _doomed: dict[str, asyncio.Event] = field(default_factory=dict)

    async def start(self) -> None:
        """Start the kubelet and the keeping of Jobs' histories."""
        for resource, handle in (("pods", self._on_pod), ("jobs.batch", self._on_job)):
            listed = await self.client.list(resource)
            self._tasks.append(asyncio.create_task(self._follow(resource, listed.resource_version, handle)))

    async def stop(self) -> None:
        """End all of the world's tasks."""
        tasks = [*self._tasks, *self._pods.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, resource: str, version: str, handle: Callable[[str, Object], None]) -> None:
        async for event in self.client.watch(resource, resource_version=version):
            handle(event.type, event.object)

    def _on_job(self, kind: str, job: Object) -> None:
        self.histories.setdefault(fields.key(job), []).append(job if kind != "DELETED" else {**job, "gone": True})

    def history(self, name: str, namespace: str = NS) -> list[Object]:
        """The statuses a watcher saw of a Job, repeats left out."""
        seen: list[Object] = []
        for job in self.histories.get((namespace, name), []):
            if not seen or seen[-1] != fields.status(job):
                seen.append(fields.status(job))
        return seen

    def _on_pod(self, kind: str, pod: Object) -> None:
        uid = fields.uid(pod)
        if kind == "DELETED":
            task = self._pods.pop(uid, None)
            if task is not None:
                task.cancel()
            return
        if not fields.node_of(pod) or fields.node_of(pod) in self.silent_nodes:
            return
        if uid not in self._pods:
            self._doomed[uid] = asyncio.Event()
            self._pods[uid] = asyncio.create_task(self._live(pod, self._doomed[uid]))
        if fields.deleting(pod):
            self._doomed[uid].set()

    async def _live(self, pod: Object, doomed: asyncio.Event) -> None:
        act = self.act(pod)
        if act.rejected:
            await self._status(pod, {"phase": "Failed", "reason": act.rejected, "message": "Pod was rejected: no"})
            return
        code = await self._until(doomed, act.start_s)
        if not code:
            await self._status(pod, _running(pod))
        killed = await self._until(doomed, act.run_s)
        exit_code = act.code
        if killed:
            exit_code = await self._terminate(pod, act)
        await self._status(pod, _ended(pod, exit_code))
        await asyncio.sleep(self.timing.pod_terminal_lag_s)
        await self._status(pod, {"phase": "Failed" if exit_code else "Succeeded"})
        await doomed.wait()
        await self._quietly(
            self.client.delete("pods", fields.name(pod), fields.namespace(pod), grace_period_s=0, uid=fields.uid(pod))
        )

    async def _until(self, doomed: asyncio.Event, seconds: float | None) -> bool:
        """Whether the pod was doomed before the seconds were over."""
        try:
            await asyncio.wait_for(doomed.wait(), None if seconds is None else self.timing.s(seconds))
        except TimeoutError:
            return False
        return True

    async def _terminate(self, pod: Object, act: Act) -> int:
        if act.term_code is None:
            current = await self.client.get("pods", fields.name(pod), fields.namespace(pod))
            grace = fields.meta(current).get("deletionGracePeriodSeconds", 30)
            await asyncio.sleep(self.timing.s(max(grace, 2)))
            return 137
        await asyncio.sleep(self.timing.s(act.term_s))
        return act.term_code

    async def _status(self, pod: Object, change: Object) -> None:
        name, namespace = fields.name(pod), fields.namespace(pod)
        await self._quietly(
            self.client.patch("pods", name, {"status": change}, namespace, kind="strategic", subresource="status")
        )

    @staticmethod
    async def _quietly(call: Awaitable[Any]) -> None:
        try:
            await call
        except ApiError as error:
            if error.code not in {404, 409}:
                raise

    async def node(self, name: str, *, gpus: int = 8, cpu: str = "8", pods: int = 110, **extra: Any) -> Object:
        """Add a ready node."""
        amounts = {"cpu": cpu, "memory": "16Gi", "pods": str(pods), "nvidia.com/gpu": str(gpus)}
        labels = {"kubernetes.io/hostname": name, **extra.pop("labels", {})}
        obj: Object = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": extra,
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        }
        return await self.client.create("nodes", obj)

    async def job(self, name: str = "j", *, namespace: str = NS, pod: Object | None = None, **spec: Any) -> Object:
        """Create a Job whose pods ask for nothing."""
        template = {"spec": pod_spec(**(pod or {}))}
        obj: Object = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}}
        return await self.client.create("jobs.batch", {**obj, "spec": {"template": template, **spec}}, namespace)

    async def pod(self, name: str, *, namespace: str = NS, labels: dict[str, str] | None = None, **spec: Any) -> Object:
        """Create a bare pod."""
        obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}}}
        return await self.client.create("pods", {**obj, "spec": pod_spec(**spec)}, namespace)

    async def pods(self, namespace: str = NS, selector: str = "") -> list[Object]:
        """All pods, as they are now."""
        return list((await self.client.list("pods", namespace, label_selector=selector)).items)

    async def events(self, reason: str, namespace: str = NS) -> list[Object]:
        """All events of that reason, oldest first."""
        found = await self.client.list("events", namespace)
        return sorted((e for e in found.items if e["reason"] == reason), key=fields.version)

    async def until(self, check: Callable[[], Awaitable[Any]], *, patience_s: float = PATIENCE_S) -> Any:
        """The first true answer of `check`; AssertionError where none comes in time."""
        deadline = asyncio.get_running_loop().time() + patience_s
        while True:
            answer = await check()
            if answer:
                return answer
            assert asyncio.get_running_loop().time() < deadline, f"never true: {check}"
            await asyncio.sleep(0.005)

    async def until_condition(
        self, resource: str, name: str, kind: str, *, namespace: str | None = NS, patience_s: float = PATIENCE_S
    ) -> Object:
        """Wait for a condition to be True; the object then."""

        async def check() -> Object | None:
            obj = await self.client.get(resource, name, namespace)
            return obj if fields.condition_true(obj, kind) else None

        found: Object = await self.until(check, patience_s=patience_s)
        return found

    async def gone(self, resource: str, name: str, namespace: str | None = NS) -> bool:
        """Whether the object does not exist."""
        try:
            await self.client.get(resource, name, namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            return True
        return False


def pod_spec(**extra: Any) -> Object:
    """A pod's spec with one container c; `gpus=n` asks for GPUs."""
    resources: Object = {}
    if gpus := extra.pop("gpus", 0):
        resources = {"limits": {"nvidia.com/gpu": str(gpus)}}
    container = {"name": "c", "image": "simcluster.local/python:3", "resources": resources}
    base = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [container]}
    return {**base, **extra}


def _conditions(ready: bool) -> list[Object]:
    value = "True" if ready else "False"
    return [
        {"type": kind, "status": value, "lastTransitionTime": clock.stamp()} for kind in ("Ready", "ContainersReady")
    ]


def _container(state: Object, ready: bool) -> Object:
    return {"name": "c", "image": "i", "imageID": "", "ready": ready, "restartCount": 0, "state": state}


def _running(pod: Object) -> Object:
    now = clock.stamp()
    state = {"running": {"startedAt": now}}
    return {
        "phase": "Running",
        "startTime": now,
        "conditions": _conditions(ready=True),
        "podIP": "10.0.0.1",
        "containerStatuses": [_container(state, ready=True)],
    }


def _ended(pod: Object, code: int) -> Object:
    now = clock.stamp()
    reason = "Error" if code else "Completed"
    ended = {"exitCode": code, "reason": reason, "startedAt": now, "finishedAt": now}
    return {
        "conditions": _conditions(ready=False),
        "containerStatuses": [_container({"terminated": ended}, ready=False)],
    }
