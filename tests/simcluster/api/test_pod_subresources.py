"""Logs, exec and proxy reach the pod's kubelet, and say why where they cannot."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from simcluster.api.port import KubeletRegistry
from simcluster.api.server import ApiServer

from .conftest import NODE, Http, ProcessKubelet, container, pod, run_pod

PODS = "/api/v1/namespaces/default/pods"
_TEXT = "at most one of `sinceTime` or `sinceSeconds` may be specified"
_BOTH = f'PodLogOptions "p" is invalid: []: Forbidden: {_TEXT}'


@pytest.fixture
async def kubelet(api: ApiServer, registry: KubeletRegistry) -> ProcessKubelet:
    """The kubelet of a node with one running pod, p, one with two containers, two, and one that waits, pend."""
    kubelet = ProcessKubelet([b"out 0\n", b"err 0\n", b"nonewline"])
    registry.register(NODE, kubelet)
    for body in (pod("p"), pod("two", container("c1"), container("c2")), pod("pend")):
        await api.client.create("pods", body, "default")
    for name in ("p", "two"):
        await run_pod(api, name)
    return kubelet


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("p/log", 200, "out 0\nerr 0\nnonewline"),
        ("p/log?follow=bad", 200, "out 0\nerr 0\nnonewline"),
        ("pend/log", 204, ""),
        ("two/log", 400, "a container name must be specified for pod two, choose one of: [c1 c2]"),
        ("two/log?container=zz", 400, "container zz is not valid for pod two"),
        ("nope/log", 404, 'pods "nope" not found'),
        ("p/log?previous=true", 400, 'previous terminated container "c" in pod "p" not found'),
        (
            "p/log?tailLines=-1",
            422,
            'PodLogOptions "p" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0',
        ),
        (
            "p/log?limitBytes=0",
            422,
            'PodLogOptions "p" is invalid: limitBytes: Invalid value: 0: must be greater than 0',
        ),
        (
            "p/log?sinceSeconds=1&sinceTime=2020-01-01T00:00:00Z",
            422,
            _BOTH,
        ),
    ],
)
async def test_logs(http: Http, kubelet: ProcessKubelet, path: str, code: int, said: str) -> None:
    answer = await http("GET", f"{PODS}/{path}")
    assert answer.status == code
    assert (answer.text if code < 300 else answer.json["message"]) == said


async def test_log_options_reach_the_kubelet(http: Http, kubelet: ProcessKubelet) -> None:
    await http("GET", f"{PODS}/p/log?tailLines=3&timestamps=true&limitBytes=9&sinceSeconds=2")
    asked = kubelet.asked[0]
    assert (asked.tail_lines, asked.timestamps, asked.limit_bytes, asked.since_seconds) == (3, True, 9, 2)


async def test_a_waiting_container_has_no_log(api: ApiServer, http: Http, kubelet: ProcessKubelet) -> None:
    await api.client.bind("default", "pend", NODE)
    answer = await http("GET", f"{PODS}/pend/log")
    assert (answer.status, answer.json["message"]) == (
        400,
        'container "c" in pod "pend" is waiting to start: ContainerCreating',
    )


async def test_a_node_without_a_kubelet_cannot_answer(http: Http, kubelet: ProcessKubelet, api: ApiServer) -> None:
    api.registry.unregister(NODE)
    answer = await http("GET", f"{PODS}/p/log")
    assert answer.status == 502
    assert NODE in answer.json["message"]


async def frames(http: Http, query: str, protocol: str, *sent: bytes) -> list[bytes]:
    """All frames of one exec."""
    url = f"{http.base}{PODS}/p/exec?stdout=true&stderr=true&stdin=true&{query}"
    headers = {"Authorization": f"Bearer {http.token}"}
    found: list[bytes] = []
    async with http.session.ws_connect(url, protocols=(protocol,), headers=headers) as socket:
        for frame in sent:
            await socket.send_bytes(frame)
        async for message in socket:
            assert isinstance(message.data, bytes)
            found.append(message.data)
        assert socket.close_code == 1000
    return found


def status(frame: bytes) -> Any:
    """The Status on the error channel."""
    assert frame[0] == 3
    return json.loads(frame[1:])


@pytest.mark.parametrize("protocol", ["v4.channel.k8s.io", "v5.channel.k8s.io"])
async def test_exec_carries_output_and_exit_code(http: Http, kubelet: ProcessKubelet, protocol: str) -> None:
    command = "command=sh&command=-c&command=echo+o;+echo+e+>%262;+exit+7"
    found = await frames(http, command, protocol)
    assert found[:3] == [b"\x01", b"\x01o\n", b"\x02e\n"]
    assert status(found[3])["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]
    assert len(found) == 4


async def test_exec_success(http: Http, kubelet: ProcessKubelet) -> None:
    found = await frames(http, "command=true", "v4.channel.k8s.io")
    assert found == [b"\x01", b'\x03{"metadata":{},"status":"Success"}']


async def test_stdin_can_be_closed_in_v5(http: Http, kubelet: ProcessKubelet) -> None:
    found = await frames(http, "command=cat", "v5.channel.k8s.io", b"\x00hello\n", b"\xff\x00")
    assert found[1] == b"\x01hello\n"
    assert status(found[-1])["status"] == "Success"


async def test_a_command_that_cannot_start_has_no_exit_code(http: Http, kubelet: ProcessKubelet) -> None:
    found = await frames(http, "command=nosuch", "v4.channel.k8s.io")
    said = status(found[-1])
    assert (said["reason"], said["code"]) == ("InternalError", 500)
    assert "reason" not in said["details"]["causes"][0]


@pytest.mark.parametrize(("name", "code"), [("pend", 400), ("nope", 404)])
async def test_exec_needs_a_running_pod(http: Http, kubelet: ProcessKubelet, name: str, code: int) -> None:
    headers = {"Authorization": f"Bearer {http.token}"}
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await http.session.ws_connect(f"{http.base}{PODS}/{name}/exec?command=true", headers=headers)
    assert refused.value.status == code


async def test_exec_needs_an_upgrade(http: Http, kubelet: ProcessKubelet) -> None:
    answer = await http("POST", f"{PODS}/p/exec?command=true")
    assert (answer.status, answer.json["message"]) == (400, "Upgrade request required")


async def test_the_proxy_passes_path_query_and_body_on(http: Http, kubelet: ProcessKubelet) -> None:
    answer = await http("POST", f"{PODS}/p:8080/proxy/metrics/../x?a=b", "hello", "text/plain")
    assert answer.status == 200
    assert answer.text.startswith("POST p:8080/")
    assert answer.text.endswith("?a=b hello")


async def test_a_service_proxies_to_a_pod_behind_it(api: ApiServer, http: Http, kubelet: ProcessKubelet) -> None:
    spec = {"ports": [{"port": 80, "targetPort": 9400}]}
    await api.client.create("services", {"metadata": {"name": "s"}, "spec": spec}, "default")
    path = "/api/v1/namespaces/default/services/s:80/proxy/metrics"
    assert (await http("GET", path)).status == 503
    address = {"ip": "10.0.0.9", "targetRef": {"kind": "Pod", "name": "p"}}
    subsets = [{"addresses": [address], "ports": [{"port": 9400}]}]
    await api.client.create("endpoints", {"metadata": {"name": "s"}, "subsets": subsets}, "default")
    assert (await http("GET", path)).text.strip() == "GET p:9400/metrics"
