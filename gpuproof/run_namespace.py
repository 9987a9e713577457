"""The namespace of a run: made, deleted, waited for; and those that killed runs left behind.

It must not know jobs or measurements.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gpuproof.cluster import raw
from gpuproof.cluster.port import NAMESPACES, PODS, Cluster, ClusterError
from gpuproof.manifests import MANAGED_BY, RUN_LABEL

_TELLING = (
    "NamespaceContentRemaining",
    "NamespaceFinalizersRemaining",
    "NamespaceDeletionContentFailure",
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
)
"""Conditions that say what holds a namespace that does not go away."""

STUCK_AFTER_S = 12.0
"""Longer than a pod's grace and Kubernetes' own first pause before it empties a namespace (5 s each)."""

MAX_FORCED = 20


@dataclass(frozen=True)
class Cleanup:
    """What deleting a namespace came to. `left` says what is still there and why, and what was removed by force."""

    namespace: str
    deleted: bool
    seconds: float
    left: tuple[str, ...] = ()


class RunNamespace:
    """One run's namespace; everything a run makes lives in it."""

    def __init__(self, cluster: Cluster, manifest: Mapping[str, Any]) -> None:
        self._cluster = cluster
        self._manifest = manifest
        self.name = raw.text(manifest, "metadata", "name")

    def create(self) -> None:
        """Create it; `ClusterError` when it exists or is refused."""
        self._cluster.create(NAMESPACES, self._manifest)

    def delete(self, deadline_s: float) -> Cleanup:
        """Delete it and wait until it is gone, at most `deadline_s`. Raises nothing: what fails is in `left`."""
        return delete_namespace(self._cluster, self.name, deadline_s)


def delete_namespace(
    cluster: Cluster, name: str, deadline_s: float, *, stuck_after_s: float = STUCK_AFTER_S
) -> Cleanup:
    """Delete a namespace and wait for its end by one watch, however long that takes.

    Pods whose kubelet does not confirm their end (a frozen or lost node) would hold it for ever: those still there
    after `stuck_after_s` are removed by force, and named in `left`, for a container may run on where nobody answers.
    """
    started = time.monotonic()
    forced: tuple[str, ...] = ()
    try:
        answer = cluster.delete(NAMESPACES, name)
        gone = not answer or _wait_until_gone(cluster, name, answer, min(stuck_after_s, deadline_s))
        if not gone and stuck_after_s < deadline_s:
            forced = _force(cluster, name)
            answer = cluster.delete(NAMESPACES, name)
            gone = not answer or _wait_until_gone(cluster, name, answer, deadline_s - stuck_after_s)
        left = () if gone else _what_is_left(cluster, name, deadline_s)
    except ClusterError as error:
        return Cleanup(name, False, time.monotonic() - started, (*forced, error.message))
    return Cleanup(name, gone or left is None, time.monotonic() - started, (*forced, *(left or ())))


def _force(cluster: Cluster, namespace: str) -> tuple[str, ...]:
    """Remove the objects of terminating pods at once; a sentence for each, for the first `MAX_FORCED`."""
    pods = cluster.list_objects(PODS, namespace=namespace).items
    stuck = [pod for pod in pods if raw.text(pod, "metadata", "deletionTimestamp")]
    said = []
    for pod in stuck[:MAX_FORCED]:
        name, node = raw.text(pod, "metadata", "name"), raw.text(pod, "spec", "nodeName") or "no node"
        cluster.delete(PODS, name, namespace=namespace, grace_s=0)
        said.append(f"pod {name} on {node} was removed by force: its kubelet did not confirm its end")
    return tuple(said)


def leftovers(
    cluster: Cluster,
    run_id: str | None = None,
    *,
    older_than: timedelta = timedelta(0),
    now: datetime | None = None,
) -> tuple[str, ...]:
    """
    The namespaces that runs of gpuproof (or one run) made, at least `older_than` ago, and that are still there.

    One whose age cannot be told is not among them where an age is asked for. Raises `ClusterError`.
    """
    selector = f"{MANAGED_BY}=gpuproof" + (f",{RUN_LABEL}={run_id}" if run_id else "")
    limit = (now or datetime.now(UTC)) - older_than
    items = cluster.list_objects(NAMESPACES, label_selector=selector).items
    return tuple(raw.text(item, "metadata", "name") for item in items if not older_than or _made_before(item, limit))


def _made_before(namespace: raw.Raw, limit: datetime) -> bool:
    try:
        made = datetime.fromisoformat(raw.text(namespace, "metadata", "creationTimestamp"))
    except ValueError:
        return False
    return made.tzinfo is not None and made <= limit


def _wait_until_gone(cluster: Cluster, name: str, answer: raw.Raw, deadline_s: float) -> bool:
    version = raw.text(answer, "metadata", "resourceVersion")
    if not version:
        # Some answers are a bare Status: then nothing says from where to watch, and one look must do.
        return _is_gone(cluster, name)
    watch = cluster.watch(
        NAMESPACES, field_selector=f"metadata.name={name}", resource_version=version, known=[("", name)]
    )
    alarm = threading.Timer(deadline_s, watch.close)
    alarm.start()
    try:
        return any(event.type == "DELETED" for event in watch)
    finally:
        alarm.cancel()
        alarm.join()
        watch.close()


def _is_gone(cluster: Cluster, name: str) -> bool:
    try:
        cluster.get(NAMESPACES, name)
    except ClusterError as error:
        if error.status == 404:
            return True
        raise
    return False


def _what_is_left(cluster: Cluster, name: str, deadline_s: float) -> tuple[str, ...] | None:
    """The namespace's own words on what holds it; None when it is gone by now."""
    try:
        namespace = cluster.get(NAMESPACES, name)
    except ClusterError as error:
        if error.status == 404:
            return None
        raise
    found = [raw.condition(namespace, kind) for kind in _TELLING]
    said = [f"{raw.text(entry, 'type')}: {raw.text(entry, 'message')}" for entry in found if _holds(entry)]
    return tuple(said) or (f"namespace {name} is still there after {deadline_s:g} s and does not say why",)


def _holds(condition: raw.Raw) -> bool:
    return raw.text(condition, "status") == "True"
