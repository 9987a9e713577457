"""Stand-in for Prometheus: scrapes the exporters that a DNS name leads to, keeps each series' last sample, answers.

Owns the scrape loop, staleness and the two endpoints that a reader of GPU metrics needs (`/api/v1/query` with one
selector, `/api/v1/targets`), in the shapes of Prometheus' HTTP API documentation. It must not import the simulator.

Environment: TARGETS_HOST, TARGETS_PORT, SCRAPE_INTERVAL_S, HONOR_LABELS ("0" keeps `pod` for the target's own and
renames the exporter's to `exported_pod`), DROP_HOSTNAME (a relabelling that drops one node's series).
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = 9090
JOB = "gpu-metrics"
LOOKBACK_S = 300.0
"""Prometheus' own: a series without a sample for five minutes is gone."""
_TIMEOUT_S = 10.0
_LINE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
_PAIR = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_SELECTOR = re.compile(r"^(\w*)(?:\{(.*)\})?$")
_MATCHER = re.compile(r'(\w+)\s*(=~|=)\s*"([^"]*)"')

Labels = dict[str, str]
Samples = dict[tuple[tuple[str, str], ...], tuple[float, str]]
"""Time and value by labels."""


@dataclass
class Target:
    """One exporter as the last scrape found it."""

    instance: str
    health: str = "unknown"
    error: str = ""
    scraped_at: float = 0.0
    took_s: float = 0.0
    samples: Samples = field(default_factory=dict)


class Server:
    """All targets and what they told last."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.host = environment.get("TARGETS_HOST", "")
        self.port = int(environment.get("TARGETS_PORT", "9400"))
        self.interval_s = float(environment.get("SCRAPE_INTERVAL_S", "15"))
        self.honor = environment.get("HONOR_LABELS", "1") != "0"
        self.drop = environment.get("DROP_HOSTNAME", "")
        self.targets: dict[str, Target] = {}
        self._lock = threading.Lock()

    def run(self) -> None:
        """Discover and scrape for ever."""
        while True:
            for instance in self.discover():
                threading.Thread(target=self.scrape, args=(instance,), daemon=True).start()
            time.sleep(self.interval_s)

    def discover(self) -> list[str]:
        """The addresses behind the name; those that are gone take their series with them."""
        try:
            found = {str(info[4][0]) for info in socket.getaddrinfo(self.host, self.port, socket.AF_INET)}
        except OSError:
            found = set()
        instances = sorted(f"{address}:{self.port}" for address in found)
        with self._lock:
            self.targets = {each: self.targets.get(each) or Target(each) for each in instances}
        return instances

    def scrape(self, instance: str) -> None:
        """One scrape; a failed one makes the target's series stale at once."""
        began = time.time()
        new = Target(instance, "up", scraped_at=began)
        try:
            with urllib.request.urlopen(f"http://{instance}/metrics", timeout=_TIMEOUT_S) as answer:
                new.samples = dict(self.samples(answer.read().decode(), instance, began))
        except (OSError, ValueError, urllib.error.URLError) as error:
            new.health, new.error = "down", str(error)
        new.took_s = time.time() - began
        with self._lock:
            if instance in self.targets:
                self.targets[instance] = new

    def samples(
        self, page: str, instance: str, at: float
    ) -> Iterator[tuple[tuple[tuple[str, str], ...], tuple[float, str]]]:
        """The page's series with the target's labels beside their own."""
        for line in page.splitlines():
            match = None if line.startswith("#") else _LINE.match(line)
            if match is None:
                continue
            labels = dict(_PAIR.findall(match[2] or ""))
            if self.drop and labels.get("Hostname") == self.drop:
                continue
            if not self.honor:
                for key in ("pod", "namespace", "container"):
                    if key in labels:
                        labels[f"exported_{key}"] = labels.pop(key)
                labels["pod"] = f"exporter-{instance.replace('.', '-').partition(':')[0]}"
            labels |= {"__name__": match[1], "job": JOB, "instance": instance}
            yield tuple(sorted(labels.items())), (at, match[3])

    def query(self, text: str) -> list[dict[str, object]]:
        """An instant vector. Raises ValueError for what is no single selector."""
        match = _SELECTOR.match(text.strip())
        if match is None:
            raise ValueError(f"only one selector can be asked for: {text}")
        wanted = [(key, kind, value) for key, kind, value in _MATCHER.findall(match[2] or "")]
        wanted += [("__name__", "=", match[1])] if match[1] else []
        now = time.time()
        return [
            {"metric": dict(labels), "value": [now, value]}
            for labels, (at, value) in self._all()
            if now - at <= LOOKBACK_S and all(_fits(dict(labels).get(k, ""), kind, v) for k, kind, v in wanted)
        ]

    def _all(self) -> Iterator[tuple[tuple[tuple[str, str], ...], tuple[float, str]]]:
        with self._lock:
            targets = list(self.targets.values())
        for target in targets:
            own = {"__name__": "up", "job": JOB, "instance": target.instance}
            yield tuple(own.items()), (target.scraped_at, "1" if target.health == "up" else "0")
            yield from target.samples.items()

    def active(self) -> list[dict[str, object]]:
        """The targets as `/api/v1/targets` lists them."""
        with self._lock:
            targets = list(self.targets.values())
        return [
            {
                "labels": {"job": JOB, "instance": each.instance},
                "scrapePool": JOB,
                "scrapeUrl": f"http://{each.instance}/metrics",
                "lastError": each.error,
                "lastScrape": _stamp(each.scraped_at),
                "lastScrapeDuration": each.took_s,
                "health": each.health,
                "scrapeInterval": _duration(self.interval_s),
                "scrapeTimeout": _duration(_TIMEOUT_S),
            }
            for each in targets
        ]


def _fits(value: str, kind: str, wanted: str) -> bool:
    return value == wanted if kind == "=" else re.fullmatch(wanted, value) is not None


def _stamp(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 1000):03d}Z"


def _duration(seconds: float) -> str:
    if seconds % 60 == 0:
        return f"{seconds // 60:.0f}m"
    return f"{seconds:.0f}s" if seconds % 1 == 0 else f"{seconds * 1000:.0f}ms"


def answer(server: Server, target: str) -> tuple[int, object]:
    """Status and body of a GET."""
    parts = urllib.parse.urlsplit(target)
    given = dict(urllib.parse.parse_qsl(parts.query))
    if parts.path == "/-/ready":
        return 200, "ready"
    if parts.path == "/api/v1/targets":
        return 200, {"status": "success", "data": {"activeTargets": server.active(), "droppedTargets": []}}
    if parts.path == "/api/v1/query":
        try:
            result = server.query(given.get("query", ""))
        except (ValueError, re.error) as error:
            return 400, {"status": "error", "errorType": "bad_data", "error": str(error)}
        return 200, {"status": "success", "data": {"resultType": "vector", "result": result}}
    return 404, {"status": "error", "errorType": "not_found", "error": parts.path}


def main() -> int:
    """Serve until killed."""
    server = Server(dict(os.environ))

    class Handler(BaseHTTPRequestHandler):
        """One GET."""

        def do_GET(self) -> None:
            """Answer it."""
            status, body = answer(server, self.path)
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Say nothing: a line a request is nobody's news."""

    threading.Thread(target=server.run, daemon=True).start()
    sys.stdout.write(f"Server is ready to receive web requests on :{PORT}\n")
    sys.stdout.flush()
    ThreadingHTTPServer(("", PORT), Handler).serve_forever()
    return 0
