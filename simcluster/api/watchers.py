"""Watchers and the index that finds those a change concerns without asking every one of them.

Owns delivery queues. It must not know how objects are stored or sent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from simcluster.api.port import EventType

if TYPE_CHECKING:
    from simcluster.api.selectors import Selection
    from simcluster.api.store import Change, Entry

Delivery = tuple[EventType, "Entry"]

_LIMIT = 100_000


class Watcher:
    """One open watch: what it selects and what waits to be delivered."""

    def __init__(self, selection: Selection, after: int) -> None:
        self.selection = selection
        self.closed = False
        self.overflowed = False
        self._after = after
        self._queue: deque[Delivery] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._home: set[Watcher] | None = None

    def push(self, event: EventType, entry: Entry) -> None:
        """Queue one event; a client that reads nothing for very long loses its watch instead of filling memory."""
        if len(self._queue) >= _LIMIT:
            self.overflowed = True
            self.close()
            return
        self._queue.append((event, entry))
        self._wake()

    def consider(self, change: Change) -> None:
        """Queue a change if it concerns the selection; an object that leaves it is DELETED, one that enters ADDED."""
        if change.rv <= self._after:
            return
        matches = self.selection.matches
        before = change.old is not None and matches(change.old.obj)
        if change.type == "DELETED":
            if before:
                self.push("DELETED", change.entry)
            return
        now = matches(change.entry.obj)
        if now:
            self.push("MODIFIED" if before else "ADDED", change.entry)
        elif before and change.old is not None:
            self.push("DELETED", change.left())

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def batch(self, timeout_s: float | None = None) -> list[Delivery] | None:
        """All waiting events, at least one; [] after `timeout_s` without any; None when the watch is over."""
        if not self._queue and not self.closed:
            self._waiter = asyncio.get_running_loop().create_future()
            timer = None
            if timeout_s is not None:
                timer = asyncio.get_running_loop().call_later(timeout_s, self._wake)
            try:
                await self._waiter
            finally:
                self._waiter = None
                if timer is not None:
                    timer.cancel()
        if self._queue:
            batch = list(self._queue)
            self._queue.clear()
            return batch
        return None if self.closed else []

    def close(self) -> None:
        """Hear of nothing more; what is queued can still be read."""
        self.closed = True
        if self._home is not None:
            self._home.discard(self)
            self._home = None
        self._wake()

    def settle(self, home: set[Watcher]) -> None:
        """Remember the set that this watcher must leave when it closes."""
        self._home = home
        home.add(self)


class WatcherIndex:
    """Watchers of one collection, filed by the narrowest thing each pins: a node, a name, a namespace, or nothing."""

    def __init__(self) -> None:
        self._everywhere: set[Watcher] = set()
        self._by_namespace: dict[str, set[Watcher]] = {}
        self._by_name: dict[str, set[Watcher]] = {}
        self._by_node: dict[str, set[Watcher]] = {}

    def add(self, watcher: Watcher, *, pods: bool) -> None:
        """File a watcher."""
        selection = watcher.selection
        node = selection.wanted("spec.nodeName") if pods else None
        name = selection.wanted("metadata.name")
        if node is not None:
            home = self._by_node.setdefault(node, set())
        elif name is not None:
            home = self._by_name.setdefault(name, set())
        elif selection.namespace is not None:
            home = self._by_namespace.setdefault(selection.namespace, set())
        else:
            home = self._everywhere
        watcher.settle(home)

    def tell(self, change: Change) -> None:
        """Hand a change to those it may concern."""
        namespace, name = change.entry.key
        _offer(self._everywhere, change)
        _offer(self._by_namespace.get(namespace), change)
        _offer(self._by_name.get(name), change)
        if self._by_node:
            for node in _nodes(change):
                _offer(self._by_node.get(node), change)

    def close(self) -> None:
        """Close every watcher."""
        homes = (self._by_namespace, self._by_name, self._by_node)
        for group in ([self._everywhere], *(home.values() for home in homes)):
            for watchers in group:
                for watcher in tuple(watchers):
                    watcher.close()


def _offer(watchers: set[Watcher] | None, change: Change) -> None:
    if watchers:
        for watcher in tuple(watchers):
            watcher.consider(change)


def _nodes(change: Change) -> Iterable[str]:
    now = change.entry.obj["spec"].get("nodeName", "")
    before = now if change.old is None else change.old.obj["spec"].get("nodeName", "")
    return (now,) if now == before else (now, before)
