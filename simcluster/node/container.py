"""One container's life: image, start, exit, restart or end, as recorded on a real kubelet (golden 11, 12, 13).

Owns the container's states and its process. It must not know the pod's phase, nor when the pod is deleted.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from simcluster.api.port import Object
from simcluster.node import images, memory, termination
from simcluster.node.clock import now
from simcluster.node.context import NodeContext
from simcluster.node.environment import command_line, environment
from simcluster.node.logs import LogWriter, last_output
from simcluster.node.quantity import parse
from simcluster.node.runtime import Launch, LaunchError, Process
from simcluster.node.sources import PodFacts, SourceMissingError
from simcluster.node.status import EPOCH, ContainerRecord, waiting

_LONGEST_BACKOFF_S = 300.0
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


@dataclass
class _Attempt:
    process: Process
    log: LogWriter
    message: Path
    started_at: str
    out_of_memory: bool = False


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
        self._policy = restart_policy
        self._attempt: _Attempt | None = None
        self._sleeper: asyncio.Task[None] | None = None
        section = "containers" if record.role == "app" else "initContainers"
        self._path = f"spec.{section}{{{record.name}}}"
        self._halt = False

    def _stopped(self) -> bool:
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
        delay_s = 0.0
        try:
            while not self._stopped():
                if delay_s:
                    await self._sleep(delay_s)
                if self._stopped() or not await self._ready_to_start():
                    break
                failure = await self._start()
                if not failure:
                    await self._wait()
                if self._stopped() or not self._restarts():
                    break
                self._put_off(failure, delay_s)
                delay_s = self._next_delay(delay_s)
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
        attempt = self._attempt
        if attempt is None:
            return
        self._emit("Normal", "Killing", f"Stopping container {self.record.name}")
        if grace_s > 0:
            await self._node.site.runtime.kill(attempt.process, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(attempt.process.exited), grace_s)
        await self._node.site.runtime.kill(attempt.process, signal.SIGKILL)

    def _emit(self, kind: str, reason: str, message: str) -> None:
        self._node.events.emit(self._pod.pod, kind, reason, message, self._path)

    def _set(self, state: dict[str, Any], *, ready: bool = False) -> None:
        self.record.state = state
        self.record.ready = ready
        self._pod.changed()

    async def _sleep(self, delay_s: float) -> None:
        self._sleeper = asyncio.create_task(asyncio.sleep(delay_s))
        with contextlib.suppress(asyncio.CancelledError):
            await self._sleeper
        self._sleeper = None

    # ---- restarts

    def _restarts(self) -> bool:
        if self._pod.stopping:
            return False
        if self.record.role == "sidecar" or self._policy == "Always":
            return True
        return self._policy == "OnFailure" and self.record.exit_code != 0

    def _next_delay(self, delay_s: float) -> float:
        timing = self._node.site.timing
        if delay_s == 0.0:
            return timing.s(1.0)
        return timing.s(10.0) if delay_s < timing.s(10.0) else min(delay_s * 2, timing.s(_LONGEST_BACKOFF_S))

    def _put_off(self, failure: str, delay_s: float) -> None:
        """Show why the container waits; the first restart comes at once, and is not called a back-off yet."""
        self.record.last_state = self.record.state
        metadata = self._pod.pod["metadata"]
        if delay_s == 0.0:
            if failure:
                self._set(waiting("RunContainerError", failure))
            return
        real_s = round(self._next_delay(delay_s) / self._node.site.timing.scale)
        where = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
        self._set(
            waiting(
                "CrashLoopBackOff", f"back-off {real_s}s restarting failed container={self.record.name} pod={where}"
            )
        )
        self._emit("Warning", "BackOff", f"Back-off restarting failed container {self.record.name} in pod {where}")

    # ---- image and configuration

    async def _ready_to_start(self) -> bool:
        if not await self._have_image():
            return False
        while not self._stopped():
            try:
                self.env = await environment(
                    self._node.site.client, self._pod.facts(), self.spec, self._given_environment()
                )
            except SourceMissingError as missing:
                self._set(waiting("CreateContainerConfigError", str(missing)))
                self._emit("Warning", "Failed", f"Error: {missing}")
                await self._sleep(self._node.site.timing.s(10.0))
                continue
            return True
        return False

    def _given_environment(self) -> dict[str, str]:
        given = dict(self._node.site.base_env)
        given["HOSTNAME"] = self._pod.pod["spec"].get("hostname") or self._pod.pod["metadata"]["name"]
        return given

    async def _have_image(self) -> bool:
        name = str(self.spec["image"])
        policy = self.spec.get("imagePullPolicy") or images.default_policy(name)
        timing = self._node.site.timing
        backoff_s = timing.image_backoff_s
        while not self._stopped():
            try:
                image = images.parse_image(name)
            except images.InvalidImageError as invalid:
                await self._image_trouble("InvalidImageName", str(invalid), "InspectFailed")
                continue
            if self._node.images.has(image) and policy != "Always":
                self._emit(
                    "Normal",
                    "Pulled",
                    f'Container image "{name}" already present on machine and can be accessed by the pod',
                )
                return True
            if policy == "Never":
                text = f'Container image "{name}" is not present with pull policy of Never'
                await self._image_trouble("ErrImageNeverPull", text, "ErrImageNeverPull")
                continue
            error = self._pull(name, image)
            if not error:
                return True
            self._set(waiting("ErrImagePull", error))
            await self._sleep(backoff_s / 2)
            if self._stopped():
                break
            self._emit("Normal", "BackOff", f'Back-off pulling image "{name}"')
            self._emit("Warning", "Failed", "Error: ImagePullBackOff")
            self._set(waiting("ImagePullBackOff", f'Back-off pulling image "{name}": ErrImagePull: {error}'))
            await self._sleep(backoff_s / 2)
            backoff_s = min(backoff_s * 2, timing.s(_LONGEST_BACKOFF_S))
        return False

    async def _image_trouble(self, reason: str, text: str, event: str) -> None:
        self._emit("Warning", event, text)
        self._emit("Warning", "Failed", f"Error: {reason}")
        self._set(waiting(reason, text))
        await self._sleep(self._node.site.timing.s(12.0))

    def _pull(self, name: str, image: images.Image) -> str:
        self._emit("Normal", "Pulling", f'Pulling image "{name}"')
        error = self._node.images.pull(image)
        if error:
            self._emit("Warning", "Failed", f'Failed to pull image "{name}": {error}')
            self._emit("Warning", "Failed", "Error: ErrImagePull")
        else:
            self._emit(
                "Normal",
                "Pulled",
                f'Successfully pulled image "{name}" in 12ms (12ms including waiting). Image size: 169134827 bytes.',
            )
        return error

    # ---- process

    async def _start(self) -> str:
        """Start the process; the failure's text, or "" where it runs."""
        if self.record.last_state or self.record.exit_code is not None:
            self.record.restart_count += 1
        self.record.container_id = f"containerd://{uuid.uuid4().hex}{uuid.uuid4().hex}"
        self.record.image_id = f"sha256:{uuid.uuid5(uuid.NAMESPACE_URL, str(self.spec['image'])).hex * 2}"
        message = self._pod.directory / f"{self.record.name}_{self.record.restart_count}.message"
        message.write_bytes(b"")
        log = LogWriter(self._log_file(self.record.restart_count))
        descriptors = [os.open(os.devnull, os.O_RDONLY), log.pipe("stdout"), log.pipe("stderr")]
        try:
            self.launch = await self._pod.launch_for(self.spec, self.env, command_line(self.spec, self.env), message)
            self._emit("Normal", "Created", "Container created")
            process = await self._node.site.runtime.launch(self.launch, descriptors)
        except LaunchError as failure:
            log.finish()
            return self._failed_to_start(f"{_RUNTIME_WORDS}{failure}: unknown")
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._attempt = _Attempt(process, log, message, now())
        self._emit("Normal", "Started", "Container started")
        self.first_start.set()
        self._set({"running": {"startedAt": self._attempt.started_at}}, ready=True)
        for listener in self._node.site.on_running:
            listener(self._node.name, self._pod.pod, self.record.name)
        return ""

    def _failed_to_start(self, text: str) -> str:
        self._emit("Warning", "Failed", f"Error: {text}")
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
        watcher = asyncio.create_task(self._watch_memory(attempt)) if self._memory_limit() else None
        code = await asyncio.shield(attempt.process.exited)
        if watcher is not None:
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
        text = self._message(attempt, code)
        if text:
            state["message"] = text
        self._set({"terminated": state}, ready=self.record.role == "init" and code == 0)

    def _message(self, attempt: _Attempt, code: int) -> str:
        spec = self._pod.pod["spec"]
        count = len(spec.get("containers", [])) + len(spec.get("initContainers") or [])
        limit = termination.limit_for(count)
        if self._node.troubles.message_limit is not None:
            limit = min(limit, self._node.troubles.message_limit)
        policy = self.spec.get("terminationMessagePolicy", "File")
        output = last_output(attempt.log.path, termination.FALLBACK_BYTES) if policy != "File" and code else b""
        return termination.message(attempt.message, output, policy=policy, failed=code != 0, limit=limit)

    def _memory_limit(self) -> int:
        limit = ((self.spec.get("resources") or {}).get("limits") or {}).get("memory")
        return int(parse(limit)) if limit else 0

    async def _watch_memory(self, attempt: _Attempt) -> None:
        limit = self._memory_limit()
        while not attempt.process.exited.done():
            if memory.resident_bytes(attempt.process.pid) > limit:
                attempt.out_of_memory = True
                await self._node.site.runtime.kill(attempt.process, signal.SIGKILL)
                return
            await asyncio.sleep(memory.PERIOD_S)
