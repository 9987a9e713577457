"""What was read of one node's exporter over a run: scrapes in order, failures, restarts, GPU time held and used.

Pure: it is fed scrapes and lists of exporters. It must not know threads, requests or limits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuproof.telemetry.exporters import Exporter
from gpuproof.telemetry.readings import GpuReading, Identity, PageReading, compact, utilisation

MAX_SCRAPES = 500
"""A node's scrapes that are kept, about 6 MB for eight GPUs; older ones only count."""


@dataclass(frozen=True)
class Scrape:
    """One attempt to read an exporter. `began` and `ended` are Unix time; `error` is "" where a page was read."""

    node: str
    exporter: str
    began: float
    ended: float
    size: int = 0
    form: str = ""
    page: PageReading | None = None
    error: str = ""
    forbidden: bool = False
    """The API refused the request: it is the harness that may not ask, and nothing is known of the exporter."""

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.ended - self.began

    @property
    def at(self) -> float:
        """The moment that its values speak of, as nearly as the harness can say."""
        return (self.began + self.ended) / 2


@dataclass
class GpuTime:
    """GPU seconds of a node, summed from one good scrape to the next: watched, under a pod's name, and busy."""

    watched_s: float = 0.0
    allocated_s: float = 0.0
    busy_s: float = 0.0


@dataclass
class NodeHistory:
    """Not thread-safe: whoever feeds it takes care of that."""

    node: str
    scrapes: deque[Scrape] = field(default_factory=lambda: deque(maxlen=MAX_SCRAPES))
    first: Scrape | None = None
    latest: Scrape | None = None
    """The last good one, with every field."""
    asked: int = 0
    answered: int = 0
    slowest_s: float = 0.0
    gpu_time: GpuTime = field(default_factory=GpuTime)
    exporters: tuple[Exporter, ...] = ()
    _restarts: dict[str, tuple[int, int]] = field(default_factory=dict)
    _most_at_once: int = 0

    def listed(self, exporters: Sequence[Exporter]) -> None:
        """The exporters that are on the node now."""
        self.exporters = tuple(exporters)
        self._most_at_once = max(self._most_at_once, len(exporters))
        for each in exporters:
            first, _ = self._restarts.get(each.uid, (each.restarts, 0))
            self._restarts[each.uid] = (first, each.restarts)

    @property
    def restarts(self) -> int:
        """How often an exporter of this node was started anew since the first look at it, or replaced by another."""
        again = sum(last - first for first, last in self._restarts.values())
        return again + max(0, len(self._restarts) - self._most_at_once)

    @property
    def exporter(self) -> Exporter | None:
        """The one that is read: the first by name that is ready."""
        return next((each for each in self.exporters if not each.problem), None)

    @property
    def interval_s(self) -> float | None:
        """How often the exporter looks at its GPUs, as its pod's spec says."""
        return next((each.interval_s for each in self.exporters if each.interval_s is not None), None)

    def add(self, scrape: Scrape) -> None:
        """One more scrape, good or not."""
        self.asked += 1
        self.slowest_s = max(self.slowest_s, scrape.seconds)
        if scrape.page is None:
            self.scrapes.append(scrape)
            return
        self.answered += 1
        kept = PageReading({key: compact(gpu) for key, gpu in scrape.page.gpus.items()})
        small = Scrape(scrape.node, scrape.exporter, scrape.began, scrape.ended, scrape.size, scrape.form, kept)
        if self.latest is not None and self.latest.page is not None:
            self._sum_up(self.latest.page.gpus, scrape.at - self.latest.at)
        self.scrapes.append(small)
        self.first = self.first or small
        self.latest = scrape

    def _sum_up(self, gpus: Mapping[Identity, GpuReading], seconds: float) -> None:
        """What was seen last holds until the next look."""
        for gpu in gpus.values():
            busy = utilisation(gpu)
            if busy is None:
                continue
            self.gpu_time.watched_s += seconds
            self.gpu_time.busy_s += seconds * busy / 100.0
            self.gpu_time.allocated_s += seconds * any(holder is not None and holder.pod for holder in gpu.holders)

    def good(self, since: float = 0.0, until: float = float("inf")) -> list[Scrape]:
        """The good scrapes that began and ended in this stretch of Unix time, in order."""
        return [each for each in self.scrapes if each.page is not None and since <= each.began and each.ended <= until]

    def failed(self, since: float, until: float) -> list[Scrape]:
        """The scrapes that brought no page and touch this stretch of Unix time, in order."""
        return [each for each in self.scrapes if each.page is None and each.ended >= since and each.began <= until]

    def since(self, began: float) -> list[Scrape]:
        """The scrapes that began then or later, good or not."""
        return [each for each in self.scrapes if each.began >= began]
