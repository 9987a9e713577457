"""Tries every storage of the profile once: a claim is made, bound, looked at, asked to grow where the profile says so,
and deleted, and its volume must go too.

It must not know a limit or a verdict, or what is ever written to a volume.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gpuproof.claim_expansion import ClaimExpansion, last_event
from gpuproof.cluster import raw
from gpuproof.cluster.port import CLAIMS, STORAGE_CLASSES, VOLUMES, Cluster, ClusterError, Resource
from gpuproof.cluster.raw import Raw
from gpuproof.manifests import Renderer
from gpuproof.quantities import quantity
from workloads.contract import Fact, Measurement, Sample

WORKLOAD = "claim_trial"
"""The name under which it is recorded; no program of that name runs in a pod."""

_WAITS = "WaitForFirstConsumer"


@dataclass
class ClaimTrial:
    """One trial of all storages; `within_s` bounds each wait. Raises `ClusterError` where the API does not answer."""

    cluster: Cluster
    renderer: Renderer
    within_s: float
    clock: Callable[[], float] = time.monotonic
    samples: list[Sample] = field(default_factory=list)
    facts: dict[str, Fact] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)
    other_modes: list[str] = field(default_factory=list)
    expansion: ClaimExpansion = field(init=False)

    def __post_init__(self) -> None:
        self.expansion = ClaimExpansion(self.cluster, self.renderer.namespace, self.wait, self.clock)

    def run(self) -> Measurement:
        """Seconds until bound and until grown (infinite: never), shares of the sizes offered, modes, volumes left."""
        for name in self.renderer.storage:
            self._try(name)
        self.facts["claim_trouble"] = "; ".join(self.troubles) or "none"
        self.facts["claim_access_modes"] = "; ".join(self.other_modes) or "as asked for"
        self.facts |= self.expansion.facts()
        self.samples += self.expansion.samples
        return Measurement(
            WORKLOAD, self.renderer.run_id, "", "", 1, 1, samples=tuple(self.samples), facts=dict(self.facts)
        )

    def _try(self, name: str) -> None:
        storage_class = self._class_of(name)
        body = {**self.renderer.claim(name)}
        body["metadata"] = {**body["metadata"], "name": f"trial-{name}"}
        began = self.clock()
        made = self.cluster.create(CLAIMS, body, namespace=self.renderer.namespace)
        # Such a class binds only for a pod: the claim that the run's own pods mount has to speak for it.
        waits = raw.text(storage_class, "volumeBindingMode") == _WAITS
        shown = self._existing(f"claim-{name}") if waits else self.wait(CLAIMS, made, _is_bound)
        bound = shown is not None and _is_bound(shown)
        if not waits:
            self._add("claim_bound", self.clock() - began if bound else math.inf, "s", name)
        if not bound:
            said = last_event(self.cluster, self.renderer.namespace, body["metadata"]["name"])
            self.troubles.append(f"{name}: {said or 'no event says why it is not bound'}")
        if shown is not None and bound:
            self._look(name, shown)
            if self.renderer.storage[name].expands_to:
                self.expansion.ask(self.renderer.storage[name], shown)
        gone = self._delete(f"trial-{name}", "" if waits or not shown else raw.text(shown, "spec", "volumeName"))
        self._add("volumes_left", 0.0 if gone else 1.0, "count", name)

    def _look(self, name: str, claim: Raw) -> None:
        wanted = self.renderer.storage[name]
        offered = quantity(raw.text(claim, "status", "capacity", "storage"))
        asked = quantity(wanted.size)
        if offered is not None and asked:
            self._add("claim_capacity_share", offered / asked, "1", name)
        modes = raw.at(claim, "status", "accessModes")
        given = [str(mode) for mode in modes] if isinstance(modes, list) else []
        if wanted.access_mode not in given:
            self.other_modes.append(f"{name}: {', '.join(given) or 'none'} instead of {wanted.access_mode}")

    def _delete(self, claim: str, volume: str) -> bool:
        """Delete the trial's claim; whether it, and its volume if it has one, are gone in time."""
        namespace = self.renderer.namespace
        self.cluster.delete(CLAIMS, claim, namespace=namespace)
        return self._gone(CLAIMS, claim, namespace) and (not volume or self._gone(VOLUMES, volume, None))

    def _gone(self, kind: Resource, name: str, namespace: str | None) -> bool:
        there = self._existing(name, kind, namespace)
        return there is None or self.wait(kind, there, lambda _: False) is None

    def wait(self, kind: Resource, obj: Raw, ready: Callable[[Raw], bool]) -> Raw | None:
        """Watch one object until it is ready, is gone (None), or time is up; as it was last seen."""
        name, namespace = raw.text(obj, "metadata", "name"), raw.text(obj, "metadata", "namespace")
        watch = self.cluster.watch(
            kind,
            namespace=namespace or None,
            field_selector=f"metadata.name={name}",
            resource_version=raw.text(obj, "metadata", "resourceVersion"),
            known=[(namespace, name)],
        )
        alarm = threading.Timer(self.within_s, watch.close)
        alarm.daemon = True
        alarm.start()
        seen: Raw | None = obj
        try:
            for event in watch:
                seen = None if event.type == "DELETED" else event.object
                if seen is None or ready(seen):
                    break
        finally:
            alarm.cancel()
            watch.close()
        return seen

    def _existing(self, name: str, kind: Resource = CLAIMS, namespace: str | None = "") -> Raw | None:
        try:
            return self.cluster.get(kind, name, namespace=self.renderer.namespace if namespace == "" else namespace)
        except ClusterError as error:
            if error.status == 404:
                return None
            raise

    def _class_of(self, name: str) -> Raw:
        wanted = self.renderer.storage[name].storage_class
        return self._existing(wanted, STORAGE_CLASSES, None) or {}

    def _add(self, metric: str, value: float, unit: str, storage: str) -> None:
        self.samples.append(Sample(metric, value, unit, {"storage": storage}))


def _is_bound(claim: Raw) -> bool:
    return raw.text(claim, "status", "phase") == "Bound"
