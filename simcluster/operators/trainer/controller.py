"""The TrainJob controller: one JobSet a TrainJob, and the TrainJob's status after the JobSet's.

Owns when a TrainJob is looked at and its conditions; how the JobSet comes from the runtime is decided beside it.
"""

from __future__ import annotations

from simcluster.api.port import ApiError, Object
from simcluster.controllers import fields
from simcluster.controllers.requests import condition, merge_conditions
from simcluster.controllers.workqueue import WorkQueue
from simcluster.operators.jobset import words as jobset_words
from simcluster.operators.operator import Setting
from simcluster.operators.trainer import building, words

Key = tuple[str, str]
_ENDS = {"Completed": "Complete", "Failed": "Failed"}
_COUNTS = ("name", "ready", "succeeded", "failed", "active", "suspended")


class TrainJobController:
    """Looks at a TrainJob shortly after it or its JobSet changed, at the objects as the server has them then."""

    def __init__(self, setting: Setting) -> None:
        self._client, self._recorder = setting.client, setting.recorder
        timing, informers = setting.timing, setting.informers
        self._lag_s = timing.s(0.1)
        self._queue: WorkQueue[Key] = WorkQueue(
            self._sync, title="trainjob", retry_first_s=timing.s(0.5), retry_max_s=timing.s(60.0), workers=2
        )
        informers.of(words.RESOURCE).on_change(self._on_trainjob)
        informers.of(jobset_words.RESOURCE).on_change(self._on_jobset)

    def start(self) -> None:
        """Start after the informers."""
        self._queue.start()

    async def stop(self) -> None:
        """Stop all work."""
        await self._queue.stop()

    def _on_trainjob(self, _old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._queue.add_after(fields.key(new), self._lag_s)

    def _on_jobset(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        controller = fields.controller_of(obj) if obj is not None else None
        if obj is not None and controller is not None and controller.get("kind") == words.KIND:
            self._queue.add_after((fields.namespace(obj), controller["name"]), self._lag_s)

    async def _sync(self, key: Key) -> None:
        trainjob = await self._find(words.RESOURCE, key[1], key[0])
        if trainjob is None or fields.deleting(trainjob) or fields.spec(trainjob).get("managedBy") != words.CONTROLLER:
            return
        if any(fields.condition_true(trainjob, kind) for kind in _ENDS.values()):
            return
        resource = words.RUNTIMES.get(fields.spec(trainjob)["runtimeRef"]["kind"])
        if resource is None:
            told = f"unsupported runtime: {fields.spec(trainjob)['runtimeRef']['kind']}"
            await self._write(trainjob, [condition("Failed", "True", "TrainingRuntimeNotSupported", told)], None)
            return
        jobset = await self._find(jobset_words.RESOURCE, key[1], key[0])
        try:
            jobset = await self._ensure(trainjob, jobset, resource)
        except ApiError as error:
            told = f"TrainJob resources reconciliation failed: {error.message}"
            self._recorder.record(words.COMPONENT, trainjob, "Warning", "TrainJobResourcesCreationFailed", told)
            raise
        await self._write(trainjob, _conditions(trainjob, jobset), jobset)

    async def _find(self, resource: str, name: str, namespace: str) -> Object | None:
        try:
            return await self._client.get(resource, name, namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            return None

    async def _ensure(self, trainjob: Object, jobset: Object | None, runtimes: str) -> Object:
        """The TrainJob's JobSet, made, or made anew while nothing of it runs."""
        suspended = fields.spec(trainjob).get("suspend")
        if jobset is not None and not suspended and not fields.spec(jobset).get("suspend"):
            return jobset
        namespace = fields.namespace(trainjob)
        runtime = await self._client.get(runtimes, fields.spec(trainjob)["runtimeRef"]["name"], namespace)
        wanted = building.jobset(trainjob, runtime)
        if jobset is None:
            return await self._client.create(jobset_words.RESOURCE, wanted, namespace)
        return await self._client.update(jobset_words.RESOURCE, _applied(jobset, wanted))

    async def _write(self, trainjob: Object, conditions: list[Object], jobset: Object | None) -> None:
        present = fields.status(trainjob).get("conditions") or []
        # In the order in which they came: what reads the last one reads the present state.
        merged = {each["type"]: each for each in merge_conditions(present, conditions)}
        known = [each["type"] for each in present]
        status = {
            **fields.status(trainjob),
            "conditions": [merged[kind] for kind in [*known, *(kind for kind in merged if kind not in known)]],
        }
        counts = fields.status(jobset).get("replicatedJobsStatus") if jobset is not None else None
        if counts:
            status["jobsStatus"] = [{name: each[name] for name in _COUNTS} for each in counts]
        if not status["conditions"]:
            del status["conditions"]
        if status != fields.status(trainjob):
            await self._client.update(words.RESOURCE, {**trainjob, "status": status}, subresource="status")


def _applied(present: Object, wanted: Object) -> Object:
    """The present JobSet with what is wanted; marks that others gave it stay."""
    meta = dict(fields.meta(present))
    for name in ("labels", "annotations"):
        more = fields.meta(wanted).get(name)
        if more:
            meta[name] = {**(meta.get(name) or {}), **more}
    return {**present, "metadata": meta, "spec": {**fields.spec(present), **fields.spec(wanted)}}


def _conditions(trainjob: Object, jobset: Object) -> list[Object]:
    conditions = []
    if fields.spec(trainjob).get("suspend"):
        conditions.append(condition("Suspended", "True", "Suspended", "TrainJob is suspended"))
    elif fields.condition_true(trainjob, "Suspended"):
        conditions.append(condition("Suspended", "False", "Resumed", "TrainJob is resumed"))
    for theirs, ours in _ENDS.items():
        end = fields.condition(jobset, theirs)
        if end is not None and end["status"] == "True":
            conditions.append({**end, "type": ours})
    return conditions
