"""The adapter against a server that hangs, throttles, breaks off, forgets and lies."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gpuproof.cluster.backoff import Patience
from gpuproof.cluster.kube import KubeCluster, connect
from gpuproof.cluster.port import CONFIG_MAPS, JOBS, NAMESPACES, NODES, PODS, ClusterError
from gpuproof.failure import Reason
from gpuproof.inventory import read_inventory
from gpuproof.run_namespace import leftovers
from tests.gpuproof.cluster import rude_server as rude

NODES_PATH = "/api/v1/nodes"
PODS_PATH = "/api/v1/namespaces/ns/pods"
FAST = Patience(first_s=0.01, longest_s=0.05, give_up_s=1.0, connect_s=1.0, call_s=0.4, quiet_watch_s=0.4)


@pytest.fixture
def server() -> Iterator[rude.RudeServer]:
    with rude.serving() as running:
        yield running


@pytest.fixture
def cluster(server: rude.RudeServer, tmp_path: Path) -> Iterator[KubeCluster]:
    connected = connect(kubeconfig=server.kubeconfig(tmp_path), patience=FAST)
    yield connected
    connected.close()


def pod(name: str, version: int, **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "resourceVersion": str(version)}
    return {"kind": "Pod", "metadata": metadata, "status": status}


def added(name: str, version: int) -> dict[str, Any]:
    return {"type": "ADDED", "object": pod(name, version)}


def expired() -> dict[str, Any]:
    body = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (681)"}
    return {"type": "ERROR", "object": body}


def list_or(watched: rude.Handler) -> rude.Handler:
    """A handler that answers a list with an empty one and a watch with `watched`."""
    listed = rude.answer({"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": []})

    async def handler(request: web.Request) -> web.StreamResponse:
        return await (watched if "watch" in request.query else listed)(request)

    return handler


def take(cluster: KubeCluster, count: int, **options: Any) -> list[tuple[str, str]]:
    """The first changes of a watch on pods, as (type, name), within a deadline."""
    watch = cluster.watch(PODS, namespace="ns", **options)
    alarm = threading.Timer(10, watch.close)
    alarm.start()
    seen = []
    try:
        for event in watch:
            seen.append((event.type, event.object["metadata"]["name"]))
            if len(seen) == count:
                watch.close()
    finally:
        alarm.cancel()
        alarm.join()
    return seen


def test_null_image_names_of_a_node_do_not_matter(server: rude.RudeServer, cluster: KubeCluster) -> None:
    node = {"metadata": {"name": "n1"}, "status": {"images": [{"names": None, "sizeBytes": None}], "conditions": None}}
    server.on(
        NODES_PATH, rude.answer({"kind": "NodeList", "metadata": {"resourceVersion": "7"}, "items": [node, None]})
    )
    listing = cluster.list_objects(NODES)
    assert listing.resource_version == "7"
    found = read_inventory(listing.items, gpu_resource="nvidia.com/gpu")
    assert list(found.nodes) == ["n1"]
    assert not found.nodes["n1"].ready


def test_null_list_reads_as_empty(server: rude.RudeServer, cluster: KubeCluster) -> None:
    server.on(NODES_PATH, rude.answer({"kind": "NodeList", "metadata": {}, "items": None}))
    assert cluster.list_objects(NODES).items == ()


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"items": []},
        {"kind": "NodeList", "metadata": {}},
        {"kind": "NodeList", "items": {}},
        {"kind": "Node", "items": []},
        {"kind": "Status", "status": "Failure", "message": "upstream", "code": 500},
    ],
)
def test_an_answer_that_is_no_list_is_not_an_empty_cluster(
    server: rude.RudeServer, cluster: KubeCluster, body: Any
) -> None:
    server.on(NODES_PATH, rude.answer(body))
    with pytest.raises(ClusterError, match="not a list") as caught:
        cluster.list_objects(NODES)
    assert caught.value.reason is Reason.CLUSTER_UNREACHABLE


def page(*names: str, token: str = "") -> rude.Handler:
    metadata = {"resourceVersion": "7"} | ({"continue": token} if token else {})
    return rude.answer(
        {"kind": "NodeList", "metadata": metadata, "items": [{"metadata": {"name": name}} for name in names]}
    )


def names_of(cluster: KubeCluster) -> list[str]:
    return [item["metadata"]["name"] for item in cluster.list_objects(NODES, label_selector="a=b").items]


def test_every_page_of_a_list_is_read(server: rude.RudeServer, cluster: KubeCluster) -> None:
    server.on(NODES_PATH, page("n1", token="t1"), page("n2", token="t2"), page("n3"))
    assert names_of(cluster) == ["n1", "n2", "n3"]
    assert [query.get("continue") for _, _, query in server.asked] == [None, "t1", "t2"]
    assert {query["labelSelector"] for _, _, query in server.asked} == {"a=b"}


def test_a_list_whose_pages_expire_is_begun_anew(server: rude.RudeServer, cluster: KubeCluster) -> None:
    server.on(NODES_PATH, page("old", token="t1"), rude.fail(410, "Expired"), page("n1", token="t2"), page("n2"))
    assert names_of(cluster) == ["n1", "n2"]


def test_a_list_that_expires_for_ever_is_an_error(server: rude.RudeServer, cluster: KubeCluster) -> None:
    server.on(NODES_PATH, *[page("old", token="t"), rude.fail(410, "Expired")] * 5)
    with pytest.raises(ClusterError) as caught:
        cluster.list_objects(NODES)
    assert caught.value.status == 410


def test_pages_without_end_are_an_error(server: rude.RudeServer, cluster: KubeCluster) -> None:
    server.on(NODES_PATH, page("n1", token="again"))
    with pytest.raises(ClusterError, match="do not end"):
        cluster.list_objects(NODES)


@pytest.mark.parametrize("body", [{}, {"kind": "Status", "status": "Failure", "message": "upstream"}])
def test_an_empty_answer_has_neither_made_nor_deleted_anything(
    server: rude.RudeServer, cluster: KubeCluster, body: Any
) -> None:
    server.on("/api/v1/namespaces", rude.answer(body))
    server.on("/api/v1/namespaces/ns", rude.answer(body))
    for call in (
        lambda: cluster.create(NAMESPACES, {"metadata": {"name": "ns"}}),
        lambda: cluster.delete(NAMESPACES, "ns"),
        lambda: cluster.get(NAMESPACES, "ns"),
        lambda: leftovers(cluster),
    ):
        with pytest.raises(ClusterError, match="answer is not"):
            call()


@pytest.mark.parametrize("where", ["head", "body", "chunked"])
def test_a_trickle_ends_at_the_calls_own_deadline(where: str, tmp_path: Path) -> None:
    with rude.trickling(where, every_s=0.1) as port:
        server = rude.RudeServer(port=port)
        impatient = connect(
            kubeconfig=server.kubeconfig(tmp_path), patience=Patience(give_up_s=0, call_s=0.5, connect_s=1)
        )
        started = time.monotonic()
        with pytest.raises(ClusterError) as caught:
            impatient.list_objects(NODES)
        assert caught.value.reason is Reason.CLUSTER_UNREACHABLE
        assert time.monotonic() - started < 3
        impatient.close()


def test_a_server_that_is_gone_costs_all_patience_once(server: rude.RudeServer, tmp_path: Path) -> None:
    path = server.kubeconfig(tmp_path)
    path.write_text(path.read_text(encoding="utf-8").replace(str(server.port), "1"), encoding="utf-8")
    nowhere = connect(kubeconfig=path, patience=Patience(first_s=0.05, longest_s=0.2, give_up_s=1.0))
    with pytest.raises(ClusterError):
        nowhere.server_version()
    attempts = nowhere.counters.requests
    for _ in range(3):
        with pytest.raises(ClusterError) as caught:
            nowhere.delete(JOBS, "j", namespace="ns")
        assert caught.value.reason is Reason.CLUSTER_UNREACHABLE
    # Asked once each: with patience left there would be more.
    assert nowhere.counters.requests == attempts + 3
    nowhere.close()


def test_a_watch_is_live_while_a_stream_stands(server: rude.RudeServer, cluster: KubeCluster) -> None:
    server.on(PODS_PATH, rude.stream(added("a", 1)), rude.fail(503, "ServiceUnavailable"), rude.stream(added("b", 2)))
    watch = cluster.watch(PODS, namespace="ns")
    assert not watch.live
    seen = []
    for event in watch:
        seen.append((event.object["metadata"]["name"], watch.live))
        if len(seen) == 2:
            watch.close()
    assert seen == [("a", True), ("b", True)]
    assert not watch.live


def test_server_errors_and_cut_connections_are_tried_again(server: rude.RudeServer, cluster: KubeCluster) -> None:
    server.on(
        "/version",
        rude.fail(500, "InternalError"),
        rude.cut,
        rude.fail(503, "ServiceUnavailable"),
        rude.answer({"gitVersion": "v1.36.2"}),
    )
    assert cluster.server_version() == "v1.36.2"
    assert cluster.counters.requests == 4


def test_retry_after_is_obeyed(server: rude.RudeServer, tmp_path: Path) -> None:
    patient = connect(kubeconfig=server.kubeconfig(tmp_path), patience=Patience(first_s=0.01, give_up_s=5))
    server.on("/version", rude.fail(429, "TooManyRequests", Retry_After="1"), rude.answer({"gitVersion": "v1"}))
    started = time.monotonic()
    assert patient.server_version() == "v1"
    assert time.monotonic() - started >= 1.0
    patient.close()


def test_a_server_that_never_answers_ends_in_unreachable(server: rude.RudeServer, cluster: KubeCluster) -> None:
    server.on("/version", rude.hang)
    started = time.monotonic()
    with pytest.raises(ClusterError) as caught:
        cluster.server_version()
    assert caught.value.reason is Reason.CLUSTER_UNREACHABLE
    assert time.monotonic() - started < 5


def test_nobody_listens(server: rude.RudeServer, tmp_path: Path) -> None:
    path = server.kubeconfig(tmp_path)
    path.write_text(path.read_text(encoding="utf-8").replace(str(server.port), "1"), encoding="utf-8")
    nowhere = connect(kubeconfig=path, patience=FAST)
    with pytest.raises(ClusterError, match="no answer"):
        nowhere.server_version()
    nowhere.close()


def test_expired_token_is_read_again_once(server: rude.RudeServer, tmp_path: Path) -> None:
    path = server.kubeconfig(tmp_path, token="stale")
    cluster = connect(kubeconfig=path, patience=FAST)

    async def guard(request: Any) -> Any:
        if request.headers.get("Authorization") == "Bearer fresh":
            return await rude.answer({"gitVersion": "v1"})(request)
        server.kubeconfig(tmp_path, token="fresh")
        return rude.status(401, "Unauthorized", "Unauthorized")

    server.on("/version", guard)
    assert cluster.server_version() == "v1"
    assert server.count("/version") == 2
    cluster.close()


def test_a_token_that_stays_refused_is_forbidden(server: rude.RudeServer, cluster: KubeCluster) -> None:
    server.on("/version", rude.fail(401, "Unauthorized", "Unauthorized"))
    with pytest.raises(ClusterError) as caught:
        cluster.server_version()
    assert (caught.value.reason, caught.value.status) == (Reason.FORBIDDEN, 401)
    assert server.count("/version") == 2


def test_watch_with_an_expired_token(server: rude.RudeServer, cluster: KubeCluster) -> None:
    server.on(PODS_PATH, rude.fail(401, "Unauthorized"), rude.stream(added("a", 1), then_hang=True))
    assert take(cluster, 1) == [("ADDED", "a")]


def test_quota_and_forbidden_are_told_apart(server: rude.RudeServer, cluster: KubeCluster) -> None:
    quota = 'pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2'
    server.on(PODS_PATH, rude.fail(403, "Forbidden", quota), rude.fail(403, "Forbidden", "violates PodSecurity"))
    for reason in (Reason.QUOTA_EXCEEDED, Reason.FORBIDDEN):
        with pytest.raises(ClusterError) as caught:
            cluster.create(PODS, {}, namespace="ns")
        assert caught.value.reason is reason


def test_created_although_the_answer_was_lost(server: rude.RudeServer, cluster: KubeCluster) -> None:
    exists = rude.fail(409, "AlreadyExists", 'configmaps "x" already exists')
    server.on("/api/v1/namespaces/ns/configmaps", rude.cut, exists)
    assert cluster.create(CONFIG_MAPS, {"metadata": {"name": "x"}}, namespace="ns")["status"] == "Success"


def test_exists_already(server: rude.RudeServer, cluster: KubeCluster) -> None:
    server.on("/api/v1/namespaces/ns/configmaps", rude.fail(409, "AlreadyExists", 'configmaps "x" already exists'))
    with pytest.raises(ClusterError, match="already exists"):
        cluster.create(CONFIG_MAPS, {"metadata": {"name": "x"}}, namespace="ns")


def test_deleting_what_is_gone_is_no_error(server: rude.RudeServer, cluster: KubeCluster) -> None:
    assert cluster.delete(JOBS, "gone", namespace="ns") == {}


def test_not_json(server: rude.RudeServer, cluster: KubeCluster) -> None:
    server.on("/version", rude.text("<html>proxy</html>"))
    with pytest.raises(ClusterError, match="not JSON"):
        cluster.server_version()


def test_lost_log_is_an_error_though_the_status_is_200(server: rude.RudeServer, cluster: KubeCluster) -> None:
    server.on(f"{PODS_PATH}/p/log", rude.text("unable to retrieve container logs for containerd://abc"))
    with pytest.raises(ClusterError, match="lost"):
        cluster.read_log("ns", "p", "measure", tail_lines=10, limit_bytes=1000)


def test_watch_goes_on_where_the_last_stream_ended(server: rude.RudeServer, cluster: KubeCluster) -> None:
    server.on(PODS_PATH, rude.stream(added("a", 3)), rude.cut, rude.stream(added("b", 4), then_hang=True))
    assert take(cluster, 2) == [("ADDED", "a"), ("ADDED", "b")]
    assert [query.get("resourceVersion") for _, _, query in server.asked] == [None, "3", "3"]


def test_a_line_cut_in_the_middle_is_not_read(server: rude.RudeServer, cluster: KubeCluster) -> None:
    half = json.dumps(added("b", 4))[:40]
    server.on(PODS_PATH, rude.stream(added("a", 3), half), rude.stream(added("b", 4), then_hang=True))
    assert take(cluster, 2) == [("ADDED", "a"), ("ADDED", "b")]


def test_expired_version_is_listed_and_the_vanished_are_told(server: rude.RudeServer, cluster: KubeCluster) -> None:
    listed = {"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [pod("b", 8), pod("c", 9)]}
    server.on(
        PODS_PATH,
        rude.stream(added("a", 3), added("b", 4), expired()),
        rude.answer(listed),
        rude.stream(added("d", 10), then_hang=True),
    )
    seen = take(cluster, 6)
    assert seen[2:] == [("DELETED", "a"), ("MODIFIED", "b"), ("MODIFIED", "c"), ("ADDED", "d")]
    assert server.asked[-1][2]["resourceVersion"] == "9"


def test_gone_as_a_status_code(server: rude.RudeServer, cluster: KubeCluster) -> None:
    listed = {"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": []}
    server.on(PODS_PATH, rude.fail(410, "Expired"), rude.answer(listed), rude.stream(added("a", 10), then_hang=True))
    assert take(cluster, 1, resource_version="1") == [("ADDED", "a")]


def test_endless_empty_answers_do_not_become_a_busy_loop(server: rude.RudeServer, cluster: KubeCluster) -> None:
    server.on(PODS_PATH, list_or(rude.stream()))
    watch = cluster.watch(PODS, namespace="ns", resource_version="1")
    with pytest.raises(ClusterError) as caught:
        list(watch)
    assert caught.value.reason is Reason.CLUSTER_UNREACHABLE
    assert server.count(PODS_PATH) < 60


def test_empty_answers_lead_to_a_list_and_on(server: rude.RudeServer, cluster: KubeCluster) -> None:
    listed = {"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [pod("a", 9)]}
    server.on(PODS_PATH, rude.stream(), rude.stream(), rude.answer(listed), rude.stream(then_hang=True))
    assert take(cluster, 1, resource_version="1") == [("MODIFIED", "a")]


def test_bookmarks_move_the_version_and_are_not_told(server: rude.RudeServer, cluster: KubeCluster) -> None:
    bookmark = {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": "55"}}}
    server.on(PODS_PATH, rude.stream(bookmark), rude.stream(added("a", 56), then_hang=True))
    assert take(cluster, 1) == [("ADDED", "a")]
    assert server.asked[1][2]["resourceVersion"] == "55"


def test_a_silent_watch_is_opened_anew(server: rude.RudeServer, cluster: KubeCluster) -> None:
    server.on(PODS_PATH, rude.stream(added("a", 3), then_hang=True), rude.stream(added("b", 4), then_hang=True))
    assert take(cluster, 2) == [("ADDED", "a"), ("ADDED", "b")]


def test_silence_beyond_all_patience_is_no_failure(server: rude.RudeServer, tmp_path: Path) -> None:
    patience = Patience(first_s=0.01, longest_s=0.05, give_up_s=0.5, quiet_watch_s=1.1)
    cluster = connect(kubeconfig=server.kubeconfig(tmp_path), patience=patience)
    silence = rude.stream(then_hang=True)
    server.on(PODS_PATH, silence, silence, rude.stream(added("a", 3), then_hang=True))
    assert take(cluster, 1) == [("ADDED", "a")]
    cluster.close()


def test_the_name_is_the_context(cluster: KubeCluster) -> None:
    assert cluster.name == "rude"


def test_forbidden_watch_ends_at_once(server: rude.RudeServer, cluster: KubeCluster) -> None:
    server.on(PODS_PATH, rude.fail(403, "Forbidden", "pods is forbidden"))
    with pytest.raises(ClusterError, match="forbidden"):
        list(cluster.watch(PODS, namespace="ns"))
    assert server.count(PODS_PATH) == 1


def test_closing_ends_a_reader_that_waits(server: rude.RudeServer, tmp_path: Path) -> None:
    patient = connect(kubeconfig=server.kubeconfig(tmp_path), patience=Patience())
    server.on(PODS_PATH, rude.stream(added("a", 3), then_hang=True))
    watch = patient.watch(PODS, namespace="ns")
    first = threading.Event()

    def read() -> None:
        for _ in watch:
            first.set()

    reader = threading.Thread(target=read)
    reader.start()
    assert first.wait(10)
    watch.close()
    reader.join(5)
    assert not reader.is_alive()
    patient.close()


@pytest.mark.parametrize(
    "event", ["not json\n", '["a list"]\n', '{"type": "ADDED", "object": null}\n', '{"type": 7}\n']
)
def test_garbage_in_a_watch_does_not_end_it(server: rude.RudeServer, cluster: KubeCluster, event: str) -> None:
    server.on(PODS_PATH, rude.stream(event), list_or(rude.stream(added("a", 10), then_hang=True)))
    watch = cluster.watch(PODS, namespace="ns")
    names = []
    for change in watch:
        names.append(change.object.get("metadata", {}).get("name") if change.object else None)
        if names[-1] == "a":
            watch.close()
    assert names[-1] == "a"


@pytest.mark.parametrize("text", ["", "clusters: [", "[]", "{}", "current-context: none"])
def test_unusable_kubeconfig_says_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ClusterError, match="no credentials"):
        connect(kubeconfig=path)


def test_absent_kubeconfig_says_so(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no credentials"):
        connect(kubeconfig=tmp_path / "absent")
