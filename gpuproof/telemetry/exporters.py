"""Which pods are metrics exporters: on which node, ready or why not, started how often, and how often they look.

Pure: raw pod objects in, values out. It must not know how pods are listed or what an exporter answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpuproof.cluster import raw

INTERVAL_ENV = "DCGM_EXPORTER_INTERVAL"
_INTERVAL_FLAGS = ("-c", "--collect-interval")


@dataclass(frozen=True)
class Exporter:
    """One exporter pod. `problem` says why it cannot be asked; `interval_s` is None where its spec does not say it."""

    namespace: str
    name: str
    node: str
    uid: str
    problem: str
    restarts: int
    interval_s: float | None

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def exporters_of(pods: Iterable[raw.Raw]) -> tuple[Exporter, ...]:
    """The exporters among pods that were selected by label, by node and name; ended and unplaced ones left out."""
    found = {}
    for pod in pods:
        node, phase = raw.text(pod, "spec", "nodeName"), raw.text(pod, "status", "phase")
        if node and phase not in ("Succeeded", "Failed"):
            exporter = _exporter(pod, node, phase)
            found[exporter.uid or str(exporter)] = exporter
    return tuple(sorted(found.values(), key=lambda each: (each.node, each.namespace, each.name)))


def _exporter(pod: raw.Raw, node: str, phase: str) -> Exporter:
    statuses = raw.objects(pod, "status", "containerStatuses")
    restarts = [raw.at(status, "restartCount") for status in statuses]
    return Exporter(
        namespace=raw.text(pod, "metadata", "namespace"),
        name=raw.text(pod, "metadata", "name"),
        node=node,
        uid=raw.text(pod, "metadata", "uid"),
        problem=_problem(pod, phase, statuses),
        restarts=sum(count for count in restarts if isinstance(count, int)),
        interval_s=interval_s(raw.objects(pod, "spec", "containers")),
    )


def _problem(pod: raw.Raw, phase: str, statuses: Sequence[raw.Raw]) -> str:
    if raw.at(pod, "metadata", "deletionTimestamp"):
        return "it is being deleted"
    if raw.text(raw.condition(pod, "Ready"), "status") == "True":
        return ""
    waiting = next((raw.text(s, "state", "waiting", "reason") for s in statuses if raw.at(s, "state", "waiting")), "")
    return f"it is not ready: {waiting or phase or 'no status'}"


def interval_s(containers: Iterable[raw.Raw]) -> float | None:
    """How often the exporter looks at its GPUs, as its environment or arguments say it (milliseconds); else None."""
    for container in containers:
        for entry in raw.objects(container, "env"):
            if raw.text(entry, "name") == INTERVAL_ENV and (found := _seconds(raw.text(entry, "value"))):
                return found
        words = [*_words(container, "command"), *_words(container, "args")]
        for word, following in pairwise([*words, ""]):
            flag, _, value = word.partition("=")
            if flag in _INTERVAL_FLAGS and (found := _seconds(value or following)):
                return found
    return None


def _words(container: raw.Raw, key: str) -> list[str]:
    found = raw.at(container, key)
    return [word for word in found if isinstance(word, str)] if isinstance(found, list) else []


def _seconds(milliseconds: str) -> float | None:
    digits = milliseconds.isascii() and milliseconds.isdigit() and len(milliseconds) < 10
    return int(milliseconds) / 1000.0 if digits and int(milliseconds) > 0 else None
