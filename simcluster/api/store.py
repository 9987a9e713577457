"""Objects at resourceVersions: immutable entries, one history for each kind, and the watchers that hear of changes.

Owns ordering, snapshots and who is told of what. It must not know what a kind means, nor anything of HTTP.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from simcluster.api.errors import expired
from simcluster.api.port import EventType, Object
from simcluster.api.selectors import Selection
from simcluster.api.watchers import Watcher, WatcherIndex

Key = tuple[str, str]
"""Namespace ("" for cluster scope) and name."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


class Entry:
    """One state of one object, with its bytes made once."""

    __slots__ = ("_lines", "_raw", "key", "obj", "rv")

    def __init__(self, key: Key, obj: Object, rv: int) -> None:
        self.key = key
        self.obj = obj
        self.rv = rv
        self._raw: bytes | None = None
        self._lines: dict[str, bytes] | None = None

    @property
    def raw(self) -> bytes:
        """The object as JSON."""
        if self._raw is None:
            self._raw = _encode(self.obj).encode()
        return self._raw

    def line(self, event: EventType) -> bytes:
        """The object as one line of a watch."""
        if self._lines is None:
            self._lines = {}
        line = self._lines.get(event)
        if line is None:
            line = self._lines[event] = b'{"type":"' + event.encode() + b'","object":' + self.raw + b"}\n"
        return line

    def retire(self) -> None:
        """Keep no watch lines of a state that history still knows but hardly anybody will ask for."""
        self._lines = None


@dataclass(frozen=True, slots=True)
class Change:
    """One step of a collection's history; `entry` is what watchers are shown, `old` what was there before."""

    rv: int
    type: EventType
    entry: Entry
    old: Entry | None

    def left(self) -> Entry:
        """What a watcher is shown whose selection the object left: its old state at the version of the change."""
        old = self.old or self.entry
        return Entry(old.key, with_version(old.obj, self.rv), self.rv)


class Revision:
    """The one counter behind every resourceVersion. It does not start at 1, so that old versions are really too old."""

    START = 1000

    def __init__(self) -> None:
        self.current = self.START

    def next(self) -> int:
        """The version of the next write."""
        self.current += 1
        return self.current


def with_version(obj: Object, rv: int) -> Object:
    """The object with another resourceVersion; shares everything else."""
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(rv)}}


class Collection:
    """All objects of one stored kind."""

    def __init__(self, name: str, revision: Revision, history: int) -> None:
        self.name = name
        self._revision = revision
        self._entries: dict[str, dict[str, Entry]] = {}
        self._by_node: dict[str, dict[Key, Entry]] = {}
        self._history: deque[Change] = deque(maxlen=history)
        self._watchers = WatcherIndex()
        self._pods = name == "pods"
        self.oldest = revision.current

    def get(self, namespace: str, name: str) -> Entry | None:
        """The present state of an object."""
        space = self._entries.get(namespace)
        return None if space is None else space.get(name)

    def put(self, namespace: str, name: str, obj: Object) -> Entry:
        """Store a new state; the object gets its resourceVersion here."""
        rv = self._revision.next()
        key = (namespace, name)
        entry = Entry(key, with_version(obj, rv), rv)
        space = self._entries.setdefault(namespace, {})
        old = space.get(name)
        space[name] = entry
        self._index(old, entry)
        self._record(Change(rv, "ADDED" if old is None else "MODIFIED", entry, old))
        return entry

    def remove(self, namespace: str, name: str) -> Entry:
        """Delete an object; its last state carries the version of the deletion."""
        old = self._entries[namespace].pop(name)
        if not self._entries[namespace]:
            del self._entries[namespace]
        self._index(old, None)
        rv = self._revision.next()
        last = Entry(old.key, with_version(old.obj, rv), rv)
        self._record(Change(rv, "DELETED", last, old))
        return last

    def _index(self, old: Entry | None, new: Entry | None) -> None:
        if not self._pods:
            return
        if old is not None and (node := old.obj["spec"].get("nodeName")):
            self._by_node[node].pop(old.key, None)
        if new is not None and (node := new.obj["spec"].get("nodeName")):
            self._by_node.setdefault(node, {})[new.key] = new

    def _record(self, change: Change) -> None:
        if len(self._history) == self._history.maxlen:
            self.oldest = self._history[0].rv
        self._history.append(change)
        if change.old is not None:
            change.old.retire()
        self._watchers.tell(change)

    def forget_history(self) -> None:
        """Compact: watches and exact lists from before now are refused from here on."""
        self._history.clear()
        self.oldest = self._revision.current

    def candidates(self, selection: Selection) -> Iterable[Entry]:
        """Entries that may be selected, by the narrowest index there is."""
        name = selection.wanted("metadata.name")
        if name is not None and selection.namespace is not None:
            entry = self.get(selection.namespace, name)
            return () if entry is None else (entry,)
        if self._pods and (node := selection.wanted("spec.nodeName")):
            return self._by_node.get(node, {}).values()
        if selection.namespace is not None:
            return self._entries.get(selection.namespace, {}).values()
        return self._all()

    def _all(self) -> Iterator[Entry]:
        for space in self._entries.values():
            yield from space.values()

    def select(self, selection: Selection) -> list[Entry]:
        """Selected entries in the order of their keys."""
        found = self.candidates(selection)
        if not (selection.everything and selection.namespace is not None):
            found = [entry for entry in found if selection.matches(entry.obj)]
        return sorted(found, key=_key)

    def select_at(self, selection: Selection, rv: int) -> list[Entry]:
        """Selected entries as they were at a version. Raises ApiError 410 where the history does not reach back."""
        if rv < self.oldest:
            raise expired("The resourceVersion for the provided list is too old.")
        undone: dict[Key, Entry | None] = {}
        for change in reversed(self._history):
            if change.rv <= rv:
                break
            undone[change.entry.key] = change.old
        entries = {entry.key: entry for entry in self.candidates(selection)}
        for key, before in undone.items():
            entries.pop(key, None)
            if before is not None:
                entries[key] = before
        return sorted((entry for entry in entries.values() if selection.matches(entry.obj)), key=_key)

    def watch(self, selection: Selection, after: int | None) -> Watcher:
        """A watcher of changes after a version; None means: first everything that is there, then changes.

        Raises ApiError 410 where the history does not reach back.
        """
        if after is None:
            watcher = Watcher(selection, self._revision.current)
            for entry in self.select(selection):
                watcher.push("ADDED", entry)
        else:
            if after < self.oldest:
                raise expired(f"too old resource version: {after} ({self.oldest})")
            watcher = Watcher(selection, after)
            for change in self._since(after):
                watcher.consider(change)
        self._watchers.add(watcher, pods=self._pods)
        return watcher

    def _since(self, rv: int) -> list[Change]:
        changes: list[Change] = []
        for change in reversed(self._history):
            if change.rv <= rv:
                break
            changes.append(change)
        changes.reverse()
        return changes

    def close_watchers(self) -> None:
        """End every watch, as a stopping server does."""
        self._watchers.close()


def _key(entry: Entry) -> Key:
    return entry.key


class Store:
    """All collections under one revision counter."""

    def __init__(self, history: int = 10_000) -> None:
        self.revision = Revision()
        self._history = history
        self._collections: dict[str, Collection] = {}

    def collection(self, name: str) -> Collection:
        """The collection of that name; made when first asked for."""
        found = self._collections.get(name)
        if found is None:
            found = self._collections[name] = Collection(name, self.revision, self._history)
        return found

    def drop(self, name: str) -> None:
        """Forget a collection whose kind is no longer served."""
        gone = self._collections.pop(name, None)
        if gone is not None:
            gone.close_watchers()

    def close(self) -> None:
        """End every watch."""
        for collection in self._collections.values():
            collection.close_watchers()
