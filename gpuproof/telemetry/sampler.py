"""Reads every node's exporter again and again beside everything else a run does, and keeps what it read.

One request an exporter and moment: telemetry is the one thing that nobody but the exporter of a node can tell, so these
requests grow with the nodes; they are `every_s` apart, at most `WORKERS` at once, and bounded in time and size. An
exporter that fails is asked ever more rarely. It must not know what is made of the readings.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from gpuproof.cluster.port import PODS, Cluster, ClusterError
from gpuproof.cluster.raw import Raw
from gpuproof.expectation import Telemetry
from gpuproof.telemetry.exporters import Exporter, exporters_of
from gpuproof.telemetry.history import NodeHistory, Scrape
from gpuproof.telemetry.scraping import scrape

WORKERS = 8
_LIST_EVERY = 4
"""So many moments pass between two lists of the exporters while something is wrong with one of them …"""
_LIST_ALWAYS = 60
"""… and while nothing is."""
_MOST_PATIENT = 8
_CLOSE_WITHIN_S = 5.0
_POLL_S = 0.2

OnMoment = Callable[[Sequence[Scrape]], None]
"""Called with the scrapes that ended since the last call, from the sampler's own thread."""


class Sampler:
    """Start it once, close it always. `histories` may be read under `reading()` only."""

    def __init__(self, cluster: Cluster, settings: Telemetry, nodes: Collection[str], on_moment: OnMoment) -> None:
        self._cluster = cluster
        self._settings = settings
        self._histories = {node: NodeHistory(node) for node in nodes}
        self._on_moment = on_moment
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._fresh: list[Scrape] = []
        self._busy: set[str] = set()
        self._due: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self._listed_at = 0.0
        self._list_wanted = 0.0
        self._moments = 0
        self.list_error: ClusterError | None = None
        """Why the exporters could not be listed the last time; None where they could."""
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="scrape")
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End, without waiting longer than one scrape may take."""
        self._stop.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(_CLOSE_WITHIN_S + self._settings.deadline_s)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._hand_over()

    @contextlib.contextmanager
    def reading(self, node: str) -> Iterator[NodeHistory]:
        """The node's history, which does not change meanwhile."""
        with self._changed:
            yield self._histories[node]

    def wait_for_page(self, node: str, after: float) -> None:
        """Wait for a page whose scrape began at `after` (Unix time) or later.

        Ends without one after `attempts` failures since then, after `ready_s` without an exporter that can be asked,
        and with `close`.
        """
        patience = max(0.0, after - time.time()) + self._settings.ready_s
        until = time.monotonic() + patience
        with self._changed:
            while not self._stop.is_set() and not self._settled(node, after, late=time.monotonic() >= until):
                self._changed.wait(_POLL_S)

    def _settled(self, node: str, after: float, *, late: bool) -> bool:
        history = self._histories[node]
        found = history.since(after)
        if any(each.page is not None for each in found):
            return True
        if sum(each.page is None for each in found) >= self._settings.attempts:
            return True
        return late and (history.exporter is None or not found)

    def wait_for_list(self, after: float) -> None:
        """Wait until the exporters were listed at `after` (Unix time) or later, or could not be."""
        with self._changed:
            self._list_wanted = max(self._list_wanted, after)
            until = time.monotonic() + self._settings.ready_s
            while not self._stop.is_set() and self._listed_at < after and time.monotonic() < until:
                self._changed.wait(_POLL_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            if self._must_list():
                self._list()
            self._submit()
            self._hand_over()
            self._moments += 1
            self._stop.wait(max(0.0, self._settings.every_s - (time.monotonic() - began)))

    def _must_list(self) -> bool:
        with self._changed:
            wanted = self._list_wanted > self._listed_at
            wrong = any(each.exporter is None for each in self._histories.values()) or any(self._failures.values())
        every = _LIST_EVERY if wrong else _LIST_ALWAYS
        return wanted or self._moments % every == 0

    def _list(self) -> None:
        began = time.time()
        pods: list[Raw] = []
        try:
            for selector in self._settings.selectors:
                pods += self._cluster.list_objects(PODS, label_selector=selector).items
        except ClusterError as error:
            with self._changed:
                self.list_error = error
                self._listed_at = began
                self._changed.notify_all()
            return
        found = exporters_of(pods)
        with self._changed:
            self.list_error = None
            for node, history in self._histories.items():
                history.listed([each for each in found if each.node == node])
            self._listed_at = began
            self._changed.notify_all()

    def _submit(self) -> None:
        now = time.monotonic()
        with self._changed:
            chosen = [each for history in self._histories.values() if (each := history.exporter) is not None]
            due = [each for each in chosen if each.node not in self._busy and self._due.get(each.node, 0.0) <= now]
            self._busy.update(each.node for each in due)
        for each in due:
            self._pool.submit(self._scrape, each)

    def _scrape(self, exporter: Exporter) -> None:
        done = scrape(self._cluster, self._settings, exporter)
        with self._changed:
            node = exporter.node
            self._busy.discard(node)
            failures = 0 if done.page is not None else self._failures.get(node, 0) + 1
            self._failures[node] = failures
            wait_s = self._settings.every_s * (min(2**failures, _MOST_PATIENT) if failures else 0)
            self._due[node] = time.monotonic() + wait_s
            self._histories[node].add(done)
            self._fresh.append(done)
            self._changed.notify_all()

    def _hand_over(self) -> None:
        with self._changed:
            fresh, self._fresh = self._fresh, []
        if fresh:
            self._on_moment(fresh)
