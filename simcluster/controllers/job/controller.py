"""The Job controller: keeps every Job's pods and status as its spec asks.

Owns when a Job is looked at and the order of its writes; what follows from a Job's state is decided in the pure
modules beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from simcluster.api.port import ApiError, Client, Object
from simcluster.controllers import clock, fields
from simcluster.controllers.events import EventRecorder
from simcluster.controllers.informers import Informers
from simcluster.controllers.job import status as statuses
from simcluster.controllers.job import words
from simcluster.controllers.job.actions import PodActions
from simcluster.controllers.job.assess import Assessment, Target, assess
from simcluster.controllers.job.backoff import BackoffRecord
from simcluster.controllers.job.index import JobIndex
from simcluster.controllers.job.plan import plan
from simcluster.controllers.job.template import PodTemplate
from simcluster.controllers.job.views import PodView, view_spec
from simcluster.controllers.workqueue import WorkQueue
from simcluster.timing import Timing

Key = tuple[str, str]
WORKERS = 5
JOBS = "jobs.batch"


class JobController:
    """Reacts to Jobs at once and to their pods in batches of about a second (scaled), as Kubernetes does."""

    def __init__(self, client: Client, timing: Timing, informers: Informers, recorder: EventRecorder) -> None:
        self._client = client
        self._timing = timing
        self._recorder = recorder
        self._index = JobIndex()
        self._actions = PodActions(client, self._index, recorder)
        self._records: dict[str, BackoffRecord] = {}
        self._started: dict[str, float] = {}
        first_s, max_s = timing.s(1.0), timing.s(60.0)
        self._queue: WorkQueue[Key] = WorkQueue(
            self._sync, title="job", retry_first_s=first_s, retry_max_s=max_s, workers=WORKERS
        )
        self._orphans: WorkQueue[Key] = WorkQueue(
            self._free_orphan, title="job-orphans", retry_first_s=first_s, retry_max_s=max_s
        )
        informers.of(JOBS).on_change(self._on_job)
        informers.of("pods").on_change(self._on_pod)
        self._pods = informers.of("pods").items

    def start(self) -> None:
        """Start after the informers."""
        self._queue.start()
        self._orphans.start()

    async def stop(self) -> None:
        """Stop all work."""
        await self._queue.stop()
        await self._orphans.stop()

    def _on_job(self, old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._index.put_job(new)
            before = fields.meta(old).get("generation") if old is not None else None
            changed = before != fields.meta(new).get("generation") or fields.deleting(new)
            if changed:
                self._queue.add(fields.key(new))
            else:
                self._queue.add_after(fields.key(new), self._timing.job_sync_s)
        elif old is not None:
            uid = fields.uid(old)
            self._index.drop_job(old)
            self._records.pop(uid, None)
            self._started.pop(uid, None)
            for pod in self._index.pods(uid):
                if pod.tracked:
                    self._orphans.add((pod.namespace, pod.name))

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        if pod is None:
            return
        owner = fields.controller_of(pod)
        former = fields.controller_of(old) if old is not None else None
        if old is not None and former is not None and (new is None or owner != former):
            self._index.drop_pod(old, former["uid"])
            self._wake(former["uid"])
        if new is None:
            return
        self._index.put_pod(new)
        if owner is not None and owner.get("kind") == "Job" and self._wake(owner["uid"]):
            return
        if words.FINALIZER in fields.finalizers(new):
            self._orphans.add(fields.key(new))

    def _wake(self, job_uid: str) -> bool:
        key = self._index.key_of(job_uid)
        if key is not None:
            self._queue.add_after(key, self._timing.job_sync_s)
        return key is not None

    async def _free_orphan(self, key: Key) -> None:
        pod = self._pods.get(key)
        if pod is None or words.FINALIZER not in fields.finalizers(pod):
            return
        owner = fields.controller_of(pod)
        job_key = self._index.key_of(owner["uid"]) if owner is not None else None
        job = self._index.job(job_key) if job_key is not None else None
        if job is not None and not statuses.finished(job):
            return
        kept = [each for each in fields.finalizers(pod) if each != words.FINALIZER]
        body = {"metadata": {"uid": fields.uid(pod), "finalizers": kept or None}}
        try:
            await self._client.patch("pods", key[1], body, key[0])
        except ApiError as error:
            if error.code != 404:
                raise

    async def _sync(self, key: Key) -> None:
        job = self._index.job(key)
        if job is None:
            return
        uid = fields.uid(job)
        if statuses.finished(job):
            for pod in self._index.pods(uid):
                if pod.tracked:
                    self._orphans.add((pod.namespace, pod.name))
            return
        found = assess(
            job,
            view_spec(job),
            tuple(self._index.pods(uid)),
            self._records.get(uid, BackoffRecord()),
            age_s=self._age_s(job),
            ended_at=self._index.ends.of,
        )
        status = self._with_start(found)
        self._wake_at_deadline(found)
        error = await self._act(key, found)
        status = self._with_suspension(found, status)
        error = await self._write(key, found, status) or error
        if error is not None:
            raise error

    async def _act(self, key: Key, found: Assessment) -> ApiError | None:
        """Delete or create pods as the Job's state asks; changes the counters of `found`."""
        job = found.job
        if found.target is not None:
            return await self._delete(found, found.active_pods, release_first=False)
        error: ApiError | None = None
        if not fields.deleting(job):
            error = await self._follow_plan(key, found)
        if found.reached and not (found.spec.suspended and found.spec.completions is None):
            reason = words.FAILED_INDEXES if found.failed_indexes else words.COMPLETED
            found.target = Target("FailureTarget" if found.failed_indexes else "SuccessCriteriaMet", *reason)
        return error

    async def _follow_plan(self, key: Key, found: Assessment) -> ApiError | None:
        now = asyncio.get_running_loop().time()
        step = plan(found, self._timing.job_backoff_s, now, self._index.ends.of)
        if step.delete:
            # Pods that the Job itself gives up are no failures, so they leave its accounting first (09).
            return await self._delete(found, step.delete, release_first=True)
        if step.wait_s > 0:
            self._queue.add_after(key, step.wait_s)
            # Kubernetes reports no active pod while it waits, whatever still runs (03c, 03d).
            found.active = 0
            return None
        if not step.create:
            return None
        template = PodTemplate(found.job, indexed=found.spec.indexed)
        pods = [template.pod(index, self._failure_notes(found, index)) for index in step.create]
        outcome = await self._actions.create(found.job, pods)
        found.active += outcome.count
        return outcome.error

    def _failure_notes(self, found: Assessment, index: int | None) -> dict[str, str] | None:
        if found.spec.per_index is None or index is None:
            return None
        before = found.held.get(index)
        if before is None:
            return {words.FAILURE_COUNT_KEY: "0"}
        counts = found.verdict(before).counts
        notes = {words.FAILURE_COUNT_KEY: str(before.failures + counts)}
        if before.ignored_failures or not counts:
            notes[words.IGNORED_COUNT_KEY] = str(before.ignored_failures + (not counts))
        return notes

    async def _delete(self, found: Assessment, pods: Sequence[PodView], *, release_first: bool) -> ApiError | None:
        outcome = await self._actions.delete(found.job, pods, release_first=release_first)
        found.active -= len(outcome.pods)
        found.terminating += sum(bool(fields.node_of(pod.raw)) for pod in outcome.pods)
        found.ready -= sum(pod.ready for pod in outcome.pods)
        return outcome.error

    def _with_start(self, found: Assessment) -> Object:
        status = fields.status(found.job)
        if found.spec.suspended or status.get("startTime"):
            return status
        self._started[fields.uid(found.job)] = asyncio.get_running_loop().time()
        return {**status, "startTime": clock.stamp()}

    def _wake_at_deadline(self, found: Assessment) -> None:
        age_s = self._age_s(found.job)
        if found.target is None and found.spec.deadline_s is not None and not found.spec.suspended:
            # What a user asks for in seconds stays seconds: the programs in the pods are not faster either.
            self._queue.add_after(fields.key(found.job), found.spec.deadline_s - (age_s or 0.0))

    def _with_suspension(self, found: Assessment, status: Object) -> Object:
        job = found.job
        if found.target is not None or fields.deleting(job):
            return status
        suspended = fields.condition_true(job, "Suspended")
        if found.spec.suspended and not suspended:
            self._recorder.record(words.COMPONENT, job, "Normal", "Suspended", "Job suspended")
            self._started.pop(fields.uid(job), None)
            status = {name: value for name, value in status.items() if name != "startTime"}
            return statuses.with_condition(
                status, statuses.condition("Suspended", "True", "JobSuspended", "Job suspended")
            )
        if suspended and not found.spec.suspended:
            self._recorder.record(words.COMPONENT, job, "Normal", "Resumed", "Job resumed")
            return statuses.with_condition(
                status, statuses.condition("Suspended", "False", "JobResumed", "Job resumed")
            )
        return status

    async def _write(self, key: Key, found: Assessment, status: Object) -> ApiError | None:
        """Two writes: what is decided and uncounted; then, with the finalizers gone, the counters and the end."""
        if found.ready > found.active:
            # The API refuses such a status, so nothing is counted until the wait for a retry is over (05a, 05c).
            return ApiError(422, "Invalid", "status.ready: cannot set more ready pods than active")
        tracked = statuses.track(found, status)
        status = await self._flush(found, tracked.status)
        self._records[fields.uid(found.job)] = found.record
        free, error = await self._actions.release(tracked.release)
        held = {pod.uid for pod in found.pods if pod.tracked and pod.uid not in free}
        status = statuses.settle(status, held)
        if tracked.more:
            self._queue.add(key)
        else:
            done = statuses.finish(status, found.target)
            if done is not None and found.target is not None:
                status = done
                self._tell_end(found.job, found.target)
        await self._flush(found, status)
        return error

    async def _flush(self, found: Assessment, status: Object) -> Object:
        if status != fields.status(found.job):
            changed = {**found.job, "status": status}
            found.job = await self._client.update(JOBS, changed, subresource="status")
            self._index.put_job(found.job)
        return status

    def _tell_end(self, job: Object, target: Target) -> None:
        if target.kind == "SuccessCriteriaMet":
            self._recorder.record(words.COMPONENT, job, "Normal", "Completed", "Job completed")
        else:
            self._recorder.record(words.COMPONENT, job, "Warning", target.reason, target.message)

    def _age_s(self, job: Object) -> float | None:
        began = self._started.get(fields.uid(job))
        if began is not None:
            return asyncio.get_running_loop().time() - began
        stamp = fields.status(job).get("startTime")
        return clock.wall_s() - clock.epoch_s(stamp) if stamp else None
