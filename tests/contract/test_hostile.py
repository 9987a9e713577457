"""Malformed and hostile requests: Kubernetes' own kind of refusal, and nothing else happens."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.contract.cluster import CORE, Build, Cluster, Namespace, config_map
from tests.contract.http import Http, Json, anonymous, bearing

MIB = 1 << 20


@pytest.fixture(scope="module")
def ns(cluster: Cluster) -> Iterator[Namespace]:
    """A namespace that must be unchanged after every case."""
    found = cluster.namespace()
    yield found
    found.drop()


@pytest.fixture(autouse=True)
def unharmed(cluster: Cluster, ns: Namespace) -> Iterator[None]:
    """Nothing was stored, and the server still answers."""
    before = {item["metadata"]["name"] for kind in ("configmaps", "pods") for item in ns.items(kind)}
    yield
    after = {item["metadata"]["name"] for kind in ("configmaps", "pods") for item in ns.items(kind)}
    assert after == before
    assert cluster.http.request("GET", "/healthz", accept="*/*").code == 200


def _refused(answer_code: int, body: Json, codes: set[int]) -> None:
    assert answer_code in codes, body
    assert body["kind"] == "Status"
    assert (body["status"], body["code"]) == ("Failure", answer_code)
    assert body["message"]


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        (b"{bad", {400}),
        (b"", {400}),
        (b"null", {400, 422}),
        (b"[]", {400}),
        (b'"text"', {400}),
        (b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"k": 5}}', {400}),
        (b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": "x"}', {400}),
        (b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": 7}}', {400}),
        (b'{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}', {400}),
        (b'{"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "x"}}', {400}),
        (b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}', {422}),
        (b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "kube-system"}}', {400}),
        (b"\xff\xfe\x00\x01", {400}),
        (b"[" * 50_000, {400}),
    ],
    ids=lambda value: value[:60].decode("latin-1") if isinstance(value, bytes) else None,
)
def test_a_body_that_is_no_config_map(ns: Namespace, body: bytes, codes: set[int]) -> None:
    answer = ns.post("configmaps", body)
    _refused(answer.code, answer.json, codes)


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "UPPER", "a/b", "a" * 300, "-a", "a b", "a\u0000b", "ä", ".", ".."]
)
def test_a_name_that_is_none(ns: Namespace, name: str) -> None:
    answer = ns.post("configmaps", config_map(name))
    _refused(answer.code, answer.json, {422})
    assert answer.json["details"]["causes"][0]["field"] == "metadata.name"


def test_a_body_of_more_than_the_limit(ns: Namespace) -> None:
    answer = ns.post("configmaps", config_map("x", {"k": "x" * (4 * MIB)}))
    _refused(answer.code, answer.json, {413})
    assert "limit is 3145728" in answer.json["message"]


def test_data_of_more_than_a_mebibyte(ns: Namespace) -> None:
    answer = ns.post("configmaps", config_map("x", {"k": "x" * (MIB + 1)}))
    _refused(answer.code, answer.json, {422})
    assert "may not be more than 1048576 bytes" in answer.json["message"]


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/%2e%2e/%2e%2e/etc/passwd",
        "/api/v1/../../etc/passwd",
        "/api/v1/namespaces/default/pods/..%2f..%2fnodes",
        "/api/v1/namespaces//pods",
        "//etc/passwd",
        "/api/v1/nope",
        "/static/../simcluster",
    ],
)
def test_a_path_that_leads_nowhere(ns: Namespace, path: str) -> None:
    line = (
        f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: {ns.http.access.authorization}\r\nConnection: close\r\n\r\n"
    )
    answer = ns.http.raw(line.encode())
    code = int(answer.split(b" ", 2)[1])
    assert code in {301, 307, 400, 403, 404}, answer[:300]
    assert b"root:" not in answer


def test_garbage_instead_of_http(ns: Namespace) -> None:
    answer = ns.http.raw(b"\x16\x03\x01 garbage\r\n\r\n")
    assert answer == b"" or b" 400 " in answer.split(b"\r\n", 1)[0]


def test_a_header_without_end(ns: Namespace) -> None:
    answer = ns.http.raw(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (2 * MIB) + b"\r\n\r\n")
    code = int(answer.split(b" ", 2)[1]) if answer else 431
    assert code in {400, 431}


@pytest.mark.parametrize("method", ["PUT", "PATCH", "TRACE", "NONSENSE"])
def test_a_method_that_the_path_does_not_have(ns: Namespace, method: str) -> None:
    answer = ns.http.request(method, ns.path("configmaps"), {} if method in {"PUT", "PATCH"} else None)
    assert answer.code in {400, 403, 405}


@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "text/html"])
def test_a_content_type_that_is_not_known(ns: Namespace, content_type: str) -> None:
    answer = ns.post("configmaps", b"a=b", content_type=content_type)
    _refused(answer.code, answer.json, {415})


def test_a_patch_type_that_is_not_known(ns: Namespace) -> None:
    answer = ns.http.request("PATCH", ns.path("configmaps", "kube-root-ca.crt"), b"{}", content_type="application/json")
    _refused(answer.code, answer.json, {415})


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"containers": []},
        {"containers": [{"name": "c"}]},
        {"containers": [{"name": "c", "image": "x"}, {"name": "c", "image": "x"}]},
        {"containers": [{"name": "c", "image": "x", "resources": {"limits": {"cpu": "-1"}}}]},
        {"containers": [{"name": "c", "image": "x", "volumeMounts": [{"name": "none", "mountPath": "/v"}]}]},
        {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Sometimes"},
        {"containers": [{"name": "c", "image": "x"}], "activeDeadlineSeconds": -1},
        {"containers": [{"name": "c", "image": "x"}], "volumes": [{"name": "v", "hostPath": {"path": "../../etc"}}]},
    ],
    ids=lambda spec: json.dumps(spec)[:50],
)
def test_a_pod_that_is_none(ns: Namespace, spec: Json) -> None:
    answer = ns.post("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec})
    ns.delete("pods", "x", gracePeriodSeconds=0)
    _refused(answer.code, answer.json, {422})
    assert answer.json["details"]["causes"][0]["field"].startswith("spec")


@pytest.mark.parametrize(
    "quantity",
    ["lots", "1 Gi", "1e", "", "0x10"],
)
def test_a_quantity_that_is_none(ns: Namespace, build: Build, quantity: str) -> None:
    resources = {"limits": {"memory": quantity}}
    pod = build.pod("x", "", containers=[build.container("c", "true", resources=resources)])
    answer = ns.post("pods", pod)
    _refused(answer.code, answer.json, {400, 422})


def test_a_job_name_too_long_for_its_pods(ns: Namespace, build: Build) -> None:
    answer = ns.post("jobs", build.job("j" * 63, "true", 2))
    _refused(answer.code, answer.json, {422})


@pytest.mark.parametrize("who", ["anonymous", "a wrong token", "an empty token", "basic", "a token with a line break"])
def test_a_caller_without_a_name(ns: Namespace, who: str) -> None:
    access = ns.http.access
    if who == "anonymous":
        answer = Http(anonymous(access)).request("POST", ns.path("configmaps"), config_map("x"))
    elif who == "basic":
        answer = Http(anonymous(access)).request(
            "POST", ns.path("configmaps"), config_map("x"), headers={"Authorization": "Basic YWRtaW46YWRtaW4="}
        )
    else:
        token = {"a wrong token": "wrong", "an empty token": "", "a token with a line break": "a\tb"}[who]
        answer = Http(bearing(access, token)).request("POST", ns.path("configmaps"), config_map("x"))
    _refused(answer.code, answer.json, {401, 403})


@pytest.mark.parametrize("path", ["/", "/etc", "/proc", "/root/../etc"])
def test_a_host_path_shows_the_nodes_files_not_the_hosts(cluster: Cluster, build: Build, path: str) -> None:
    if not cluster.simulated:
        pytest.skip("a real node shows its own files")
    own = cluster.namespace()
    try:
        mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        script = "cat /v/shadow /v/etc/shadow /v/1/environ /v/self/environ 2>/dev/null | wc -c"
        spec: dict[str, Json] = {
            "containers": [build.container("c", script, **mount)],
            "volumes": [{"name": "v", "hostPath": {"path": path}}],
        }
        answer = own.post("pods", build.pod("p", "", **spec))
        if answer.code == 201:
            pod = own.wait(
                "pods", "p", lambda found: found["status"]["phase"] != "Pending" or bool(own.events("p", "FailedMount"))
            )
            if pod["status"]["phase"] != "Pending":
                own.finished("p")
                assert own.log("p").text.strip() == "0"
        else:
            _refused(answer.code, answer.json, {403, 422})
    finally:
        own.drop()


def test_a_selector_of_a_megabyte(ns: Namespace) -> None:
    line = f"GET {CORE}/pods?labelSelector={'a' * (2 * MIB)} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    answer = ns.http.raw(line.encode())
    code = int(answer.split(b" ", 2)[1]) if answer else 414
    assert code in {400, 401, 403, 414, 431}
