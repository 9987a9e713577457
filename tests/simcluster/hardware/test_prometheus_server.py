"""The stand-in for Prometheus really scrapes, forgets at once what is gone, and answers in the documented shapes."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from simcluster.hardware.tools.prometheus_server import Server, answer

PAGE = '# TYPE A gauge\nA{UUID="u1",Hostname="n1",pod="p",namespace="ns"} 3\nB{UUID="u2",Hostname="n2"} 4\n'


@pytest.fixture
def exporter() -> Iterator[int]:
    """The port of an exporter on the loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/metrics" else 404)
            self.end_headers()
            self.wfile.write(PAGE.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Say nothing."""

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield int(server.server_address[1])
        server.shutdown()


def scraped(port: int, **environment: str) -> Server:
    server = Server({"TARGETS_HOST": "127.0.0.1", "TARGETS_PORT": str(port), **environment})
    for instance in server.discover():
        server.scrape(instance)
    return server


def values(server: Server, query: str) -> list[str]:
    status, body = answer(server, f"/api/v1/query?query={query}")
    assert status == 200
    assert isinstance(body, dict)
    return [one["value"][1] for one in body["data"]["result"]]


def test_what_was_scraped_is_kept(exporter: int) -> None:
    server = scraped(exporter, SCRAPE_INTERVAL_S="90")
    assert values(server, '{__name__=~"A|B"}') == ["3", "4"]
    assert values(server, 'A{UUID="u1"}') == ["3"]
    assert values(server, "up") == ["1"]
    (target,) = server.active()
    assert (target["health"], target["scrapeInterval"]) == ("up", "90s")
    assert target["labels"] == {"job": "gpu-metrics", "instance": f"127.0.0.1:{exporter}"}
    assert answer(server, "/api/v1/query?query=sum(A)")[0] == 400


def test_a_target_that_fails_takes_its_series_with_it(exporter: int) -> None:
    server = scraped(exporter)
    server.port = 1
    server.targets = {"127.0.0.1:1": next(iter(server.targets.values()))}
    server.scrape("127.0.0.1:1")
    assert values(server, '{__name__=~"A|B"}') == []
    assert values(server, "up") == ["0"]


def test_labels_are_renamed_and_series_dropped(exporter: int) -> None:
    server = scraped(exporter, HONOR_LABELS="0", DROP_HOSTNAME="n2")
    (kept,) = server.query('{__name__=~"A|B"}')
    labels = kept["metric"]
    assert isinstance(labels, dict)
    assert (labels["exported_pod"], labels["pod"]) == ("p", "exporter-127-0-0-1")
