"""A change costs the watchers it concerns, not all there are."""

from __future__ import annotations

import pytest

from simcluster.api.selectors import Selection
from simcluster.api.server import ApiServer
from simcluster.api.store import Change
from simcluster.api.watchers import Watcher

from .conftest import pod

NODES = 1024


async def test_only_the_watcher_of_the_node_looks_at_its_pod(api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = api.kinds.named("pods")
    assert kind is not None
    collection = api.resources.collection(kind)
    watchers = [
        collection.watch(Selection.parse(kind, None, "", f"spec.nodeName=n{number}"), api.store.revision.current)
        for number in range(NODES)
    ]
    looked: list[Watcher] = []
    consider = Watcher.consider

    def counting(self: Watcher, change: Change) -> None:
        looked.append(self)
        consider(self, change)

    monkeypatch.setattr(Watcher, "consider", counting)
    await api.client.create("pods", pod(), "default")
    assert looked == []
    await api.client.bind("default", "p", "n7")
    await api.client.patch("pods", "p", {"status": {"phase": "Running"}}, "default", subresource="status")
    assert looked == [watchers[7], watchers[7]]
    batch = await watchers[7].batch(0)
    assert batch is not None
    assert [event for event, _ in batch] == ["ADDED", "MODIFIED"]
    assert batch[0][1].line("ADDED") is batch[0][1].line("ADDED")
