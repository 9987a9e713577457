"""Lists, pages and watches over HTTP: one snapshot, 410 where it belongs, bookmarks, tables."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from simcluster.api.port import Object
from simcluster.api.server import ApiServer
from simcluster.api.wire import reads

from .conftest import Http, listen, node, pod, run_pod

MAPS = "/api/v1/namespaces/default/configmaps"


async def make(api: ApiServer, *names: str) -> list[Object]:
    """ConfigMaps of these names."""
    return [await api.client.create("configmaps", {"metadata": {"name": name}}, "default") for name in names]


def names(answer: Any) -> list[str]:
    """Names of a list's items."""
    return [item["metadata"]["name"] for item in answer["items"]]


async def test_pages_show_the_snapshot_of_the_first(api: ApiServer, http: Http) -> None:
    await make(api, "a", "b", "z0", "z1")
    first = (await http("GET", f"{MAPS}?limit=2")).json
    assert names(first) == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 2
    await make(api, "b-new")
    await api.client.delete("configmaps", "z1", "default")
    second = (await http("GET", f"{MAPS}?limit=2&continue={first['metadata']['continue']}")).json
    assert names(second) == ["z0", "z1"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in second["metadata"]


async def test_an_expired_token_is_410_and_offers_a_fresh_one(api: ApiServer, http: Http) -> None:
    await make(api, "a", "b", "c")
    token = (await http("GET", f"{MAPS}?limit=1")).json["metadata"]["continue"]
    api.store.collection("configmaps").forget_history()
    await make(api, "d")
    api.store.collection("configmaps").forget_history()
    refused = await http("GET", f"{MAPS}?limit=1&continue={token}")
    assert (refused.status, refused.json["reason"]) == (410, "Expired")
    again = await http("GET", f"{MAPS}?continue={refused.json['metadata']['continue']}")
    assert names(again.json) == ["b", "c", "d"]


async def test_pages_over_all_namespaces_reach_every_object_once(api: ApiServer, http: Http) -> None:
    await api.client.create("namespaces", {"metadata": {"name": "other"}})
    for space in ("default", "other"):
        for name in ("a", "b", "c"):
            await api.client.create("configmaps", {"metadata": {"name": name}}, space)
    seen: list[tuple[str, str]] = []
    token = ""
    while True:
        page = (await http("GET", f"/api/v1/configmaps?limit=2&continue={token}")).json
        seen += [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in page["items"]]
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert seen == [(space, name) for space in ("default", "other") for name in ("a", "b", "c")]


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("limit=3&continue=bogus", 400, "invalid continue token: continue key is not valid"),
        ("resourceVersion=99999999", 504, "Timeout: Too large resource version: 99999999, current: "),
        ("resourceVersionMatch=Exact", 422, 'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden'),
        ("fieldSelector=data.k=v", 400, '"data.k" is not a known field selector: only "metadata.name"'),
        ("labelSelector=a==b==c", 400, "found '==', expected: ',' or 'end of string'"),
        ("watch=1&resourceVersion=abc", 500, 'resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing'),
        ("watch=1&sendInitialEvents=true", 422, 'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch'),
    ],
)
async def test_refused_lists(http: Http, query: str, code: int, message: str) -> None:
    refused = await http("GET", f"{MAPS}?{query}")
    assert refused.status == code
    assert refused.json["message"].startswith(message)


async def test_items_of_a_list_carry_no_kind(api: ApiServer, http: Http) -> None:
    await make(api, "a")
    answer = (await http("GET", MAPS)).json
    assert answer["kind"] == "ConfigMapList"
    assert "kind" not in answer["items"][0]


async def watch(http: Http, query: str, count: int) -> list[Any]:
    """The first `count` lines of a watch, or all where the server ends it."""
    lines: list[Any] = []
    async with asyncio.timeout(5):
        async for line in http.stream(f"{MAPS}?watch=1&{query}"):
            lines.append(line)
            if len(lines) == count:
                break
    return lines


async def test_a_watch_without_a_version_begins_with_what_is_there(api: ApiServer, http: Http) -> None:
    await make(api, "b", "a")
    lines = await watch(http, "", 2)
    assert [(line["type"], line["object"]["metadata"]["name"]) for line in lines] == [("ADDED", "a"), ("ADDED", "b")]


async def test_a_too_old_watch_is_an_error_event_inside_a_200(http: Http) -> None:
    lines = await watch(http, "resourceVersion=1", 9)
    assert [line["type"] for line in lines] == ["ERROR"]
    assert (lines[0]["object"]["code"], lines[0]["object"]["reason"]) == (410, "Expired")


async def test_timeout_seconds_ends_a_watch_without_a_last_event(http: Http) -> None:
    assert await watch(http, "timeoutSeconds=1", 9) == []


async def test_initial_events_end_with_a_marked_bookmark(api: ApiServer, http: Http) -> None:
    await make(api, "a")
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    lines = await watch(http, query, 2)
    assert [line["type"] for line in lines] == ["ADDED", "BOOKMARK"]
    assert lines[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_bookmarks_carry_the_present_version(api: ApiServer, http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "BOOKMARK_S", 0.05)
    version = (await http("GET", MAPS)).json["metadata"]["resourceVersion"]
    await api.client.create("secrets", {"metadata": {"name": "elsewhere"}}, "default")
    lines = await watch(http, f"resourceVersion={version}&allowWatchBookmarks=true", 1)
    assert lines[0]["type"] == "BOOKMARK"
    assert lines[0]["object"] == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": str(int(version) + 1)},
    }


async def test_a_client_that_leaves_takes_its_watcher_along(api: ApiServer, http: Http) -> None:
    await make(api, "a")
    await watch(http, "", 1)
    index = api.store.collection("configmaps")._watchers
    async with asyncio.timeout(5):
        while any(index._by_namespace.values()):  # noqa: ASYNC110  # nothing offers the test an event
            await asyncio.sleep(0.01)


async def test_the_status_column_is_computed(api: ApiServer, http: Http) -> None:
    await api.client.create("nodes", node())
    await api.client.create("pods", pod("ok"), "default")
    await api.client.create("pods", pod("waits"), "default")
    await run_pod(api, "ok")
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    table = (await http("GET", "/api/v1/namespaces/default/pods", Accept=accept)).json
    assert [column["name"] for column in table["columnDefinitions"]][:4] == ["Name", "Ready", "Status", "Restarts"]
    assert [row["cells"][:4] for row in table["rows"]] == [
        ["ok", "1/1", "Running", "0"],
        ["waits", "0/1", "Pending", "0"],
    ]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


async def test_metadata_only(api: ApiServer, http: Http) -> None:
    await make(api, "a")
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    answer = (await http("GET", MAPS, Accept=accept)).json
    assert answer["kind"] == "PartialObjectMetadataList"
    assert set(answer["items"][0]) == {"kind", "apiVersion", "metadata"}


async def test_discovery_comes_in_both_forms(http: Http) -> None:
    legacy = (await http("GET", "/apis/batch/v1")).json
    assert {"jobs", "jobs/status"} <= {resource["name"] for resource in legacy["resources"]}
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    aggregated = (await http("GET", "/api", Accept=accept)).json
    found = {one["resource"]: one for one in aggregated["items"][0]["versions"][0]["resources"]}
    assert {"log", "exec", "eviction"} <= {sub["subresource"] for sub in found["pods"]["subresources"]}
    assert (await http("GET", "/version/")).json["gitVersion"].endswith("simcluster")


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/default/../kube-system/secrets",
        "/api/v1/namespaces/default/%2e%2e/secrets",
        "/api/v1/namespaces/default/configmaps/a%2Fb",
        "/api//v1/pods",
    ],
)
async def test_paths_that_hide_another_path_are_not_found(api: ApiServer, path: str) -> None:
    sock_answer = await raw(api, path)
    assert b" 404 " in sock_answer.split(b"\r\n", 1)[0]


async def raw(api: ApiServer, path: str) -> bytes:
    """The answer to a path that no client library would send as it is."""
    sock = listen()
    port = sock.getsockname()[1]
    await api.serve(sock)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    token = api.tokens.issue_admin()
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    writer.write(request.encode())
    answer = await reader.read()
    writer.close()
    return answer


async def test_a_body_beyond_the_limit_is_refused(http: Http) -> None:
    refused = await http("POST", MAPS, b"x" * (3 * 1024 * 1024 + 1))
    assert refused.status == 413
