"""Deletes finished Jobs ttlSecondsAfterFinished after their end, their pods first.

Owns that delay (in real seconds, as its user wrote it); must not know how a Job finishes.
"""

from __future__ import annotations

from simcluster.api.port import Client, Object
from simcluster.controllers import fields
from simcluster.controllers.informers import Informers
from simcluster.controllers.job.status import finished
from simcluster.controllers.requests import delete_if_there
from simcluster.controllers.workqueue import WorkQueue
from simcluster.timing import Timing

JOBS = "jobs.batch"


class TtlController:
    """One timer a finished Job that has a TTL."""

    def __init__(self, client: Client, timing: Timing, informers: Informers) -> None:
        self._client = client
        self._jobs = informers.of(JOBS)
        self._timed: set[str] = set()
        self._queue: WorkQueue[tuple[str, str, str]] = WorkQueue(
            self._expire, title="ttl", retry_first_s=timing.s(1.0), retry_max_s=timing.s(60.0)
        )
        self._jobs.on_change(self._on_job)

    def start(self) -> None:
        """Start after the informers."""
        self._queue.start()

    async def stop(self) -> None:
        """Forget all timers."""
        await self._queue.stop()

    def _on_job(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                self._timed.discard(fields.uid(old))
            return
        ttl_s = fields.spec(new).get("ttlSecondsAfterFinished")
        if ttl_s is None or fields.deleting(new) or fields.uid(new) in self._timed or not finished(new):
            return
        self._timed.add(fields.uid(new))
        self._queue.add_after((*fields.key(new), fields.uid(new)), float(ttl_s))

    async def _expire(self, key: tuple[str, str, str]) -> None:
        namespace, name, uid = key
        job = self._jobs.items.get((namespace, name))
        if job is None or fields.uid(job) != uid or fields.deleting(job):
            return
        await delete_if_there(self._client, JOBS, job, propagation="Foreground")
