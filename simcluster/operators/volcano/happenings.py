"""What befalls the pods of Volcano Jobs, as the events that policies name, each once.

Owns telling these events from changes of pods; must not know what a policy makes of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simcluster.api.port import Object
from simcluster.controllers import fields
from simcluster.controllers.informers import Informers
from simcluster.controllers.workloads.children import Children, Key
from simcluster.operators.volcano import words
from simcluster.operators.volcano.policy import Happening


class Happenings:
    """By Job, in the order they came; `wake` is told the Job's key and whether a policy may have something to say."""

    def __init__(self, informers: Informers, children: Children, wake: Callable[[Key, bool], None]) -> None:
        self._children, self._wake = children, wake
        self._by_job: dict[Key, list[Happening]] = {}
        self._told: set[str] = set()
        """Pods whose end is no news: their Job gave them up, or it was told already."""
        informers.of("pods").on_change(self._on_pod)

    def take(self, key: Key) -> list[Happening]:
        """All that happened to a Job's pods since the last time."""
        return self._by_job.pop(key, [])

    def put_back(self, key: Key, happened: Sequence[Happening]) -> None:
        """They could not be dealt with: they come first the next time."""
        self._by_job[key] = [*happened, *self._by_job.get(key, [])]

    def expect_end_of(self, pod: Object) -> None:
        """The Job itself is about to delete this pod."""
        self._told.add(fields.uid(pod))

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        ref = fields.controller_of(pod) if pod is not None else None
        if pod is None or ref is None or ref.get("apiVersion") != words.API_VERSION:
            return
        key = (fields.namespace(pod), ref["name"])
        event = self._event_of(pod, old, new)
        if event:
            self._by_job.setdefault(key, []).append(_happening(event, pod))
        if new is None:
            self._told.discard(fields.uid(pod))
        self._wake(key, bool(event))

    def _event_of(self, pod: Object, old: Object | None, new: Object | None) -> str:
        if fields.uid(pod) in self._told:
            return ""
        if new is None or fields.deleting(new):
            self._told.add(fields.uid(pod))
            return words.POD_EVICTED
        phase = fields.phase(new)
        if old is None or fields.phase(old) == phase:
            return ""
        if phase == "Failed":
            return words.POD_FAILED
        return words.TASK_COMPLETED if phase == "Succeeded" and self._task_completed(new) else ""

    def _task_completed(self, pod: Object) -> bool:
        task, owner = fields.labels(pod).get(words.TASK_KEY), fields.controller_of(pod) or {}
        mates = self._children.of({"metadata": {"uid": owner.get("uid")}})
        return all(
            fields.phase(mate) == "Succeeded" for mate in mates if fields.labels(mate).get(words.TASK_KEY) == task
        )


def _happening(event: str, pod: Object) -> Happening:
    notes = fields.notes(pod)
    states = [each.get("state") or {} for each in fields.status(pod).get("containerStatuses") or ()]
    codes = [int((state.get("terminated") or {}).get("exitCode") or 0) for state in states]
    return Happening(
        event=event,
        task=notes.get(words.TASK_KEY, ""),
        uid=fields.uid(pod),
        version=int(notes.get(words.VERSION_KEY) or 0),
        exit_code=next(iter(codes), 0) if event == words.POD_FAILED else 0,
    )
