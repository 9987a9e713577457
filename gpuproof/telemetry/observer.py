"""The telemetry of one run: read from its beginning to its end, written down moment by moment, asked by checks.

It must not know a limit, a verdict or how a workload is run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from gpuproof.cluster.port import PODS, Cluster, ClusterError
from gpuproof.expectation import Service, Telemetry
from gpuproof.failure import JobFailure, Reason
from gpuproof.manifests import CHECK_LABEL, MEASURE
from gpuproof.suite import Answer
from gpuproof.telemetry.attribution import Question, attribution_of, lag_of
from gpuproof.telemetry.export import NONE, export_of
from gpuproof.telemetry.history import GpuTime, NodeHistory, Scrape
from gpuproof.telemetry.prometheus import Prometheus, PrometheusError
from gpuproof.telemetry.readings import Holder
from gpuproof.telemetry.recording import Kept, failed, recording_of
from gpuproof.telemetry.sampler import Sampler
from gpuproof.telemetry.windows import Sight
from workloads.contract import Measurement

SEEN_UUIDS = "pod_gpu_uuid"
"""The fact in which a pod says which GPUs it saw, in its order."""

GONE_WITHIN_S = 30.0
"""Deleted pods of a sweep are waited for so long: their grace period, and what a kubelet needs."""
_ASK_AGAIN_S = 0.5


class Observer:
    """Without `settings` it reads nothing and every question is answered by saying so."""

    def __init__(self, cluster: Cluster, settings: Telemetry | None, *, run_id: str, namespace: str) -> None:
        self._cluster, self._settings = cluster, settings
        self._run_id, self._namespace = run_id, namespace
        self._sampler: Sampler | None = None
        self._nodes: tuple[str, ...] = ()
        self._asked: dict[str, float] = {}
        self._arrived: dict[tuple[str, str], float] = {}
        self._since: dict[str, float] = {}
        self._gone: dict[str, float] = {}
        self._kept: dict[str, Kept | PrometheusError] = {}
        self._stop = threading.Event()

    def begin(self, nodes: Collection[str], on_moment: Callable[[Sequence[Scrape]], None]) -> None:
        """Start to read these nodes' exporters."""
        if self._settings is None or not nodes:
            return
        self._nodes = tuple(nodes)
        self._sampler = Sampler(self._cluster, self._settings, nodes, on_moment)
        self._sampler.start()

    def close(self) -> None:
        """Read no more."""
        self._stop.set()
        if self._sampler is not None:
            self._sampler.close()

    def gpu_time(self) -> Mapping[str, GpuTime]:
        """GPU seconds watched, allocated and busy, by node."""
        found = {}
        for node in self._nodes if self._sampler is not None else ():
            assert self._sampler is not None
            with self._sampler.reading(node) as history:
                found[node] = history.gpu_time
        return found

    def job_started(self, check: str) -> None:
        """The first Job of a check was created now."""
        self._asked.setdefault(check, time.time())

    def arrived(self, check: str, node: str) -> None:
        """The answer of a node came in now."""
        self._arrived.setdefault((check, node), time.time())

    def export(self, check: str, node: str, seen: Answer) -> Answer:
        """What the node's exporter tells, beside the GPUs that a pod on it saw."""
        if isinstance(seen, JobFailure):
            return seen
        settings, sampler = self._settings, self._sampler
        if settings is None or sampler is None:
            return _unset()
        # All nodes of a check are held against pages from the same moment on, so that nobody waits twice.
        since = self._since.setdefault(check, time.time())
        sampler.wait_for_list(since)
        sampler.wait_for_page(node, since)
        with sampler.reading(node) as history:
            if (refused := _refused(history, sampler.list_error)) is not None:
                return refused
            return export_of(
                history,
                settings,
                _uuids(seen),
                run_id=self._run_id,
                since=since,
                node_name=node,
            )

    def recording(self, check: str, node: str, seen: Answer) -> Answer:
        """What Prometheus keeps of the GPUs that a pod on the node saw; it is asked once for all nodes of a check."""
        if isinstance(seen, JobFailure):
            return seen
        settings = self._settings
        if settings is None or settings.prometheus is None:
            said = "the profile has no [telemetry] prometheus; add it, or make the check not-applicable"
            return JobFailure(Reason.HARNESS_ERROR, said)
        if check not in self._kept:
            self._kept[check] = self._ask_prometheus(settings, settings.prometheus)
        kept = self._kept[check]
        if isinstance(kept, PrometheusError):
            if kept.forbidden:
                return JobFailure(Reason.FORBIDDEN, f"{kept}; grant get on services/proxy (deploy/rbac.yaml)")
            return failed(str(kept), run_id=self._run_id, node_name=node)
        return recording_of(kept, settings, _uuids(seen), run_id=self._run_id, node_name=node)

    def _ask_prometheus(self, settings: Telemetry, place: str | Service) -> Kept | PrometheusError:
        most = settings.max_bytes * max(1, len(self._nodes))
        prometheus = Prometheus(self._cluster, place, deadline_s=settings.deadline_s, max_bytes=most)
        until = time.monotonic() + settings.ready_s
        while True:
            found = _kept(prometheus, settings)
            # One that has just come up has scraped nothing yet.
            ready = isinstance(found, Kept) and found.series
            if ready or time.monotonic() >= until or self._stop.wait(_ASK_AGAIN_S):
                return found

    def attribution(self, check: str, node: str, load: Answer) -> Answer:
        """What the node's exporter told of a load that has ended; its Job must have been deleted."""
        if isinstance(load, JobFailure):
            return load
        settings, sampler = self._settings, self._sampler
        if settings is None or sampler is None:
            return _unset()
        ended_by = self._all_gone(check)
        asked = self._asked.get(check, ended_by)
        question = Question(
            load=load,
            sight=Sight(asked, self._arrived.get((check, node), ended_by)),
            holder=Holder(self._namespace, load.pod, MEASURE),
            ended_by=ended_by,
            interval_s=None,
        )
        return self._follow(sampler, settings, node, question)

    def _follow(self, sampler: Sampler, settings: Telemetry, node: str, question: Question) -> Answer:
        until = time.monotonic() + settings.ready_s
        sampler.wait_for_list(question.ended_by)
        while True:
            with sampler.reading(node) as history:
                interval_s = history.interval_s
            lag_s = lag_of(interval_s or 0.0, settings, question.load)
            sampler.wait_for_page(node, max(question.ended_by + lag_s, time.time() - settings.every_s))
            asked = Question(question.load, question.sight, question.holder, question.ended_by, interval_s)
            with sampler.reading(node) as history:
                found = attribution_of(history, settings, asked)
            # An exporter may be late to forget a pod; only one that never does keeps a finished pod's series.
            if found.facts["stale_pod"] == [NONE] or time.monotonic() >= until or self._stop.wait(settings.every_s):
                return found

    def _all_gone(self, check: str) -> float:
        """The moment from which on no pod of this check is on any node; asked once a check."""
        if check in self._gone:
            return self._gone[check]
        until = time.monotonic() + GONE_WITHIN_S
        while time.monotonic() < until:
            try:
                left = self._cluster.list_objects(
                    PODS, namespace=self._namespace, label_selector=f"{CHECK_LABEL}={check}"
                ).items
            except ClusterError:
                break  # the exporters will show whether they are gone
            if not left or self._stop.wait(_ASK_AGAIN_S):
                break
        return self._gone.setdefault(check, time.time())


def _kept(prometheus: Prometheus, settings: Telemetry) -> Kept | PrometheusError:
    try:
        targets = prometheus.targets()
        asked_at = time.time()
        return Kept(prometheus.series(settings.fields), targets, asked_at)
    except PrometheusError as error:
        return error


def _uuids(seen: Measurement) -> list[str]:
    """The GPUs that a pod saw, in its order."""
    uuids = seen.facts.get(SEEN_UUIDS, [])
    return [str(uuid) for uuid in uuids] if isinstance(uuids, list) else []


def _refused(history: NodeHistory, list_error: ClusterError | None) -> JobFailure | None:
    """Why nothing is known of a node's exporter for want of rights or of an API, which is not the exporter's fault."""
    if list_error is not None:
        said = f"the exporters could not be listed: {list_error.message}; grant list on pods in all namespaces"
        return JobFailure(list_error.reason, said)
    last = history.scrapes[-1] if history.scrapes else None
    if last is not None and last.forbidden:
        return JobFailure(Reason.FORBIDDEN, f"{last.error}; grant get on pods/proxy (deploy/rbac.yaml)")
    return None


def _unset() -> JobFailure:
    said = "the profile has no [telemetry], so no exporter can be found; add it, or make the check not-applicable"
    return JobFailure(Reason.HARNESS_ERROR, said)
