"""Pods that wait for a node: those to try now, and those that were tried and wait for the cluster to change.

Owns order and delays (priority first, then age; 1 s to 10 s between attempts); must not know why a pod did not fit.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from dataclasses import dataclass, field

from simcluster.controllers.scheduler.podinfo import PodInfo


@dataclass
class Waiting:
    """One pod that waits, with what its last attempt told."""

    pod: PodInfo
    attempts: int = 0
    tried_at: float = 0.0
    message: str = ""
    told_at: float = 0.0
    nominated: str = ""


@dataclass
class SchedulingQueue:
    """`first_delay_s` doubles with each attempt up to `longest_delay_s`."""

    first_delay_s: float
    longest_delay_s: float
    _all: dict[str, Waiting] = field(default_factory=dict)
    _heap: list[tuple[int, int, str]] = field(default_factory=list)
    _queued: set[str] = field(default_factory=set)
    _parked: set[str] = field(default_factory=set)
    _order: itertools.count[int] = field(default_factory=itertools.count)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _timer: asyncio.TimerHandle | None = None

    def put(self, pod: PodInfo) -> None:
        """A pod that has no node: new, or changed so that it may fit now."""
        known = self._all.get(pod.uid)
        if known is None:
            self._all[pod.uid] = Waiting(pod)
        else:
            known.pod = pod
        self._push(pod.uid)

    def refresh(self, pod: PodInfo) -> bool:
        """Keep the newest version of a waiting pod without trying it; whether it waits at all."""
        known = self._all.get(pod.uid)
        if known is not None:
            known.pod = pod
        return known is not None

    def drop(self, uid: str) -> None:
        """The pod is bound or gone."""
        self._all.pop(uid, None)
        self._parked.discard(uid)

    def park(self, waiting: Waiting) -> None:
        """It did not fit: wait for a change of the cluster."""
        waiting.attempts += 1
        waiting.tried_at = asyncio.get_running_loop().time()
        if waiting.pod.uid in self._all:
            self._parked.add(waiting.pod.uid)

    def someone_follows_others(self) -> bool:
        """A waiting pod wants to be near others, or as many as elsewhere: another pod's placing may help it."""
        return any(self._all[uid].pod.terms or self._all[uid].pod.spreads for uid in self._parked)

    async def pop(self) -> Waiting:
        """The next pod to try."""
        while True:
            while self._heap:
                uid = heapq.heappop(self._heap)[2]
                self._queued.discard(uid)
                waiting = self._all.get(uid)
                if waiting is not None:
                    return waiting
            self._wake.clear()
            await self._wake.wait()

    def cluster_changed(self) -> None:
        """Something was freed or added: try the parked pods, each as soon as its delay allows."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = asyncio.get_running_loop().time()
        later: list[float] = []
        for uid in sorted(self._parked, key=lambda uid: self._all[uid].tried_at):
            waiting = self._all[uid]
            due = waiting.tried_at + self._delay_s(waiting)
            if due <= now:
                self._parked.discard(uid)
                self._push(uid)
            else:
                later.append(due)
        if later:
            self._timer = asyncio.get_running_loop().call_at(min(later), self.cluster_changed)

    def close(self) -> None:
        """Cancel what is timed."""
        if self._timer is not None:
            self._timer.cancel()

    def _delay_s(self, waiting: Waiting) -> float:
        return min(self.first_delay_s * 2.0 ** max(0, waiting.attempts - 1), self.longest_delay_s)

    def _push(self, uid: str) -> None:
        self._parked.discard(uid)
        if uid not in self._queued:
            self._queued.add(uid)
            heapq.heappush(self._heap, (-self._all[uid].pod.priority, next(self._order), uid))
            self._wake.set()
