"""Watches replay history, follow selections, and say when they are too old; informers survive that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from simcluster.api.informer import Informer
from simcluster.api.port import ApiError, KubeletRegistry, Object, WatchEvent
from simcluster.api.server import ApiServer


def config(name: str, labels: dict[str, str] | None = None) -> Object:
    return {"metadata": {"name": name, "labels": labels or {}}, "data": {}}


async def take(api: ApiServer, count: int, version: str, **selectors: str) -> list[WatchEvent]:
    """The first `count` events after a version."""
    events: list[WatchEvent] = []
    stream = api.client.watch("configmaps", "default", resource_version=version, **selectors)
    async with asyncio.timeout(5):
        async for event in stream:
            events.append(event)
            if len(events) == count:
                break
    return events


async def until(true: Callable[[], bool]) -> None:
    """Let the loop run until a condition holds."""
    async with asyncio.timeout(5):
        while not true():  # noqa: ASYNC110  # a test polls from outside; nothing offers it an event
            await asyncio.sleep(0)


async def test_history_after_a_version_is_replayed(api: ApiServer) -> None:
    start = (await api.client.list("configmaps", "default")).resource_version
    await api.client.create("configmaps", config("a"), "default")
    await api.client.patch("configmaps", "a", {"data": {"k": "v"}}, "default")
    await api.client.delete("configmaps", "a", "default")
    events = await take(api, 3, start)
    assert [event.type for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [int(event.object["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(versions)
    assert versions[0] == int(start) + 1


async def test_leaving_a_selection_is_deleted_and_entering_it_is_added(api: ApiServer) -> None:
    await api.client.create("configmaps", config("b", {"x": "1"}), "default")
    start = (await api.client.list("configmaps", "default")).resource_version
    await api.client.patch("configmaps", "b", {"metadata": {"labels": {"x": "2"}}}, "default")
    await api.client.patch("configmaps", "b", {"metadata": {"labels": {"x": "1"}}}, "default")
    events = await take(api, 2, start, label_selector="x=1")
    assert [event.type for event in events] == ["DELETED", "ADDED"]


async def test_a_watch_from_the_beginning_of_time_is_too_old(api: ApiServer) -> None:
    with pytest.raises(ApiError) as refused:
        await take(api, 1, "1")
    assert (refused.value.code, refused.value.reason) == (410, "Expired")
    assert refused.value.message.startswith("too old resource version: 1 (")


async def test_a_pod_watch_by_node_hears_of_the_binding_only_there(api: ApiServer) -> None:
    start = (await api.client.list("pods")).resource_version
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x:1"}]}}
    await api.client.create("pods", body, "default")
    await api.client.bind("default", "p", "gpu-02")
    stream = api.client.watch("pods", resource_version=start, field_selector="spec.nodeName=gpu-02")
    event = await anext(aiter(stream))
    assert (event.type, event.object["metadata"]["name"]) == ("ADDED", "p")


async def test_an_informer_keeps_up_and_tells_before_and_after(api: ApiServer) -> None:
    await api.client.create("configmaps", config("a"), "default")
    informer = Informer(api.client, "configmaps", namespace="default")
    heard: list[tuple[bool, bool]] = []
    informer.on_change(lambda before, after: heard.append((before is not None, after is not None)))
    await informer.start()
    assert list(informer.items) == [("default", "a")]
    await api.client.patch("configmaps", "a", {"data": {"k": "v"}}, "default")
    await api.client.delete("configmaps", "a", "default")
    await until(lambda: len(heard) == 3)
    assert heard == [(False, True), (True, True), (True, False)]
    assert not informer.items
    await informer.stop()


async def test_an_informer_lists_again_when_its_watch_is_too_old(registry: KubeletRegistry) -> None:
    api = ApiServer(registry=registry, history=4)
    informer = Informer(api.client, "configmaps", namespace="default")
    await informer.start()
    for number in range(20):
        await api.client.create("configmaps", config(f"c{number}"), "default")
    await until(lambda: len(informer.items) == 20)
    await informer.stop()
    await api.close()
