"""One training as it runs: owner and pods by watches, the lines of rank 0 by following the log of the pod that has it.

Owns what was seen and when. It must not know why it is watched, a limit or a verdict.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuproof.admission import Admission
from gpuproof.cluster import raw
from gpuproof.cluster.port import PODS, Cluster, ClusterError, Watch, WatchEvent
from gpuproof.continuation import Line
from gpuproof.failure import JobFailure, Reason
from gpuproof.job_creation import create_running
from gpuproof.line_stream import LineStream, LineStreamError
from gpuproof.manifests import JOB_LABEL, MEASURE, Renderer, TrainingJob
from gpuproof.pod_outcome import OnTheWay, classify

_OWNER, _QUEUE = "owner", "queue"
_JOIN_S = 5.0
_LOOK_S = 0.5
_LOG_LINES, _LOG_BYTES = 60, 16 << 10
_LOG_LAG_S = 5.0
"""A line may be read so long after it was written: what it tells is no older."""


@dataclass
class RankPod:
    """One pod of one index, and when it was first seen to be made, placed, running and gone (the harness's clock)."""

    name: str
    """The same for all pods of an index, with some owners."""
    index: int
    created_s: float
    uid: str = ""
    node: str = ""
    scheduled_s: float | None = None
    running_s: float | None = None
    gone_s: float | None = None
    succeeded: bool = False
    last: raw.Raw = field(default_factory=dict)

    @property
    def runs(self) -> bool:
        """Whether its container runs now."""
        return self.running_s is not None and self.gone_s is None


class TrainingWatch:
    """Creates owner and pods, and gathers `lines` and `pods` whenever `take` is called; always `close` it."""

    def __init__(
        self, cluster: Cluster, renderer: Renderer, job: TrainingJob, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.job, self.cluster, self.clock = job, cluster, clock
        self._renderer, self.namespace = renderer, renderer.namespace
        self.lines: list[Line] = []
        self.pods: dict[str, RankPod] = {}
        """By uid, as a new pod may have the name of the one that it replaces."""
        self.ended = False
        """Whether the trainer has said that nothing follows."""
        self.broken: JobFailure | None = None
        """Why nothing more can be learned of this training; None while it can."""
        self.given_up = ""
        """Why the owner makes no more pods, in its controller's words; "" while it does."""
        self.copies = 1
        """The most pods of one rank that were at work at once."""
        self._held_up, self._owner_gone = "", False
        self.admission = Admission(job.queue, job.name, clock)
        """Whether its queue has let it in."""
        self._joined: Line | None = None
        self._inbox: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._watches: list[Watch] = []
        self._streams: dict[str, LineStream] = {}
        self._silent: set[str] = set()

    def start(self) -> None:
        """Create what is needed and begin to watch; raises `ClusterError`."""
        owner = self.job.owner
        for (_, resource), made in zip(owner.makes, self._renderer.training(self.job), strict=True):
            create_running(self.cluster, resource, made, self.namespace)
        pods = self.cluster.watch(PODS, namespace=self.namespace, label_selector=f"{JOB_LABEL}={self.job.name}")
        owners = self.cluster.watch(
            owner.owns, namespace=self.namespace, field_selector=f"metadata.name={self.job.name}"
        )
        self.admission.begin()
        self._follow(PODS.plural, pods)
        self._follow(_OWNER, owners)
        if self.job.queue is not None:
            self._follow(_QUEUE, self.cluster.watch(self.job.queue.kind.watched, namespace=self.namespace))

    def close(self) -> None:
        """Delete the owner and what went with it, see its pods go, stop watching; raises nothing of the cluster's."""
        owner = self.job.owner
        for _, resource in reversed(owner.makes):
            # Who makes all pods anew may be about to: it has to be there until the last of them is gone.
            last = owner.replaces_all and resource == owner.owns
            try:
                self.cluster.delete(resource, self.job.name, namespace=self.namespace, foreground=last)
            except ClusterError:
                continue  # the run's namespace goes at its end, and this with it
        # Their GPUs are asked for next: a pod that still holds them would look like somebody else's.
        until = self.clock() + self.job.grace_s * (2 if owner.replaces_all else 1)
        while self.broken is None and self.clock() < until and self._leaving():
            self.take(_LOOK_S)
        for watch in self._watches:
            watch.close()
        for stream in self._streams.values():
            stream.close()
        for thread in self._threads:
            thread.join(_JOIN_S)

    def _leaving(self) -> bool:
        """Whether something of it may still hold a node, or come to."""
        owner_stays = self.job.owner.replaces_all and bool(self._watches) and not self._owner_gone
        return owner_stays or any(pod.gone_s is None for pod in self.pods.values())

    def speaking(self, pods: Iterable[RankPod]) -> bool:
        """Whether the log of one of these pods is still being read."""
        return bool({pod.uid for pod in pods} & (self._streams.keys() - self._silent))

    def take(self, timeout_s: float) -> None:
        """Wait at most so long for news and take in all there are."""
        try:
            item = self._inbox.get(timeout=max(0.0, timeout_s))
            while True:
                self._on(*item)
                item = self._inbox.get_nowait()
        except queue.Empty:
            return

    def clock_at_work(self) -> float:
        """The clock without the time in the queue, which is no part of any other wait."""
        return self.clock() - self.admission.waited_s

    def pod_of(self, index: int) -> RankPod | None:
        """The newest pod of an index."""
        found = [pod for pod in self.pods.values() if pod.index == index]
        return max(found, key=lambda pod: pod.created_s, default=None)

    def log_of(self, pod: str) -> str:
        """The end of a pod's log as evidence."""
        try:
            return self.cluster.read_log(self.namespace, pod, MEASURE, tail_lines=_LOG_LINES, limit_bytes=_LOG_BYTES)
        except ClusterError as error:
            return f"(no log: {error.message})"

    def _follow(self, kind: str, watch: Watch) -> None:
        self._watches.append(watch)
        self._run(kind, watch)

    def _run(self, kind: str, source: Watch | LineStream) -> None:
        thread = threading.Thread(target=self._read, args=(kind, source), name=f"training-{kind}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _read(self, kind: str, source: Watch | LineStream) -> None:
        try:
            for item in source:
                self._inbox.put((kind, item if isinstance(item, WatchEvent) else Line(self.clock(), item)))
            self._inbox.put((kind, None))
        except (ClusterError, LineStreamError) as error:
            self._inbox.put((kind, error))

    def _on(self, kind: str, item: WatchEvent | Line | ClusterError | LineStreamError | None) -> None:
        if isinstance(item, Line):
            self.lines.append(item)
            self._look_for_gone_pods(item)
        elif isinstance(item, WatchEvent):
            {_OWNER: self._on_owner, _QUEUE: self.admission.see}.get(kind, self._on_pod)(item)
        elif isinstance(item, ClusterError):
            self.broken = JobFailure(item.reason, f"the pods of {self.job.name} cannot be watched: {item.message}")
        elif isinstance(item, LineStreamError):
            self._silent.add(kind)
            self._on_stream_end(kind, item)
        elif kind in self._streams:
            self._silent.add(kind)
            self.ended = self.ended or self._streams[kind].ended

    def _on_stream_end(self, kind: str, error: LineStreamError) -> None:
        """A stream without an end is what a killed pod leaves; anything else that goes wrong with it is an error."""
        if error.reason in (Reason.NONZERO_EXIT, Reason.POD_DELETED):
            return
        name = self.pods[kind].name if kind in self.pods else kind
        self.broken = JobFailure(error.reason, f"the lines of {name} cannot be trusted: {error.message}")

    def _on_owner(self, event: WatchEvent) -> None:
        self._owner_gone = event.type == "DELETED"
        if not self._owner_gone:
            self.given_up = self.given_up or self.job.owner.given_up(event.object)
            self._held_up = self.job.owner.held_up(event.object)

    def _on_pod(self, event: WatchEvent) -> None:
        now, obj = self.clock(), event.object
        name = raw.text(obj, "metadata", "name")
        uid = raw.text(obj, "metadata", "uid")
        # The API has one object of a name: where it is another one, or none, the earlier ones are gone.
        for other in self.pods.values():
            is_it = uid in ("", other.uid)
            if other.name == name and other.gone_s is None and is_it == (event.type == "DELETED"):
                other.gone_s = now
        if event.type == "DELETED":
            return
        index = self.job.owner.index_of(obj)
        if index is None:
            return
        pod = self.pods.setdefault(uid, RankPod(name, index, now, uid))
        pod.last = obj
        self.admission.see_pod(obj)
        self._stamp(pod, obj, now)
        running = sum(other.index == pod.index and other.runs for other in self.pods.values())
        self.copies = max(self.copies, running)
        if pod.index == 0 and pod.runs and uid not in self._streams:
            self._streams[uid] = LineStream(self.cluster, self.namespace, name, MEASURE, uid=uid)
            self._run(uid, self._streams[uid])

    def _look_for_gone_pods(self, line: Line) -> None:
        """
        A pod that the API has lost may run on, on a node that does not answer. Where the trainer goes on with it, and
        another pod has its rank, there are two.
        """
        if line.kind == "joined":
            self._joined = line
        if line.kind not in ("step", "save") or self._joined is None:
            return
        for place in self._joined.value.get("where", ()):
            pod = self._pod_at(place)
            if pod is None or pod.gone_s is None:
                continue
            met_later = self._joined.at_s > pod.gone_s
            others = [other for other in self.pods.values() if other.index == pod.index and other.runs]
            since = [line.at_s - (other.running_s or line.at_s) for other in others]
            seen = [s for s in since if s > (0.0 if met_later else _LOG_LAG_S)]
            self.copies = max(self.copies, 1 + len(seen))

    def _pod_at(self, place: Mapping[str, Any]) -> RankPod | None:
        """The pod of a rank by its own word; of several that have had the name, the newest on that node."""
        found = [pod for pod in self.pods.values() if pod.name == str(place.get("pod"))]
        there = [pod for pod in found if pod.node == str(place.get("node"))] or found
        return max(there, key=lambda pod: pod.created_s, default=None)

    def _stamp(self, pod: RankPod, obj: raw.Raw, now: float) -> None:
        pod.node = raw.text(obj, "spec", "nodeName")
        if pod.node and pod.scheduled_s is None:
            pod.scheduled_s = now
        state: Mapping[str, Any] = {}
        for status in raw.objects(obj, "status", "containerStatuses"):
            state = raw.mapping(status, "state")
        if pod.running_s is None and (raw.mapping(state, "running") or raw.mapping(state, "terminated")):
            pod.running_s = now
        phase = raw.text(obj, "status", "phase")
        if pod.gone_s is None and (raw.mapping(state, "terminated") or phase in ("Failed", "Succeeded")):
            pod.gone_s = now
        pod.succeeded = phase == "Succeeded" or raw.whole(state, "terminated", "exitCode") == 0

    def trouble(self) -> JobFailure | None:
        """What keeps a pod of the training from running, by its queue or its status; None where nothing does."""
        refused = self.admission.failure()
        if refused is not None:
            return refused
        for pod in self.pods.values():
            # Where all pods are made anew, one that is on its way may have to go with the others.
            leaves = self.job.owner.replaces_all and raw.text(pod.last, "metadata", "deletionTimestamp")
            if pod.running_s is None and not leaves:
                outcome = classify(pod.last)
                if isinstance(outcome, JobFailure):
                    return outcome
        return None

    def waiting_for(self) -> str:
        """What has not happened yet, in words, for a deadline that passed."""
        said = []
        for index in range(self.job.pods):
            pod = self.pod_of(index)
            if pod is None:
                said.append(f"index {index} has no pod")
            elif not pod.runs:
                outcome = classify(pod.last)
                trouble = outcome.trouble if isinstance(outcome, OnTheWay) else ""
                said.append(f"{pod.name} does not run{': ' + trouble if trouble else ''}")
        said += [words for words in (self.admission.waits, self._held_up, self.given_up) if words]
        last = self.lines[-1].value if self.lines else {}
        shown = {key: last[key] for key in ("e", "at", "step") if key in last}
        return "; ".join([*said, f"the last line of rank 0 is {shown or 'none'}"])
