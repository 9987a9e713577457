"""One container's life: image, start, exit, restart or end, as recorded on a real kubelet (golden 11, 12, 13).

Owns the container's states and its process. It must not know the pod's phase, nor when the pod is deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from simcluster.api.port import Object
from simcluster.node.attempt import Attempt, memory_limit
from simcluster.node.clock import now
from simcluster.node.context import NodeContext
from simcluster.node.environment import command_line, environment
from simcluster.node.logs import LogWriter
from simcluster.node.probes import is_ready_at_start, watch_probes
from simcluster.node.pulling import have_image
from simcluster.node.restarts import Restarts
from simcluster.node.runtime import Launch, LaunchError, Process
from simcluster.node.sources import PodFacts, SourceMissingError
from simcluster.node.status import EPOCH, ContainerRecord, waiting

_RUNTIME_WORDS = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
    "runc create failed: unable to start container process: "
)


class PodSide(Protocol):
    """What a container needs of its pod."""

    node: NodeContext
    directory: Path
    stopping: bool

    @property
    def pod(self) -> Object: ...

    def facts(self) -> PodFacts: ...

    def changed(self) -> None:
        """The record has changed: write the status."""
        ...

    async def launch_for(self, container: Object, env: Mapping[str, str], argv: list[str], message: Path) -> Launch: ...


class Container:
    """Runs one container of a pod until it has ended for good."""

    def __init__(self, pod: PodSide, spec: Object, record: ContainerRecord, restart_policy: str) -> None:
        self.spec = spec
        self.record = record
        self.env: dict[str, str] = {}
        self.launch: Launch | None = None
        self.ended = asyncio.Event()
        self.first_start = asyncio.Event()
        """The first attempt has begun to run, or there will be none."""
        self._pod = pod
        self._node = pod.node
        self._restart = Restarts(record.role, restart_policy, pod.node.site.timing)
        self._attempt: Attempt | None = None
        self._sleeper: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self.begun = False
        section = "containers" if record.role == "app" else "initContainers"
        self._path = f"spec.{section}{{{record.name}}}"
        self._halt = False

    def stopped(self) -> bool:
        """Whether `stop` has been called: nothing is started any more."""
        return self._halt

    @property
    def process(self) -> Process | None:
        """The running process."""
        return self._attempt.process if self._attempt is not None else None

    def log_path(self, *, previous: bool = False) -> Path:
        """The log of the present (or the previous) attempt."""
        return self._log_file(self.record.restart_count - (1 if previous else 0))

    def _log_file(self, attempt: int) -> Path:
        return self._pod.directory / f"{self.record.name}_{attempt}.log"

    async def run(self) -> None:
        """Until the container has ended for good."""
        self.begun = True
        try:
            while not self.stopped():
                if not self._restart.is_first:
                    await self.sleep(self._restart.delay_s)
                if self.stopped() or not await self._ready_to_start():
                    break
                async with self._starting:
                    failure = "" if self.stopped() else await self._start()
                if self._attempt is not None:
                    await self._wait()
                if self.stopped() or not self._restarts():
                    break
                self._put_off(failure)
                self._restart.advance()
        finally:
            self.record.finished = True
            self.first_start.set()
            self.ended.set()
            self._pod.changed()

    async def stop(self, grace_s: float) -> None:
        """TERM, and KILL after the grace period; returns when the process is gone."""
        self._halt = True
        if self._sleeper is not None:
            self._sleeper.cancel()
        async with self._starting:
            attempt = self._attempt
        if attempt is None:
            return
        self.emit("Normal", "Killing", f"Stopping container {self.record.name}")
        if grace_s > 0:
            await self._node.site.runtime.kill(attempt.process, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(attempt.process.exited), grace_s)
        await self._node.site.runtime.kill(attempt.process, signal.SIGKILL)

    def emit(self, kind: str, reason: str, message: str) -> None:
        """Report an event about this container."""
        self._node.events.emit(self._pod.pod, kind, reason, message, self._path)

    def wait_as(self, reason: str, message: str = "") -> None:
        """Show that and why the container waits."""
        self._set(waiting(reason, message))

    def _set(self, state: dict[str, Any], *, ready: bool = False) -> None:
        if self.record.exit_code is not None and "terminated" not in state:
            self.record.last_state = self.record.state
        self.record.state = state
        self.record.ready = ready
        self._pod.changed()

    async def sleep(self, delay_s: float) -> None:
        """Sleep until the time is over or `stop` ends it."""
        self._sleeper = asyncio.create_task(asyncio.sleep(delay_s))
        try:
            # Unlike awaiting the sleeper itself, this tells its end from the end of this task.
            await asyncio.wait([self._sleeper])
        finally:
            self._sleeper.cancel()
            self._sleeper = None

    # ---- restarts

    def _restarts(self) -> bool:
        return not self._pod.stopping and self._restart.wanted(self.record.exit_code)

    def _put_off(self, failure: str) -> None:
        """Show why the container waits for its next start."""
        metadata = self._pod.pod["metadata"]
        if self._restart.is_first:
            if failure:
                self.wait_as("RunContainerError", failure)
            return
        where = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
        text = f"back-off {self._restart.shown_s}s restarting failed container={self.record.name} pod={where}"
        self.wait_as("CrashLoopBackOff", text)
        self.emit("Warning", "BackOff", f"Back-off restarting failed container {self.record.name} in pod {where}")

    # ---- image and configuration

    async def _ready_to_start(self) -> bool:
        if not await have_image(self.spec, self._node, self):
            return False
        while not self.stopped():
            try:
                self.env = await environment(
                    self._node.site.client, self._pod.facts(), self.spec, self._given_environment()
                )
            except SourceMissingError as missing:
                self.wait_as("CreateContainerConfigError", str(missing))
                self.emit("Warning", "Failed", f"Error: {missing}")
                await self.sleep(self._node.site.timing.s(10.0))
                continue
            return True
        return False

    def _given_environment(self) -> dict[str, str]:
        given = dict(self._node.site.base_env)
        given["HOSTNAME"] = self._pod.pod["spec"].get("hostname") or self._pod.pod["metadata"]["name"]
        return given

    # ---- process

    async def _start(self) -> str:
        """Start the process; the failure's text, or "" where it runs."""
        again = bool(self.record.last_state) or self.record.exit_code is not None
        number = self.record.restart_count + again
        message = self._pod.directory / f"{self.record.name}_{number}.message"
        message.write_bytes(b"")
        log = LogWriter(self._log_file(number))
        descriptors = [os.open(os.devnull, os.O_RDONLY), log.pipe("stdout"), log.pipe("stderr")]
        try:
            self.launch = await self._pod.launch_for(self.spec, self.env, command_line(self.spec, self.env), message)
            self.emit("Normal", "Created", "Container created")
            process = await self._node.site.runtime.launch(self.launch, descriptors)
        except LaunchError as failure:
            log.finish()
            self._identify(number)
            return self._failed_to_start(f"{_RUNTIME_WORDS}{failure}: unknown")
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._attempt = Attempt(process, log, message, now())
        self._identify(number)
        self.emit("Normal", "Started", "Container started")
        self.first_start.set()
        ready = self.record.role != "init" and is_ready_at_start(self.spec)
        self._set({"running": {"startedAt": self._attempt.started_at}}, ready=ready)
        for listener in self._node.site.on_running:
            listener(self._node.name, self._pod.pod, self.record.name)
        return ""

    def _identify(self, number: int) -> None:
        """The attempt counts and has an identity from the moment its state changes, not before."""
        self.record.restart_count = number
        self.record.container_id = f"containerd://{uuid.uuid4().hex}{uuid.uuid4().hex}"
        self.record.image_id = f"sha256:{uuid.uuid5(uuid.NAMESPACE_URL, str(self.spec['image'])).hex * 2}"

    def _failed_to_start(self, text: str) -> str:
        self.emit("Warning", "Failed", f"Error: {text}")
        self.record.state = {
            "terminated": {
                "exitCode": 128,
                "reason": "StartError",
                "message": text,
                "startedAt": EPOCH,
                "finishedAt": now(),
                "containerID": self.record.container_id,
            }
        }
        self.record.ready = False
        return text

    async def _wait(self) -> None:
        attempt = self._attempt
        assert attempt is not None
        watchers = [asyncio.create_task(watch) for watch in self._watches(attempt)]
        try:
            code = await asyncio.shield(attempt.process.exited)
        finally:
            for watcher in watchers:
                watcher.cancel()
        attempt.log.finish()
        self._attempt = None
        state: dict[str, Any] = {
            "exitCode": code,
            "reason": "OOMKilled" if attempt.out_of_memory else "Completed" if code == 0 else "Error",
            "startedAt": attempt.started_at,
            "finishedAt": now(),
            "containerID": self.record.container_id,
        }
        text = attempt.last_words(self._pod.pod, self.spec, code, self._node.troubles.message_limit)
        if text:
            state["message"] = text
        self._set({"terminated": state}, ready=self.record.role == "init" and code == 0)

    def _watches(self, attempt: Attempt) -> list[Coroutine[Any, Any, None]]:
        limit = memory_limit(self.spec)
        watches = [attempt.watch_memory(self._node.site.runtime, limit)] if limit else []
        if any(self.spec.get(kind) for kind in ("startupProbe", "readinessProbe", "livenessProbe")):
            watches.append(watch_probes(self))
        return watches

    # ---- probes

    @property
    def address(self) -> str:
        """Where the container's ports are."""
        return self._pod.facts().pod_ip if self._node.mode == "full" else "127.0.0.1"

    def show_ready(self, *, ready: bool) -> None:
        """A probe has found the container ready, or no longer so."""
        if self.record.running and self.record.ready != ready:
            self.record.ready = ready
            self._pod.changed()

    async def run_probe(self, command: Sequence[str]) -> int:
        """Run a command inside the container; its exit code, 1 where it cannot start."""
        if self._attempt is None or self.launch is None:
            return 1
        null = os.open(os.devnull, os.O_RDWR)
        try:
            wanted = replace(self.launch, argv=list(command))
            process = await self._node.site.runtime.enter(self._attempt.process, wanted, [null] * 3)
        except LaunchError:
            return 1
        finally:
            os.close(null)
        return await asyncio.shield(process.exited)

    async def kill_unhealthy(self) -> None:
        """Liveness is lost: end the process, so that the restart policy decides."""
        if self._attempt is not None:
            restarted = "will be restarted" if self._restarts() else "will be killed"
            text = f"Container {self.record.name} failed liveness probe, {restarted}"
            self.emit("Normal", "Killing", text)
            await self._node.site.runtime.kill(self._attempt.process, signal.SIGKILL)
