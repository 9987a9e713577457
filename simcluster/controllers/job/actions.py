"""What the Job controller does to pods: create in growing batches, delete, release from tracking.

Owns the requests and their events; must not know why a pod is made or deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from simcluster.api.port import ApiError, Client, Object
from simcluster.controllers import fields
from simcluster.controllers.events import EventRecorder
from simcluster.controllers.job import words
from simcluster.controllers.job.index import JobIndex
from simcluster.controllers.job.views import PodView

YIELD_EVERY = 8


@dataclass
class Outcome:
    """Pods that were really created or deleted, and the first refusal."""

    pods: list[PodView] = field(default_factory=list)
    count: int = 0
    error: ApiError | None = None


class PodActions:
    """Acts on the pods of Jobs and feeds the answers back into the index."""

    def __init__(self, client: Client, index: JobIndex, recorder: EventRecorder) -> None:
        self._client = client
        self._index = index
        self._recorder = recorder

    async def create(self, job: Object, pods: Iterable[Object]) -> Outcome:
        """Create pods in batches of 1, 2, 4 …: a refusal ends the batch's round, so a full quota costs few requests."""
        outcome = Outcome()
        left = list(pods)
        size = 1
        while left and outcome.error is None:
            batch, left = left[:size], left[size:]
            # Within a batch Kubernetes creates at once, and the last one usually comes first (01, 01c, 15a).
            for position, pod in enumerate([batch[-1], *batch[:-1]]):
                await self._create_one(job, pod, outcome)
                await yield_each(position)
            size *= 2
        return outcome

    async def _create_one(self, job: Object, pod: Object, outcome: Outcome) -> None:
        try:
            made = await self._client.create("pods", pod, fields.namespace(job))
        except ApiError as error:
            outcome.error = outcome.error or error
            if not _namespace_terminating(error):
                self._recorder.record(
                    words.COMPONENT, job, "Warning", "FailedCreate", f"Error creating: {error.message}"
                )
            return
        self._index.put_pod(made)
        outcome.count += 1
        self._recorder.record(words.COMPONENT, job, "Normal", "SuccessfulCreate", f"Created pod: {fields.name(made)}")

    async def delete(self, job: Object, pods: Sequence[PodView], *, release_first: bool) -> Outcome:
        """Delete pods with their own grace; `release_first` takes them out of the Job's accounting before."""
        outcome = Outcome()
        for position, pod in enumerate(pods):
            await yield_each(position)
            try:
                if release_first and pod.tracked:
                    await self._release_one(pod)
                answer = await self._client.delete("pods", pod.name, pod.namespace, uid=pod.uid)
            except ApiError as error:
                if error.code != 404:
                    outcome.error = outcome.error or error
                    continue
            else:
                if answer.get("kind") == "Pod":
                    self._index.put_pod(answer)
                message = f"Deleted pod: {pod.name}"
                self._recorder.record(words.COMPONENT, job, "Normal", "SuccessfulDelete", message)
            outcome.pods.append(pod)
        return outcome

    async def release(self, pods: Iterable[PodView]) -> tuple[set[str], ApiError | None]:
        """Remove the tracking finalizer; the uids of the pods that are without it now, and the first refusal."""
        free: set[str] = set()
        first: ApiError | None = None
        for position, pod in enumerate(pods):
            await yield_each(position)
            try:
                await self._release_one(pod)
            except ApiError as error:
                if error.code not in {404, 409}:
                    first = first or error
                    continue
            free.add(pod.uid)
        return free, first

    async def _release_one(self, pod: PodView) -> None:
        kept = [each for each in fields.finalizers(pod.raw) if each != words.FINALIZER]
        body = {"metadata": {"uid": pod.uid, "finalizers": kept or None}}
        self._index.put_pod(await self._client.patch("pods", pod.name, body, pod.namespace))


async def yield_each(position: int) -> None:
    """Let others run now and then: the in-process client answers without ever suspending its caller."""
    if position % YIELD_EVERY == YIELD_EVERY - 1:
        await asyncio.sleep(0)


def _namespace_terminating(error: ApiError) -> bool:
    causes = (error.details or {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
