"""Asks a Prometheus over its HTTP API, through the API's Service proxy or by a URL: an instant vector, its targets.

Shapes are those of Prometheus' documentation (HTTP API: instant queries, targets). It must not know what is asked for.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from urllib.parse import urlencode

import urllib3
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gpuproof.cluster.port import SERVICES, Cluster, ClusterError, Page
from gpuproof.expectation import Service
from gpuproof.failure import Reason
from gpuproof.telemetry.exposition import Series

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0, "y": 31536000.0}
_DURATION = re.compile(r"(\d+)(ms|s|m|h|d|w|y)")
_CHUNK_BYTES = 1 << 16


class PrometheusError(Exception):
    """Prometheus did not answer what was asked; `forbidden` where the API would not let the harness ask."""

    def __init__(self, message: str, *, forbidden: bool = False) -> None:
        super().__init__(message)
        self.forbidden = forbidden


@dataclass(frozen=True)
class Target:
    """One scraped endpoint. `scraped_at` is Unix time by Prometheus' clock, None where it never was."""

    labels: Mapping[str, str]
    health: str
    error: str
    interval_s: float | None
    took_s: float | None
    scraped_at: float | None


class _Wire(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Sample(_Wire):
    metric: dict[str, str]
    value: tuple[float, str]


class _Vector(_Wire):
    resultType: Literal["vector"]  # noqa: N815 - the wire's name
    result: list[_Sample]


class _Target(_Wire):
    labels: dict[str, str] = Field(default_factory=dict)
    health: str = "unknown"
    lastError: str = ""  # noqa: N815
    scrapeInterval: str = ""  # noqa: N815
    lastScrapeDuration: float | None = None  # noqa: N815
    lastScrape: datetime | None = None  # noqa: N815


class _Targets(_Wire):
    activeTargets: list[_Target]  # noqa: N815


class _Answer(_Wire):
    status: str
    error: str = ""
    message: str = ""
    """What the API server says in the place of a Service without a pod."""
    data: Any = None


class Prometheus:
    """One Prometheus; every question has `deadline_s` in all and an answer of at most `max_bytes`. Asks once."""

    def __init__(self, cluster: Cluster, place: str | Service, *, deadline_s: float, max_bytes: int) -> None:
        self._cluster, self._place = cluster, place
        self._deadline_s, self._max_bytes = deadline_s, max_bytes

    def series(self, names: Sequence[str]) -> tuple[Series, ...]:
        """The present value of every series with one of these names. Raises `PrometheusError`."""
        query = '{__name__=~"' + "|".join(names) + '"}'
        try:
            vector = _Vector.model_validate(self._ask("/api/v1/query", [("query", query)]))
        except ValidationError as error:
            raise PrometheusError(f"/api/v1/query: {_first(error)}") from error
        found = []
        for sample in vector.result:
            labels = dict(sample.metric)
            try:
                value = float(sample.value[1])
            except ValueError as error:
                raise PrometheusError(f"/api/v1/query: {sample.value[1][:40]!r} is no number") from error
            found.append(Series(labels.pop("__name__", ""), labels, value, "unknown"))
        return tuple(found)

    def targets(self) -> tuple[Target, ...]:
        """Every active target. Raises `PrometheusError`."""
        try:
            found = _Targets.model_validate(self._ask("/api/v1/targets", [("state", "active")])).activeTargets
        except ValidationError as error:
            raise PrometheusError(f"/api/v1/targets: {_first(error)}") from error
        return tuple(
            Target(
                each.labels,
                each.health,
                each.lastError,
                duration_s(each.scrapeInterval),
                each.lastScrapeDuration,
                each.lastScrape.timestamp() if each.lastScrape is not None and each.lastScrape.year > 1 else None,
            )
            for each in found
        )

    def _ask(self, path: str, query: Sequence[tuple[str, str]]) -> Any:
        try:
            page = (
                self._through(self._place, path, query) if isinstance(self._place, Service) else self._get(path, query)
            )
        except ClusterError as error:
            raise PrometheusError(f"{path}: {error.message}") from error
        if page.status in (401, 403):
            raise PrometheusError(f"{path}: HTTP {page.status}: not allowed to ask", forbidden=True)
        try:
            answer = _Answer.model_validate_json(page.body)
        except ValidationError as error:
            said = " ".join(page.body[:200].decode("utf-8", "replace").split())
            raise PrometheusError(f"{path}: HTTP {page.status}, no answer of Prometheus: {said}") from error
        if answer.status != "success":
            raise PrometheusError(f"{path}: HTTP {page.status}: {answer.error or answer.message or answer.status}")
        return answer.data

    def _through(self, service: Service, path: str, query: Sequence[tuple[str, str]]) -> Page:
        return self._cluster.proxy_get(
            SERVICES,
            service.name,
            service.port,
            path,
            namespace=service.namespace,
            accept="application/json",
            deadline_s=self._deadline_s,
            max_bytes=self._max_bytes,
            query=query,
        )

    def _get(self, path: str, query: Sequence[tuple[str, str]]) -> Page:
        until = time.monotonic() + self._deadline_s
        try:
            with urllib3.PoolManager(retries=False) as pool:
                url = f"{self._place}{path}?{urlencode(list(query))}"
                response = pool.request("GET", url, timeout=self._deadline_s, preload_content=False)
                content = bytearray()
                for chunk in response.stream(_CHUNK_BYTES):
                    content += chunk
                    if len(content) > self._max_bytes or time.monotonic() > until:
                        response.close()
                        said = f"the answer is longer than {self._max_bytes} bytes or {self._deadline_s:g} s"
                        raise ClusterError(Reason.CLUSTER_UNREACHABLE, said)
                return Page(response.status, response.headers.get("Content-Type", ""), bytes(content))
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ClusterError(Reason.CLUSTER_UNREACHABLE, f"no answer: {type(error).__name__}: {error}") from error


def duration_s(text: str) -> float | None:
    """Seconds of a duration such as 1m30s; None for what is none."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(int(number) * _UNITS_S[unit] for number, unit in parts)


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"not the answer of Prometheus' API: {'.'.join(map(str, first['loc']))}: {first['msg']}"
