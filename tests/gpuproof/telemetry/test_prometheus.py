"""Prometheus is asked in its API's documented shapes, by Service or URL, and what it keeps is held against the pods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gpuproof.cluster.backoff import Patience
from gpuproof.cluster.kube import KubeCluster, connect
from gpuproof.expectation import Service
from gpuproof.finding import Context
from gpuproof.telemetry.exposition import Series
from gpuproof.telemetry.prometheus import Prometheus, PrometheusError, Target, duration_s
from gpuproof.telemetry.recording import Kept, failed, recording_of
from gpuproof.verdict import Judgement, Verdict, judge
from tests.gpuproof.cluster import rude_server as rude
from tests.gpuproof.telemetry.pages import PROFILE, SETTINGS, UUIDS
from workloads.contract import Measurement

CHECK = "dcgm_prometheus"
NOW = 1000.0
PROXY = "/api/v1/namespaces/monitoring/services/prometheus:9090/proxy"
PLACE = {"job": "gpu-metrics", "instance": "10.0.0.7:9400"}
TARGETS: dict[str, Any] = {
    "status": "success",
    "data": {
        "activeTargets": [
            {
                "discoveredLabels": {"__address__": "10.0.0.7:9400"},
                "labels": PLACE,
                "scrapePool": "gpu-metrics",
                "scrapeUrl": "http://10.0.0.7:9400/metrics",
                "globalUrl": "http://10.0.0.7:9400/metrics",
                "lastError": "",
                "lastScrape": "1970-01-01T00:16:38.5+00:00",
                "lastScrapeDuration": 0.050688943,
                "health": "up",
                "scrapeInterval": "1m",
                "scrapeTimeout": "10s",
            }
        ],
        "droppedTargets": [],
    },
}
VECTOR: dict[str, Any] = {
    "status": "success",
    "data": {
        "resultType": "vector",
        "result": [{"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": UUIDS[0]}, "value": [1435781451.781, "12"]}],
    },
}


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


@pytest.mark.parametrize("by_url", [False, True])
def test_its_documented_answers(server: rude.RudeServer, cluster: KubeCluster, *, by_url: bool) -> None:
    base = "" if by_url else PROXY
    place = f"http://127.0.0.1:{server.port}" if by_url else Service("monitoring", "prometheus", 9090)
    server.on(f"{base}/api/v1/targets", rude.answer(TARGETS))
    server.on(f"{base}/api/v1/query", rude.answer(VECTOR))
    prometheus = Prometheus(cluster, place, deadline_s=10, max_bytes=100_000)
    assert prometheus.targets() == (Target(PLACE, "up", "", 60.0, 0.050688943, 998.5),)
    assert prometheus.series(["A", "B"]) == (Series("DCGM_FI_DEV_GPU_UTIL", {"UUID": UUIDS[0]}, 12.0, "unknown"),)
    assert server.asked[-1][2] == {"query": '{__name__=~"A|B"}'}
    assert len(server.asked) == 2


def says(body: bytes, status: int = 200) -> rude.Handler:
    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=body)

    return handler


@pytest.mark.parametrize(
    ("handler", "why"),
    [
        (rude.answer({"status": "error", "errorType": "bad_data", "error": "parse error"}), "parse error"),
        (rude.answer({"status": "success", "data": {"resultType": "matrix", "result": []}}), "resultType"),
        (rude.answer({"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}}]}}), "value"),
        (says(b"<html>502</html>", 502), "HTTP 502"),
        (says(b"no endpoints available for service", 503), "no endpoints"),
        (says(b"[" * 200_000), "longer than"),
    ],
)
@pytest.mark.parametrize("by_url", [False, True])
def test_what_is_no_answer(
    server: rude.RudeServer, cluster: KubeCluster, handler: rude.Handler, why: str, *, by_url: bool
) -> None:
    server.on("/api/v1/query" if by_url else f"{PROXY}/api/v1/query", handler)
    place = f"http://127.0.0.1:{server.port}" if by_url else Service("monitoring", "prometheus", 9090)
    with pytest.raises(PrometheusError, match=why) as raised:
        Prometheus(cluster, place, deadline_s=10, max_bytes=100_000).series(["A"])
    assert not raised.value.forbidden


def test_who_may_not_ask_knows_nothing(server: rude.RudeServer, cluster: KubeCluster) -> None:
    server.on(f"{PROXY}/api/v1/targets", says(b"forbidden", 403))
    with pytest.raises(PrometheusError) as raised:
        Prometheus(cluster, Service("monitoring", "prometheus", 9090), deadline_s=10, max_bytes=1000).targets()
    assert raised.value.forbidden


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15s", 15), ("1m30s", 90), ("250ms", 0.25), ("1h", 3600), ("", None), ("15", None), ("x5s", None)],
)
def test_durations(text: str, seconds: float | None) -> None:
    assert duration_s(text) == seconds


TARGET = Target(PLACE, "up", "", 1.0, 0.05, NOW - 0.5)
SERIES = tuple(Series(name, {"UUID": uuid, **PLACE}, 1.0, "unknown") for name in SETTINGS.fields for uuid in UUIDS)


def kept(series: tuple[Series, ...] = SERIES, *targets: Target) -> Measurement:
    return recording_of(Kept(series, targets or (TARGET,), NOW), SETTINGS, UUIDS, run_id="r", node_name="n1")


def judged(measurement: Measurement) -> Judgement:
    return judge(CHECK, "n1", measurement, PROFILE.limits_for(CHECK), Context(PROFILE.cluster))


def test_all_kept_passes() -> None:
    assert judged(kept()).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("measurement", "why"),
    [
        (kept(()), "uuid_missing"),
        (kept(SERIES[2:]), "field_missing at item=0 is DCGM_FI_DEV_GPU_TEMP of GPU 0, GPU 1"),
        (kept(SERIES, replace(TARGET, health="down", error="connection refused")), "down: connection refused"),
        (kept(SERIES, replace(TARGET, labels={})), "not among the active targets"),
        (kept(SERIES, replace(TARGET, interval_s=600.0)), "scrape_interval is 600 s"),
        (kept(SERIES, replace(TARGET, scraped_at=NOW - 60)), "scrape_age_intervals is 60"),
        (
            kept((*SERIES, Series(SETTINGS.fields[0], {"UUID": UUIDS[0], "job": "b"}, 1.0, "unknown"))),
            "series_duplicate",
        ),
        (
            failed("/api/v1/query: no answer", run_id="r", node_name="n1"),
            "prometheus_error is /api/v1/query: no answer",
        ),
    ],
)
def test_what_is_not_kept_fails_and_is_named(measurement: Measurement, why: str) -> None:
    got = judged(measurement)
    assert got.verdict is Verdict.FAIL
    assert any(why in reason for reason in got.reasons), got.reasons


def test_renamed_labels_are_told() -> None:
    renamed = tuple(replace(one, labels={**one.labels, "exported_pod": "a", "pod": "exporter"}) for one in SERIES)
    assert str(kept(renamed).facts["pod_labels"]).startswith("exported_pod")
