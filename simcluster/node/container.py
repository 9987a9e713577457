"""One container's life: image, start, exit, restart or end, as recorded on a real kubelet (golden 11, 12, 13).

Owns the container's states and its process. It must not know the pod's phase, nor when the pod is deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from simcluster.api.port import Object
from simcluster.node.attempt import Attempt, memory_limit
from simcluster.node.clock import now
from simcluster.node.context import NodeContext
from simcluster.node.environment import command_line, environment
from simcluster.node.hooks import run_pre_stop
from simcluster.node.inside import run_inside
from simcluster.node.logs import LogWriter
from simcluster.node.probes import is_ready_at_start, watch_probes
from simcluster.node.pulling import have_image
from simcluster.node.restarts import Restarts
from simcluster.node.runtime import Launch, LaunchError, Process
from simcluster.node.sources import PodFacts, SourceMissingError
from simcluster.node.states import ended, not_started
from simcluster.node.status import ContainerRecord, waiting

_RUNTIME_WORDS = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
    "runc create failed: unable to start container process: "
)

_LEAST_GRACE_S = 2.0
"""What a preStop hook leaves a process between TERM and KILL at least."""
_KILLS_AT_ONCE = 2
"""Lost liveness is answered so often with a start at once, and from then on with a back-off (golden 28)."""
_LOOKS_AFTER_S = 10.5
_LOOKS_AFTER_FAILURE_S = 1.0
_MOST_UNSEEN = 0.95
"""A pod shows its container's end, or its failed start, until the kubelet next looks at it: only then, or when another
container changes, it shows the back-off (golden 13, 18, 28); at the latest when this share of the delay is over."""


class PodSide(Protocol):
    """What a container needs of its pod."""

    node: NodeContext
    directory: Path
    stopping: bool

    @property
    def pod(self) -> Object: ...

    def facts(self) -> PodFacts: ...

    def changed(self, container: Container) -> None:
        """The container's record has changed: write the status."""
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
        self._unhealthy = False
        self._kills = 0
        self._unseen = False

    @property
    def pod_uid(self) -> str:
        """Whose container it is."""
        return str(self._pod.pod["metadata"]["uid"])

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
        waited_s = 0.0
        try:
            while not self.stopped():
                if not self._restart.is_first:
                    await self.sleep(self._restart.delay_s - waited_s)
                waited_s = 0.0
                if self.stopped() or not await self._ready_to_start():
                    break
                async with self._starting:
                    failure = "" if self.stopped() else await self._start()
                if self._attempt is not None:
                    await self._wait()
                if self._unhealthy and not self.stopped():
                    self._unhealthy = False
                    continue
                if self.stopped() or not self._restarts():
                    break
                waited_s = await self._put_off(failure)
                self._restart.advance()
        finally:
            self.record.finished = True
            self.first_start.set()
            self.ended.set()
            self._pod.changed(self)

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
        await self._end(attempt, grace_s)

    async def _end(self, attempt: Attempt, grace_s: float) -> None:
        runtime, least_s = self._node.site.runtime, self._node.site.timing.s(_LEAST_GRACE_S)
        if grace_s > 0:
            begun = time.monotonic()
            await run_pre_stop(self, grace_s)
            await runtime.kill(attempt.process, signal.SIGTERM)
            left_s = max(grace_s - (time.monotonic() - begun), min(grace_s, least_s))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(attempt.process.exited), left_s)
        await runtime.kill(attempt.process, signal.SIGKILL)

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
        self._pod.changed(self)

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

    async def _put_off(self, failure: str) -> float:
        """Show why the container waits for its next start; how much of the delay is over by then."""
        if failure:
            self.wait_as("RunContainerError", failure)
        if self._restart.is_first:
            return 0.0
        # A real kubelet shows the end itself first, and the back-off only when it next looks at the pod.
        looks_after_s = self._node.site.timing.s(_LOOKS_AFTER_FAILURE_S if failure else _LOOKS_AFTER_S)
        begun = time.monotonic()
        self._unseen = True
        await self.sleep(min(looks_after_s, self._restart.upcoming_s * _MOST_UNSEEN))
        self._unseen = False
        unseen_s = time.monotonic() - begun
        if self.stopped():
            return unseen_s
        text = f"back-off {self._restart.shown_s}s restarting failed container={self.record.name} pod={self._where()}"
        self.wait_as("CrashLoopBackOff", text)
        self._tell_back_off()
        return unseen_s

    def look(self) -> None:
        """The pod is looked at anew: what was not shown yet is shown."""
        if self._unseen and self._sleeper is not None:
            self._sleeper.cancel()

    def _where(self) -> str:
        metadata = self._pod.pod["metadata"]
        return f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"

    def _tell_back_off(self) -> None:
        text = f"Back-off restarting failed container {self.record.name} in pod {self._where()}"
        self.emit("Warning", "BackOff", text)

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
        given = {**self._node.site.base_env, **self._node.images.carried.get(str(self.spec["image"]), {})}
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
        self.record.state = not_started(text, now(), self.record.container_id)
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
        state = ended(
            code,
            attempt.started_at,
            now(),
            self.record.container_id,
            oom=attempt.out_of_memory,
            text=attempt.last_words(self._pod.pod, self.spec, code, self._node.troubles.message_limit),
        )
        if self._unhealthy and not self.stopped():
            # A real kubelet starts the next one in the same breath and never shows this end as the present state.
            self.record.state, self.record.ready = state, False
        else:
            self._set(state, ready=self.record.role == "init" and code == 0)

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
            self._pod.changed(self)

    async def run_command(self, command: Sequence[str]) -> tuple[int, str]:
        """Run a command inside the container; its exit code, and the beginning of what it wrote."""
        if self._attempt is None or self.launch is None:
            return 126, "container not running"
        return await run_inside(self._node.site.runtime, self._attempt.process, self.launch, command)

    async def kill_unhealthy(self, probe: str) -> None:
        """A probe has failed for good: stop the process, and start another one unless the policy is Never (28)."""
        attempt = self._attempt
        if attempt is None:
            return
        self._kills += 1
        again = self._restart.possible
        self._unhealthy = again and self._kills <= _KILLS_AT_ONCE
        told = "will be restarted" if again else "will be killed"
        self.emit("Normal", "Killing", f"Container {self.record.name} failed {probe} probe, {told}")
        if again and not self._unhealthy:
            self._tell_back_off()
        await self._end(attempt, float(self._pod.pod["spec"].get("terminationGracePeriodSeconds") or 30))
