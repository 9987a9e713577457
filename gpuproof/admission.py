"""The queue that lets a training in: which one, how long it may take, and what it said while the training waited.

Waiting has a clock of its own. It must not know a pod's states, a limit or a verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuproof.cluster import raw
from gpuproof.cluster.port import LOCAL_QUEUES, POD_GROUPS, WORKLOADS, Resource, WatchEvent
from gpuproof.failure import JobFailure, Reason

LOCAL_QUEUE = "gpuproof"
"""The LocalQueue that is made in a run's namespace for a ClusterQueue."""
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


@dataclass(frozen=True)
class Seen:
    """What a queue's object says of one training; `taken_back` holds words only where it was let in and is no more."""

    admitted: bool
    words: str
    taken_back: str = ""


@dataclass(frozen=True)
class QueueKind:
    """How one project tells whether it lets somebody in."""

    project: str
    calls_it: str
    """The project's word for such a queue."""
    watched: Resource
    """The object by which it tells; it belongs to the owner of the pods."""
    read: Callable[[raw.Raw], Seen]
    needs: tuple[Resource, ...]
    """What the cluster has to serve."""
    pod_taken: Callable[[raw.Raw], str] = lambda _: ""
    """Why the project's own scheduler takes this pod away for somebody else; "" where it does not."""


@dataclass(frozen=True)
class Queue:
    """The queue that the profile names, and how long it may take to let a training in."""

    name: str
    within_s: float
    kind: QueueKind


class Admission:
    """One training's time in the queue. Without a queue it never waits."""

    def __init__(self, queue: Queue | None, training: str, clock: Callable[[], float]) -> None:
        self._queue, self._training, self._clock = queue, training, clock
        self._since: float | None = None
        self._waited_s = 0.0
        self._words = ""
        self._taken_back = ""

    def begin(self) -> None:
        """The training has been handed to its queue."""
        if self._queue is not None:
            self._since = self._clock()

    def see(self, event: WatchEvent) -> None:
        """A change of an object that the queue tells by, of whichever training."""
        if self._queue is None or event.type == "DELETED" or not self._is_mine(event.object):
            return
        seen = self._queue.kind.read(event.object)
        self._words, self._taken_back = seen.words, self._taken_back or seen.taken_back
        if seen.admitted and self._since is not None:
            self._waited_s, self._since = self.waited_s, None
        elif not seen.admitted and self._since is None:
            self._since = self._clock()

    def see_pod(self, pod: raw.Raw) -> None:
        """A change of one of the training's own pods."""
        if self._queue is not None:
            self._taken_back = self._taken_back or self._queue.kind.pod_taken(pod)

    @property
    def waited_s(self) -> float:
        """How long the training has waited in all, up to now; no other clock may run meanwhile."""
        return self._waited_s + (self._clock() - self._since if self._since is not None else 0.0)

    @property
    def waits(self) -> str:
        """What the queue says to a training that waits; "" where it does not wait."""
        return self._said() if self._since is not None else ""

    def failure(self) -> JobFailure | None:
        """Why nothing can be judged: never let in, or taken out again, which was no kill of the harness's."""
        queue = self._queue
        if queue is None:
            return None
        place = f"the {queue.kind.project} {queue.kind.calls_it} {queue.name}"
        if self._taken_back:
            said = f"{place} took {self._training} out again: {self._taken_back}; nothing was judged, run again"
            return JobFailure(Reason.NOT_ADMITTED, said)
        if self._since is None or self._clock() - self._since < queue.within_s:
            return None
        said = (
            f"{place} did not admit {self._training} within {queue.within_s:g} s: {self._said()}; free what it needs "
            "there, or raise [workload.checkpoint_killed_pod] admitted_within_s"
        )
        return JobFailure(Reason.NOT_ADMITTED, said)

    def _said(self) -> str:
        return self._words or "it has said nothing"

    def _is_mine(self, obj: raw.Raw) -> bool:
        owners = raw.objects(obj, "metadata", "ownerReferences")
        return any(raw.text(owner, "name") == self._training for owner in owners)


def _read_workload(workload: raw.Raw) -> Seen:
    """Source: Kueue's API, kueue.x-k8s.io/v1beta1, conditions of a Workload."""
    admitted = raw.text(raw.condition(workload, "Admitted"), "status") == "True"
    return Seen(
        admitted, _newest_words(workload, "Admitted", "QuotaReserved"), raw.said_where_true(workload, "Evicted")
    )


def _newest_words(obj: raw.Raw, *kinds: str) -> str:
    """Of these conditions the one that has something to say, the last named first."""
    found = [raw.condition(obj, kind) for kind in kinds]
    said = [raw.said(one) for one in found if raw.text(one, "message")]
    return said[-1] if said else ""


def _read_pod_group(group: raw.Raw) -> Seen:
    """Source: Volcano's API, scheduling.volcano.sh/v1beta1, phases and conditions of a PodGroup."""
    phase = raw.text(group, "status", "phase")
    conditions = [one for one in raw.objects(group, "status", "conditions") if raw.text(one, "message")]
    words = raw.said(conditions[-1]) if conditions else f"its PodGroup is {phase or 'without a phase'}"
    return Seen(phase in ("Inqueue", "Running", "Completed"), words)


def _pod_taken(pod: raw.Raw) -> str:
    """Source: Volcano's scheduler, which says so in the pod's condition before it deletes the pod."""
    ready = raw.condition(pod, "Ready")
    return raw.text(ready, "message") if raw.text(ready, "reason") == "Evict" else ""


KUEUE = QueueKind("Kueue", "ClusterQueue", WORKLOADS, _read_workload, (LOCAL_QUEUES, WORKLOADS))
VOLCANO = QueueKind("Volcano", "Queue", POD_GROUPS, _read_pod_group, (POD_GROUPS,), _pod_taken)
