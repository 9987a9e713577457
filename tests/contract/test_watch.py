"""Watches: what is told, from where, and how a client learns that it came too late."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.contract.cluster import CORE, Cluster, Namespace, config_map
from tests.contract.http import Json, Recorder
from tests.contract.waiting import holds, until


def _told(watch: Recorder) -> list[tuple[str, str]]:
    return [
        (event["type"], event["object"]["metadata"].get("name", ""))
        for event in watch.events
        if event["object"].get("metadata", {}).get("name", "") not in {"kube-root-ca.crt", "openshift-service-ca.crt"}
    ]


def _expect(cluster: Cluster, watch: Recorder, told: list[tuple[str, str]]) -> None:
    until(lambda: len(_told(watch)) >= len(told), cluster.s(10), lambda: f"{told}; so far {_told(watch)}")
    assert _told(watch) == told


def _version(obj: Json) -> str:
    return str(obj["metadata"]["resourceVersion"])


def test_a_watch_from_a_list_tells_every_later_change_once_in_order(cluster: Cluster, ns: Namespace) -> None:
    start = ns.listing("configmaps")["metadata"]["resourceVersion"]
    with ns.watch("configmaps", resourceVersion=start) as watch:
        ns.create("configmaps", config_map("a"))
        ns.patch("configmaps", "a", {"data": {"k": "1"}})
        ns.delete("configmaps", "a")
        _expect(cluster, watch, [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")])


def test_a_watch_resumes_after_the_last_version_seen(cluster: Cluster, ns: Namespace) -> None:
    ns.create("configmaps", config_map("a"))
    seen = ns.patch("configmaps", "a", {"data": {"k": "1"}}).json
    ns.patch("configmaps", "a", {"data": {"k": "2"}})
    ns.create("configmaps", config_map("b"))
    ns.delete("configmaps", "b")
    with ns.watch("configmaps", resourceVersion=_version(seen)) as watch:
        _expect(cluster, watch, [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "b")])
        assert watch.events[0]["object"]["data"] == {"k": "2"}


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}], ids=["unset", "zero"])
def test_a_watch_without_a_version_starts_with_what_is_there(
    cluster: Cluster, ns: Namespace, query: dict[str, str]
) -> None:
    ns.create("configmaps", config_map("b"))
    ns.create("configmaps", config_map("a"))
    with ns.watch("configmaps", **query) as watch:
        _expect(cluster, watch, [("ADDED", "a"), ("ADDED", "b")])


def test_a_version_too_old_is_an_error_event_in_a_200(cluster: Cluster, ns: Namespace) -> None:
    with cluster.http.stream(ns.path("configmaps"), {"watch": "1", "resourceVersion": "1"}) as stream:
        assert stream.code == 200
        told = list(stream.events())
    if told and told[0]["type"] != "ERROR":
        pytest.skip("this cluster still remembers its first version")
    assert len(told) == 1, "the stream must end after the error"
    status = told[0]["object"]
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert status["message"].startswith("too old resource version: 1 (") or "too old" in status["message"]


def test_a_version_of_the_future_is_silence(cluster: Cluster, ns: Namespace) -> None:
    query = {"watch": "1", "resourceVersion": "99999999999", "timeoutSeconds": "1"}
    with cluster.http.stream(ns.path("configmaps"), query) as stream:
        assert stream.code == 200
        assert list(stream.events()) == []


def test_a_version_that_is_no_number_is_refused(ns: Namespace) -> None:
    answer = ns.http.request("GET", ns.path("configmaps"), query={"watch": "1", "resourceVersion": "abc"})
    assert answer.code in {400, 500}
    assert 'resourceVersion: Invalid value: "abc"' in answer.json["message"]


def test_timeout_seconds_ends_a_watch_without_a_last_word(cluster: Cluster, ns: Namespace) -> None:
    ns.create("configmaps", config_map("a"))
    start = ns.listing("configmaps")["metadata"]["resourceVersion"]
    query = {"watch": "1", "timeoutSeconds": "1", "resourceVersion": start, "allowWatchBookmarks": "true"}
    with cluster.http.stream(ns.path("configmaps"), query) as stream:
        assert [event for event in stream.events() if event["type"] != "BOOKMARK"] == []


def test_initial_events_end_with_a_marked_bookmark(cluster: Cluster, ns: Namespace) -> None:
    ns.create("configmaps", config_map("a"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    with ns.watch("configmaps", **query) as watch:
        marks = until(
            lambda: [event for event in watch.events if event["type"] == "BOOKMARK"], cluster.s(10), "the bookmark"
        )
        assert marks[0]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert [event["type"] for event in watch.events[:-1]] == ["ADDED"] * (len(watch.events) - 1)
        last = marks[0]["object"]["metadata"]["resourceVersion"]
    with ns.watch("configmaps", resourceVersion=last) as resumed:
        ns.create("configmaps", config_map("b"))
        _expect(cluster, resumed, [("ADDED", "b")])


def test_initial_events_need_not_older_than(ns: Namespace) -> None:
    answer = ns.http.request("GET", ns.path("configmaps"), query={"watch": "1", "sendInitialEvents": "true"})
    assert answer.code == 422
    assert answer.json["details"]["causes"][0]["field"] == "resourceVersionMatch"


def test_leaving_a_selection_is_told_as_deleted_and_entering_as_added(cluster: Cluster, ns: Namespace) -> None:
    ns.create("configmaps", config_map("a", labels={"x": "1"}))
    start = ns.listing("configmaps")["metadata"]["resourceVersion"]
    with ns.watch("configmaps", labelSelector="x=1", resourceVersion=start) as watch:
        ns.patch("configmaps", "a", {"metadata": {"labels": {"x": "2"}}})
        ns.patch("configmaps", "a", {"metadata": {"labels": {"x": "1"}}})
        _expect(cluster, watch, [("DELETED", "a"), ("ADDED", "a")])
    assert ns.get("configmaps", "a").code == 200


def test_a_field_selector_watches_one_object(cluster: Cluster, ns: Namespace) -> None:
    start = ns.listing("configmaps")["metadata"]["resourceVersion"]
    with ns.watch("configmaps", fieldSelector="metadata.name=b", resourceVersion=start) as watch:
        for name in "abc":
            ns.create("configmaps", config_map(name))
        _expect(cluster, watch, [("ADDED", "b")])


def test_a_patch_that_changes_nothing_makes_no_event_and_no_version(cluster: Cluster, ns: Namespace) -> None:
    made = ns.create("configmaps", config_map("a", {"k": "1"}))
    with ns.watch("configmaps", resourceVersion=_version(made)) as watch:
        assert _version(ns.patch("configmaps", "a", {"data": {"k": "1"}}).json) == _version(made)
        ns.patch("configmaps", "a", {"data": {"k": "2"}})
        _expect(cluster, watch, [("MODIFIED", "a")])


def test_a_watch_on_one_objects_path_is_a_plain_get(ns: Namespace) -> None:
    ns.create("configmaps", config_map("a"))
    answer = ns.get("configmaps", "a", query={"watch": "1"})
    assert answer.json["kind"] == "ConfigMap"


def test_a_watch_tells_of_its_own_namespace_only(cluster: Cluster, ns: Namespace) -> None:
    other = cluster.namespace()
    start = ns.listing("configmaps")["metadata"]["resourceVersion"]
    try:
        with ns.watch("configmaps", resourceVersion=start) as watch:
            other.create("configmaps", config_map("elsewhere"))
            ns.create("configmaps", config_map("here"))
            _expect(cluster, watch, [("ADDED", "here")])
    finally:
        other.drop()


def test_a_cut_watch_resumed_from_its_last_event_loses_nothing(cluster: Cluster, ns: Namespace) -> None:
    told: list[str] = []
    version = ns.listing("configmaps")["metadata"]["resourceVersion"]
    made = 0
    for _ in range(3):
        with ns.watch("configmaps", resourceVersion=version) as watch:
            for _ in range(4):
                ns.create("configmaps", config_map(f"n{made:02d}"))
                made += 1
            seen = until(_enough(watch, 2), cluster.s(10), "two events")  # cut while more may be on their way
            told += [event["object"]["metadata"]["name"] for event in seen]
            version = _version(seen[-1]["object"])
    with ns.watch("configmaps", resourceVersion=version) as watch:
        until(lambda: len(told) + len(watch.events) >= made, cluster.s(10), "the rest")
        told += [event["object"]["metadata"]["name"] for event in watch.events]
    assert told == [f"n{number:02d}" for number in range(made)]


def _enough(watch: Recorder, number: int) -> Callable[[], list[Json] | None]:
    def look() -> list[Json] | None:
        seen = watch.events
        return seen if len(seen) >= number else None

    return look


def test_a_watch_of_all_namespaces_sees_every_one(cluster: Cluster, ns: Namespace) -> None:
    start = cluster.http.request("GET", f"{CORE}/configmaps").json["metadata"]["resourceVersion"]
    query = {"watch": "1", "resourceVersion": start, "fieldSelector": "metadata.name=everywhere"}
    with Recorder(cluster.http.stream(f"{CORE}/configmaps", query)) as watch:
        ns.create("configmaps", config_map("everywhere"))
        _expect(cluster, watch, [("ADDED", "everywhere")])
        assert watch.events[0]["object"]["metadata"]["namespace"] == ns.name
        holds(lambda: not watch.ended, 0.2, "the watch goes on")
