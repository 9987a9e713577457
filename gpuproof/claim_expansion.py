"""Asks a bound claim to grow, and tells how long that took, what is offered then, and what refused it.

It must not know a limit or a verdict, or what is ever written to a volume.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from gpuproof.cluster import raw
from gpuproof.cluster.port import CLAIMS, EVENTS, VOLUMES, Cluster, ClusterError, Resource
from gpuproof.cluster.raw import Raw
from gpuproof.expectation import Storage
from gpuproof.failure import Reason
from gpuproof.quantities import quantity
from workloads.contract import Fact, Sample

_ON_NODE = "FileSystemResizePending"
"""The condition of a claim whose volume has grown and whose file system waits for a node that mounts it."""
_REFUSALS = (400, 403, 422)
_SHOWN = 600


class Wait(Protocol):
    """Watches one object until it is ready, is gone (None) or time is up; as it was last seen."""

    def __call__(self, kind: Resource, obj: Raw, ready: Callable[[Raw], bool]) -> Raw | None: ...


@dataclass
class ClaimExpansion:
    """Expansion of the claims of one trial. Raises `ClusterError` where the API is silent or the harness may not."""

    cluster: Cluster
    namespace: str
    wait: Wait
    clock: Callable[[], float]
    samples: list[Sample] = field(default_factory=list)
    asked: bool = False
    troubles: list[str] = field(default_factory=list)
    unproved: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)

    def ask(self, wanted: Storage, claim: Raw) -> None:
        """Ask a bound claim for `wanted.expands_to`, and wait until more is offered than before.

        A volume whose file system a node has still to resize counts as grown by the size of the volume.
        """
        self.asked = True
        name, size = raw.text(claim, "metadata", "name"), quantity(wanted.expands_to) or 0
        before = _capacity(claim, "status") or 0
        if before >= size:
            # It would never grow, and that would say nothing: a provisioner may give more than it was asked for.
            said = (
                f"{raw.text(claim, 'status', 'capacity', 'storage')} were there before {wanted.expands_to} were asked"
            )
            self.unproved.append(f"{wanted.name}: {said}: name a larger expands_to")
            return
        began = self.clock()
        shown, refused = self._patch(name, wanted.expands_to)

        def has_grown(each: Raw) -> bool:
            self.seen += [f"{wanted.name}: {kind}" for kind in _conditions(each)]
            return (_capacity(each, "status") or 0) > before or _ON_NODE in _conditions(each)

        if shown is not None and not has_grown(shown):
            shown = self.wait(CLAIMS, shown, has_grown)
        grown = shown is not None and has_grown(shown)
        self._add("claim_expanded", self.clock() - began if grown else math.inf, "s", wanted.name)
        offered = self._offered(shown) if shown is not None and grown else before
        self._add("claim_expanded_share", offered / size, "1", wanted.name)
        if not grown:
            why = refused or last_event(self.cluster, self.namespace, name) or "no event says why it has not grown"
            self.troubles.append(f"{wanted.name}: {why}")

    def facts(self) -> dict[str, Fact]:
        """What became of it in words; `claim_expansion` is left out where it could not be tried on every storage."""
        if not self.asked:
            return {"claim_expansion": "not asked for"}
        facts: dict[str, Fact] = {"claim_expansion_conditions": "; ".join(dict.fromkeys(self.seen)) or "none seen"}
        if self.unproved:
            facts["claim_expansion_unproved"] = "; ".join(self.unproved)
        if self.troubles or not self.unproved:
            facts["claim_expansion"] = "; ".join(self.troubles) or "as asked for"
        return facts

    def _patch(self, claim: str, size: str) -> tuple[Raw | None, str]:
        """The claim after the request, or None and the API's own words of refusal."""
        body = {"spec": {"resources": {"requests": {"storage": size}}}}
        try:
            return self.cluster.patch(CLAIMS, claim, body, namespace=self.namespace), ""
        except ClusterError as error:
            if error.status not in _REFUSALS or error.reason is Reason.QUOTA_EXCEEDED:
                raise
            # A 403 of authorization is about the harness; one of admission is the cluster's answer to the request.
            if error.status == 403 and not self.cluster.may("patch", CLAIMS, namespace=self.namespace):
                raise
            return None, error.message[:_SHOWN]

    def _offered(self, claim: Raw) -> int:
        """Bytes that the claim says it has, or that its volume has where only the file system is still smaller."""
        offered = _capacity(claim, "status") or 0
        if _ON_NODE in _conditions(claim):
            volume = self.cluster.get(VOLUMES, raw.text(claim, "spec", "volumeName"))
            offered = max(offered, _capacity(volume, "spec") or 0)
        return offered

    def _add(self, metric: str, value: float, unit: str, storage: str) -> None:
        self.samples.append(Sample(metric, value, unit, {"storage": storage}))


def last_event(cluster: Cluster, namespace: str, name: str) -> str:
    """What the last event about an object says, which stands nowhere else; "" where there is none."""
    events = cluster.list_objects(EVENTS, namespace=namespace, field_selector=f"involvedObject.name={name}").items
    said = [f"{raw.text(event, 'reason')}: {raw.text(event, 'message')}" for event in events]
    return said[-1][:_SHOWN] if said else ""


def _capacity(obj: Raw, where: str) -> int | None:
    return quantity(raw.text(obj, where, "capacity", "storage"))


def _conditions(claim: Raw) -> list[str]:
    found = raw.at(claim, "status", "conditions")
    listed = found if isinstance(found, list) else []
    return [raw.text(each, "type") for each in listed if raw.text(each, "status") == "True"]
