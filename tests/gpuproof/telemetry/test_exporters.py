"""Exporters are found by label wherever they are, and asked through the API within a time and a size."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gpuproof.cluster.backoff import Patience
from gpuproof.cluster.kube import KubeCluster, connect
from gpuproof.telemetry.exporters import exporters_of, interval_s
from gpuproof.telemetry.scraping import scrape
from tests.gpuproof.cluster import rude_server as rude
from tests.gpuproof.telemetry.pages import EXPORTER, SETTINGS, TEXT, page

PATH = "/api/v1/namespaces/gpu-operator/pods/exporter-x:9400/proxy/metrics"
QUICK = replace(SETTINGS, deadline_s=0.5, max_bytes=100_000)


def pod(name: str, node: str, *, ready: str = "True", phase: str = "Running", **status: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready}]
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"},
        "spec": {"nodeName": node, "containers": [{"env": [{"name": "DCGM_EXPORTER_INTERVAL", "value": "15000"}]}]},
        "status": {"phase": phase, "conditions": conditions, **status},
    }


def test_exporters_by_node_and_name() -> None:
    waiting = [{"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]
    pods = [
        pod("b", "n1"),
        pod("a", "n1", ready="False", containerStatuses=waiting),
        pod("b", "n1"),
        pod("ended", "n1", phase="Failed"),
        pod("unplaced", ""),
        {},
    ]
    first, second = exporters_of(pods)
    assert (str(first), first.problem, first.restarts) == ("ns/a", "it is not ready: CrashLoopBackOff", 3)
    assert (str(second), second.problem, second.interval_s) == ("ns/b", "", 15.0)


@pytest.mark.parametrize(
    ("container", "seconds"),
    [
        ({"args": ["-f", "/etc/counters.csv", "-c", "5000"]}, 5.0),
        ({"command": ["dcgm-exporter", "--collect-interval=250"]}, 0.25),
        ({"args": ["--collect-interval"]}, None),
        ({"env": [{"name": "DCGM_EXPORTER_INTERVAL", "valueFrom": {}}], "args": ["-c", "1000"]}, 1.0),
        ({"env": [{"name": "DCGM_EXPORTER_INTERVAL", "value": "0"}]}, None),
        ({"args": ["-c", "often"], "command": None}, None),
        ({}, None),
    ],
)
def test_the_interval_as_the_spec_says_it(container: dict[str, Any], seconds: float | None) -> None:
    assert interval_s([container]) == seconds


@pytest.fixture
def server() -> Iterator[rude.RudeServer]:
    with rude.serving() as running:
        yield running


@pytest.fixture
def cluster(server: rude.RudeServer, tmp_path: Path) -> Iterator[KubeCluster]:
    patience = Patience(first_s=0.01, longest_s=0.05, give_up_s=1.0, connect_s=5.0, call_s=5.0)
    connected = connect(kubeconfig=server.kubeconfig(tmp_path), patience=patience)
    yield connected
    connected.close()


def says(body: bytes, status: int = 200, content_type: str = TEXT) -> rude.Handler:
    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=body, headers={"Content-Type": content_type})

    return handler


async def half(request: web.Request) -> web.StreamResponse:
    """Half of the page that it announces, and a closed connection."""
    data = page().encode()
    response = web.StreamResponse(headers={"Content-Length": str(len(data)), "Content-Type": TEXT})
    await response.prepare(request)
    await response.write(data[: len(data) // 2])
    assert request.transport is not None
    request.transport.close()
    return response


async def trickle(request: web.Request) -> web.StreamResponse:
    """A byte now and then, for ever."""
    response = web.StreamResponse(headers={"Content-Type": TEXT})
    await response.prepare(request)
    for _ in range(200):
        await response.write(b"#")
        await asyncio.sleep(0.05)
    return response


async def silence(_: web.Request) -> web.StreamResponse:
    await asyncio.sleep(5)
    return web.Response()


@pytest.mark.parametrize(
    ("handler", "why"),
    [
        (says(b"Failed to collect metrics\n", 500), "HTTP 500: Failed to collect metrics"),
        (says(b"no endpoints available", 503), "HTTP 503: no endpoints available"),
        (says(b"<html>\n", content_type="text/html"), "no metrics"),
        (says(b"x" * 200_000), "longer than 100000 bytes"),
        (half, "broke off"),
        (trickle, "no whole page within 0.5 s"),
        (silence, "no whole page within 0.5 s"),
    ],
)
def test_what_goes_wrong_with_a_scrape(
    server: rude.RudeServer, cluster: KubeCluster, handler: rude.Handler, why: str
) -> None:
    server.on(PATH, handler)
    got = scrape(cluster, QUICK, EXPORTER)
    assert got.page is None
    assert why in got.error
    assert not got.forbidden
    assert server.count(PATH) == 1


def test_a_good_scrape_is_one_request(server: rude.RudeServer, cluster: KubeCluster) -> None:
    server.on(PATH, says(page().encode()))
    got = scrape(cluster, QUICK, EXPORTER)
    assert (got.error, got.form, got.size) == ("", "text 0.0.4", len(page()))
    assert got.page is not None
    assert len(got.page.gpus) == 2
    assert server.count(PATH) == 1


def test_a_harness_that_may_not_ask_knows_nothing_of_the_exporter(
    server: rude.RudeServer, cluster: KubeCluster
) -> None:
    async def refused(_: web.Request) -> web.StreamResponse:
        return rude.status(403, "Forbidden", 'cannot get resource "pods/proxy"')

    server.on(PATH, refused)
    assert scrape(cluster, QUICK, EXPORTER).forbidden
