"""The controller of Volcano Jobs: pods of fixed names, restarts by policy, phases, ends.

Owns when a Job is looked at and the order of its writes; what follows from its state is decided in the pure modules
beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from simcluster.api.port import ApiError, Object
from simcluster.controllers import clock, fields
from simcluster.controllers.requests import delete_if_there
from simcluster.controllers.workloads.children import Children, Key, PodHands
from simcluster.controllers.workqueue import WorkQueue
from simcluster.operators.operator import Setting
from simcluster.operators.volcano import pods, spec, words
from simcluster.operators.volcano.happenings import Happenings
from simcluster.operators.volcano.phases import ENDING, count, following
from simcluster.operators.volcano.policy import Happening, action_for

_SOFT = frozenset({"Succeeded", "Failed"})
"""Phases of pods that are left as they are where a Job ends, and at its last retry."""


class JobController:
    """Looks at a Job at once when something befell its pods, and acts on all of that in the order it happened."""

    def __init__(self, setting: Setting) -> None:
        self._client, self._recorder = setting.client, setting.recorder
        self._never_restarts = setting.trouble == "never-restarts"
        timing, informers = setting.timing, setting.informers
        self._lag_s = timing.s(0.1)
        self._queue: WorkQueue[Key] = WorkQueue(
            self._sync, title="volcano-jobs", retry_first_s=timing.s(0.5), retry_max_s=timing.s(60.0), workers=2
        )
        self._children = Children(informers, "pods", "Job", lambda _key: None)
        self._hands = PodHands(setting.client, setting.recorder, words.COMPONENT, self._children)
        self._happenings = Happenings(informers, self._children, self._wake)
        self._groups = informers.of(words.GROUPS)
        informers.of(words.JOBS).on_change(self._on_job)
        self._groups.on_change(self._on_group)

    def start(self) -> None:
        """Start after the informers."""
        self._queue.start()

    async def stop(self) -> None:
        """Stop all work."""
        await self._queue.stop()

    def _wake(self, key: Key, news: bool) -> None:
        self._queue.add_after(key, 0.0 if news else self._lag_s)

    def _on_job(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._queue.add(fields.key(new))
        elif old is not None:
            self._happenings.take(fields.key(old))

    def _on_group(self, old: Object | None, new: Object | None) -> None:
        group = new or old
        ref = fields.controller_of(group) if group is not None else None
        if group is not None and ref is not None and ref.get("apiVersion") == words.API_VERSION:
            self._queue.add((fields.namespace(group), ref["name"]))

    async def _sync(self, key: Key) -> None:
        happened = self._happenings.take(key)
        try:
            await self._settle(key, happened)
        except ApiError:
            self._happenings.put_back(key, happened)
            raise

    async def _settle(self, key: Key, happened: Sequence[Happening]) -> None:
        try:
            job = await self._client.get(words.JOBS, key[1], key[0])
        except ApiError as error:
            if error.code != 404:
                raise
            return
        if fields.deleting(job):
            return
        for what in happened:
            action = action_for(job, what)
            if not (self._never_restarts and action in words.RESTARTS):
                job = await self._act(job, action, what)
        await self._advance(job)

    async def _act(self, job: Object, action: str, what: Happening) -> Object:
        phase = spec.phase_of(job)
        if phase == "Restarting":
            return await self._act_again(job, action, what)
        if phase not in {"Pending", "Running"}:
            return job
        if action in ENDING:
            return await self._kill(job, ENDING[action], keep=_SOFT)
        if action not in words.RESTARTS:
            return job
        status = fields.status(job)
        retries = int(status.get("retryCount") or 0)
        last = retries >= int(fields.spec(job)["maxRetry"]) - 1
        job = {**job, "status": {**status, "retryCount": retries + 1}}
        message = f"Start to execute action {action}"
        self._recorder.record(words.COMPONENT, job, "Normal", "ExecuteAction", message)
        if action == words.RESTART_JOB:
            return await self._kill(job, "Restarting", keep=_SOFT if last else frozenset())
        await self._delete(job, [pod for pod in self._pods(job) if _aimed_at(action, what, pod)])
        return await self._write(job, "Restarting")

    async def _act_again(self, job: Object, action: str, what: Happening) -> Object:
        """While it restarts already: further pods may have to go, and no further retry is counted."""
        if action not in words.RESTARTS:
            return job
        mine = [pod for pod in self._pods(job) if not fields.deleting(pod)]
        if action == words.RESTART_JOB:
            return await self._kill(job, "Restarting", keep=frozenset()) if mine else job
        await self._delete(job, [pod for pod in mine if _aimed_at(action, what, pod)])
        return job

    async def _kill(self, job: Object, phase: str, *, keep: Collection[str]) -> Object:
        """End its pods but those in phases to keep, and what its plugins made; the next ones have the next version."""
        await self._delete(job, [pod for pod in self._pods(job) if fields.phase(pod) not in keep])
        version = int(fields.status(job).get("version") or 0)
        job = await self._write({**job, "status": {**fields.status(job), "version": version + 1}}, phase)
        await self._drop_surroundings(job)
        return job

    async def _drop_surroundings(self, job: Object) -> None:
        for resource, obj in [(words.GROUPS, pods.group_of(job)), *pods.plugin_objects(job)]:
            try:
                await self._client.delete(resource, fields.name(obj), fields.namespace(obj))
            except ApiError as error:
                if error.code != 404:
                    raise

    async def _delete(self, job: Object, gone: Sequence[Object]) -> None:
        for pod in gone:
            if not fields.deleting(pod):
                self._happenings.expect_end_of(pod)
                await self._hands.delete(job, pod)

    async def _advance(self, job: Object) -> None:
        phase = spec.phase_of(job) or "Pending"
        if phase in words.FINISHED:
            await self._finish(job)
            return
        if phase in {"Pending", "Running"}:
            await self._make_surroundings(job)
            group = self._groups.items.get((fields.namespace(job), spec.group_name(job)))
            if group is not None and fields.status(group).get("phase", "Pending") != "Pending":
                await self._make_pods(job, phase)
        counts = count(self._pods(job))
        retries = int(fields.status(job).get("retryCount") or 0)
        after = following(job, phase, retries, counts)
        job = await self._write(job, after)
        if after != phase and after in words.FINISHED:
            await self._finish(job)

    async def _make_surroundings(self, job: Object) -> None:
        for resource, obj in [*pods.plugin_objects(job), (words.GROUPS, pods.group_of(job))]:
            try:
                await self._client.create(resource, obj, fields.namespace(job))
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise

    async def _make_pods(self, job: Object, phase: str) -> None:
        if self._never_restarts and phase == "Running":
            return
        present = {fields.name(pod) for pod in self._pods(job)}
        for member in spec.members(job):
            if member.name in present:
                continue
            try:
                await self._hands.create(job, pods.pod_of(job, member))
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise

    async def _finish(self, job: Object) -> None:
        """What still runs is ended; later, where it asks for that, the Job is removed."""
        await self._delete(job, [pod for pod in self._pods(job) if fields.phase(pod) not in _SOFT])
        await self._drop_surroundings(job)
        ttl_s = fields.spec(job).get("ttlSecondsAfterFinished")
        if ttl_s is None:
            return
        ended = (fields.status(job).get("state") or {}).get("lastTransitionTime")
        left_s = ttl_s - (clock.wall_s() - clock.epoch_s(ended)) if ended else float(ttl_s)
        if left_s > 0:
            self._queue.add_after(fields.key(job), left_s)
        else:
            await delete_if_there(self._client, words.JOBS, job, propagation="Foreground")

    def _pods(self, job: Object) -> list[Object]:
        return self._children.of(job)

    async def _write(self, job: Object, phase: str) -> Object:
        """Write its counts and phase; the Job as it is then."""
        counts = count(self._pods(job))
        before = fields.status(job)
        kept = ("version", "retryCount", "conditions", "state")
        status = {name: before[name] for name in kept if name in before}
        status |= {**counts.fields(), "minAvailable": spec.min_available(job)}
        if phase != spec.phase_of(job):
            now = clock.stamp()
            status["state"] = {"phase": phase, "lastTransitionTime": now}
            status["conditions"] = [*(before.get("conditions") or ()), {"status": phase, "lastTransitionTime": now}]
        job = {**job, "status": status}
        stored = await self._client.get(words.JOBS, fields.name(job), fields.namespace(job))
        if fields.status(stored) == status:
            return stored
        return await self._client.update(words.JOBS, job, subresource="status")


def _aimed_at(action: str, what: Happening, pod: Object) -> bool:
    if action == words.RESTART_TASK:
        return fields.labels(pod).get(words.TASK_KEY) == what.task
    return fields.uid(pod) == what.uid
