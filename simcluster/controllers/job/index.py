"""Jobs and their pods by owner, as the newest of what the watch showed and what this controller wrote itself.

Owns the cache; decides nothing. Reading one's own writes is what spares the controller Kubernetes' expectations.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Iterable

from simcluster.api.port import Object
from simcluster.controllers import fields
from simcluster.controllers.job.backoff import EndTimes
from simcluster.controllers.job.views import PodView, view_pod

REMEMBERED_GONE = 4096


class JobIndex:
    """Jobs by (namespace, name), pod views by the uid of their Job, and when pods were first seen to end."""

    def __init__(self) -> None:
        self.ends = EndTimes()
        self._jobs: dict[tuple[str, str], Object] = {}
        self._by_uid: dict[str, tuple[str, str]] = {}
        self._pods: dict[str, dict[str, PodView]] = {}
        self._gone: set[str] = set()
        self._gone_order: deque[str] = deque()

    def job(self, key: tuple[str, str]) -> Object | None:
        """The newest known version of a Job."""
        return self._jobs.get(key)

    def key_of(self, job_uid: str) -> tuple[str, str] | None:
        """Where the Job of that uid lies, None where it does not exist (any more)."""
        return self._by_uid.get(job_uid)

    def put_job(self, job: Object) -> None:
        """Take a version of a Job unless a newer one is known."""
        key, known = fields.key(job), self._jobs.get(fields.key(job))
        if fields.uid(job) in self._gone:
            return
        if known is not None and fields.uid(known) == fields.uid(job) and fields.version(known) > fields.version(job):
            return
        self._jobs[key] = job
        self._by_uid[fields.uid(job)] = key

    def drop_job(self, job: Object) -> None:
        """The Job does not exist any more."""
        self._mark_gone(fields.uid(job))
        self._by_uid.pop(fields.uid(job), None)
        known = self._jobs.get(fields.key(job))
        if known is not None and fields.uid(known) == fields.uid(job):
            del self._jobs[fields.key(job)]

    def pods(self, job_uid: str) -> Iterable[PodView]:
        """The pods of a Job, oldest first."""
        return self._pods.get(job_uid, {}).values()

    def put_pod(self, pod: Object) -> PodView | None:
        """Take a version of a pod; its view, or None where it belongs to no Job or is out of date."""
        owner = fields.controller_of(pod)
        if owner is None or owner.get("kind") != "Job" or fields.uid(pod) in self._gone:
            return None
        siblings = self._pods.setdefault(owner["uid"], {})
        known = siblings.get(fields.uid(pod))
        if known is not None and known.version >= fields.version(pod):
            return None
        view = view_pod(pod, owner["uid"])
        siblings[view.uid] = view
        self.ends.observe(view, asyncio.get_running_loop().time())
        return view

    def drop_pod(self, pod: Object, job_uid: str) -> None:
        """The pod does not exist any more, or is not the Job's any more."""
        self._mark_gone(fields.uid(pod))
        self.ends.forget(fields.uid(pod))
        siblings = self._pods.get(job_uid)
        if siblings is not None:
            siblings.pop(fields.uid(pod), None)
            if not siblings:
                del self._pods[job_uid]

    def _mark_gone(self, uid: str) -> None:
        self._gone.add(uid)
        self._gone_order.append(uid)
        surplus = max(0, len(self._gone_order) - REMEMBERED_GONE)
        for old in list(itertools.islice(self._gone_order, surplus)):
            self._gone_order.popleft()
            self._gone.discard(old)
