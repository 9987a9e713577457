"""The JobSet controller: child Jobs, their restart together, the headless Service, status, suspension, end.

Owns when a JobSet is looked at and the order of the writes; what follows from its state is decided in the pure modules
beside it.
"""

from __future__ import annotations

from simcluster.api.port import ApiError, Object
from simcluster.controllers import clock, fields
from simcluster.controllers.requests import delete_if_there
from simcluster.controllers.workqueue import WorkQueue
from simcluster.operators.jobset import jobs, spec, words
from simcluster.operators.jobset.family import Family
from simcluster.operators.jobset.progress import Progress
from simcluster.operators.jobset.resuming import resumed
from simcluster.operators.jobset.verdict import verdict
from simcluster.operators.operator import Setting

Key = tuple[str, str]
JOBS = "jobs.batch"


class JobSetController:
    """Looks at a JobSet shortly after it or one of its Jobs changed, at the objects as the server has them then."""

    def __init__(self, setting: Setting) -> None:
        self._client, self._recorder = setting.client, setting.recorder
        self._never_restarts = setting.trouble == "never-restarts"
        timing, informers = setting.timing, setting.informers
        self._lag_s = timing.s(0.1)
        self._queue: WorkQueue[Key] = WorkQueue(
            self._sync, title="jobset", retry_first_s=timing.s(0.5), retry_max_s=timing.s(60.0), workers=2
        )
        informers.of(words.RESOURCE).on_change(self._on_jobset)
        informers.of(JOBS).on_change(self._on_owned)
        informers.of("services").on_change(self._on_owned)

    def start(self) -> None:
        """Start after the informers."""
        self._queue.start()

    async def stop(self) -> None:
        """Stop all work."""
        await self._queue.stop()

    def _on_jobset(self, _old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._queue.add_after(fields.key(new), self._lag_s)

    def _on_owned(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        controller = fields.controller_of(obj) if obj is not None else None
        if obj is not None and controller is not None and controller.get("kind") == words.KIND:
            self._queue.add_after((fields.namespace(obj), controller["name"]), self._lag_s)

    async def _sync(self, key: Key) -> None:
        namespace, name = key
        try:
            jobset = await self._client.get(words.RESOURCE, name, namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            return
        if fields.deleting(jobset) or fields.spec(jobset).get("managedBy", words.CONTROLLER) != words.CONTROLLER:
            return
        selector = f"{words.NAME}={name}"
        family = Family.of(jobset, (await self._client.list(JOBS, namespace, label_selector=selector)).items)
        progress = Progress.of(jobset, family)
        if progress.finished:
            await self._delete(family.active)
            await self._expire(jobset, progress)
        else:
            await self._delete(family.previous)
            await self._advance(jobset, family, progress)
        await self._write(jobset, progress)

    async def _advance(self, jobset: Object, family: Family, progress: Progress) -> None:
        if family.failed:
            decided = verdict(jobset, family, never_restarts=self._never_restarts)
            if decided.fails:
                progress.end(words.FAILED, decided.reason, decided.message)
            else:
                progress.restart(decided)
            return
        if family.succeeded and family.reached(jobset):
            progress.end(words.COMPLETED, "AllJobsCompleted", "jobset completed successfully")
            return
        if spec.dns_hostnames(jobset):
            await self._ensure_service(jobset)
        await self._create(jobset, family, progress)
        await self._suspend_or_resume(jobset, family, progress)

    async def _ensure_service(self, jobset: Object) -> None:
        try:
            await self._client.get("services", spec.subdomain(jobset), fields.namespace(jobset))
        except ApiError as error:
            if error.code != 404:
                raise
            await self._client.create("services", jobs.service(jobset), fields.namespace(jobset))

    async def _create(self, jobset: Object, family: Family, progress: Progress) -> None:
        strategy = (fields.spec(jobset).get("failurePolicy") or {}).get("restartStrategy")
        if strategy == "BlockingRecreate" and family.previous:
            return
        one_by_one = spec.in_order(jobset) and not spec.suspended(jobset)
        for replicated in spec.replicated_jobs(jobset):
            if not family.may_start(jobset, replicated) or (one_by_one and family.started(replicated)):
                continue
            for index in range(spec.replicas(replicated)):
                if spec.job_name(jobset, replicated, index) not in family.names:
                    await self._create_one(jobset, jobs.child(jobset, replicated, index))
            if one_by_one:
                progress.starting()
                return
        if one_by_one:
            progress.started()

    async def _create_one(self, jobset: Object, job: Object) -> None:
        try:
            await self._client.create(JOBS, job, fields.namespace(jobset))
        except ApiError as error:
            told = f'job "{fields.name(job)}" creation failed with error: {error.message}'
            self._recorder.record(words.COMPONENT, jobset, "Warning", "JobCreationFailed", told)
            raise

    async def _suspend_or_resume(self, jobset: Object, family: Family, progress: Progress) -> None:
        active = [job for job in family.active if not fields.deleting(job)]
        if spec.suspended(jobset):
            for job in active:
                if not spec.suspended(job):
                    await self._client.update(JOBS, {**job, "spec": {**fields.spec(job), "suspend": True}})
            progress.suspended()
            return
        for replicated in spec.replicated_jobs(jobset):
            if not family.may_start(jobset, replicated):
                continue
            for job in active:
                if fields.labels(job).get(words.REPLICATED_JOB) == replicated["name"] and spec.suspended(job):
                    await self._resume(job, replicated["template"]["spec"]["template"])
            if spec.in_order(jobset) and not family.started(replicated):
                return
        progress.resumed()

    async def _resume(self, job: Object, template: Object) -> None:
        if fields.status(job).get("startTime"):
            # A template can be changed only where a Job never started, or where nothing says that it did.
            status = {name: value for name, value in fields.status(job).items() if name != "startTime"}
            job = await self._client.update(JOBS, {**job, "status": status}, subresource="status")
        await self._client.update(JOBS, resumed(job, template))

    async def _delete(self, gone: list[Object]) -> None:
        for job in gone:
            if not fields.deleting(job):
                await delete_if_there(self._client, JOBS, job, propagation="Foreground")

    async def _expire(self, jobset: Object, progress: Progress) -> None:
        ttl_s = fields.spec(jobset).get("ttlSecondsAfterFinished")
        if ttl_s is None:
            return
        # What a user asks for in seconds stays seconds.
        left_s = clock.epoch_s(progress.finished) + float(ttl_s) - clock.wall_s()
        if left_s > 0:
            self._queue.add_after(fields.key(jobset), left_s)
        else:
            await delete_if_there(self._client, words.RESOURCE, jobset, propagation="Foreground")

    async def _write(self, jobset: Object, progress: Progress) -> None:
        if progress.status != fields.status(jobset):
            await self._client.update(words.RESOURCE, {**jobset, "status": progress.status}, subresource="status")
        for severity, reason, message in progress.told:
            self._recorder.record(words.COMPONENT, jobset, severity, reason, message)
