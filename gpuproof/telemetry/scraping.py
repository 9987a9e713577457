"""One scrape of one exporter through the API's pod proxy: a page within a total time and a size, or why there is none.

It must not know how often it is done or what is made of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from gpuproof.cluster.port import PODS, Cluster, ClusterError
from gpuproof.expectation import Telemetry
from gpuproof.telemetry.exporters import Exporter
from gpuproof.telemetry.exposition import ACCEPT, OPENMETRICS, PageError, read_page
from gpuproof.telemetry.history import Scrape
from gpuproof.telemetry.readings import read_gpus


def scrape(cluster: Cluster, settings: Telemetry, exporter: Exporter, clock: Callable[[], float] = time.time) -> Scrape:
    """Ask once; raises nothing of the cluster's or the page's."""
    began = clock()

    def failed(error: str, size: int = 0) -> Scrape:
        return Scrape(exporter.node, str(exporter), began, clock(), size, error=error)

    try:
        page = cluster.proxy_get(
            PODS,
            exporter.name,
            settings.port,
            settings.path,
            namespace=exporter.namespace,
            accept=ACCEPT,
            deadline_s=settings.deadline_s,
            max_bytes=settings.max_bytes,
        )
    except ClusterError as error:
        if clock() - began >= settings.deadline_s:
            return failed(f"no whole page within {settings.deadline_s:g} s")
        return failed(error.message)
    ended = clock()
    if page.status != 200:
        said = " ".join(page.body[:200].decode("utf-8", "replace").split())
        if page.status in (401, 403):
            refused = f"the API refused a GET on pods/proxy in {exporter.namespace}: HTTP {page.status}: {said}"
            return Scrape(exporter.node, str(exporter), began, ended, error=refused, forbidden=True)
        return failed(f"HTTP {page.status}: {said or 'no text'}", len(page.body))
    try:
        reading = read_gpus(read_page(page.body, page.content_type))
    except PageError as error:
        return failed(str(error), len(page.body))
    form = OPENMETRICS if page.content_type.startswith(OPENMETRICS) else "text 0.0.4"
    return Scrape(exporter.node, str(exporter), began, ended, len(page.body), form, reading)
