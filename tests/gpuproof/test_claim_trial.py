# ruff: noqa: ARG002  (it implements a port; not every argument matters)
"""Trying claims: what is bound, offered and left behind is told; what never happens is a bad number and not none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest

from gpuproof.claim_trial import ClaimTrial, quantity
from gpuproof.cluster.port import CLAIMS, EVENTS, STORAGE_CLASSES, VOLUMES, ClusterError, Listing, Resource, WatchEvent
from gpuproof.cluster.raw import Raw
from gpuproof.expectation import Storage
from gpuproof.failure import Reason
from gpuproof.manifests import PodSettings, Renderer
from tests.gpuproof.toy_cluster import ToyCluster
from workloads.contract import Measurement

RENDERER = Renderer(
    "r1", "gpuproof-r1", {}, "gpu", PodSettings("i"), storage={"shared": Storage("shared", "fast", "1Gi", "RWX")}
)


class Told:
    """A watch that tells what it is given, and then waits until it is closed."""

    def __init__(self, events: Iterable[WatchEvent]) -> None:
        self._events = list(events)
        self.live = True

    def __iter__(self) -> Iterator[WatchEvent]:
        return iter(self._events)

    def close(self) -> None:
        self.live = False


class Storing(ToyCluster):
    """A cluster whose one claim is bound to a volume as `claim` says; `kept` volumes do not go with it."""

    def __init__(self, claim: Raw, mode: str = "Immediate", kept: bool = False) -> None:
        super().__init__({})
        self.claim, self.mode, self.kept = claim, mode, kept
        self.there: dict[tuple[Resource, str], Raw] = {
            (STORAGE_CLASSES, "fast"): {"volumeBindingMode": mode},
            (VOLUMES, "pv-1"): {"metadata": {"name": "pv-1"}},
            (CLAIMS, "claim-shared"): claim,
        }

    def create(self, resource: Resource, body: Mapping[str, Any], *, namespace: str | None = None) -> Raw:
        made = {**body, "metadata": {**body["metadata"], "namespace": namespace, "resourceVersion": "1"}}
        self.there[resource, body["metadata"]["name"]] = made
        return made

    def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> Raw:
        if (resource, name) not in self.there:
            raise ClusterError(Reason.HARNESS_ERROR, "no", 404)
        return self.there[resource, name]

    def delete(self, resource: Resource, name: str, *, namespace: str | None = None, grace_s: int | None = None) -> Raw:
        del self.there[resource, name]
        if not self.kept:
            del self.there[VOLUMES, "pv-1"]
        return {}

    def list_objects(
        self, resource: Resource, *, namespace: str | None = None, label_selector: str = "", field_selector: str = ""
    ) -> Listing:
        assert (resource, field_selector) == (EVENTS, "involvedObject.name=trial-shared")
        return Listing(({"reason": "ProvisioningFailed", "message": "no such driver"},), "1")

    def watch(self, resource: Resource, **_: Any) -> Told:  # type: ignore[override]
        return Told([WatchEvent("MODIFIED", self.claim)] if resource == CLAIMS else [])


def bound(**status: Any) -> Raw:
    return {
        "metadata": {"name": "trial-shared"},
        "spec": {"volumeName": "pv-1"},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["RWX"], **status},
    }


def tried(cluster: Storing) -> tuple[dict[str, float], Measurement]:
    found = ClaimTrial(cluster, RENDERER, 5.0).run()
    assert all(sample.at == {"storage": "shared"} for sample in found.samples)
    return {sample.metric: sample.value for sample in found.samples}, found


def test_a_claim_that_is_bound_and_leaves_nothing() -> None:
    numbers, found = tried(Storing(bound()))
    assert numbers.pop("claim_bound") < 5
    assert numbers == {"claim_capacity_share": 1, "volumes_left": 0}
    assert found.facts == {"claim_trouble": "none", "claim_access_modes": "as asked for"}


def test_a_claim_that_is_never_bound_took_for_ever_and_says_why() -> None:
    numbers, found = tried(Storing({"metadata": {}, "status": {"phase": "Pending"}}))
    assert numbers["claim_bound"] == math.inf
    assert "claim_capacity_share" not in numbers
    assert found.facts["claim_trouble"] == "shared: ProvisioningFailed: no such driver"


def test_less_than_was_asked_for_and_another_mode_are_told() -> None:
    numbers, found = tried(Storing(bound(capacity={"storage": "768Mi"}, accessModes=["RWO"])))
    assert numbers["claim_capacity_share"] == 0.75
    assert found.facts["claim_access_modes"] == "shared: RWO instead of RWX"


def test_a_volume_that_stays_is_counted() -> None:
    assert tried(Storing(bound(), kept=True))[0]["volumes_left"] == 1


def test_a_class_that_binds_for_pods_only_is_looked_at_by_the_claim_that_pods_mount() -> None:
    numbers, _ = tried(Storing(bound(), mode="WaitForFirstConsumer", kept=True))
    assert numbers == {"claim_capacity_share": 1, "volumes_left": 0}


@pytest.mark.parametrize(
    ("text", "size"),
    [("256Mi", 2**28), ("1Ti", 2**40), ("5G", 5 * 10**9), ("17", 17), ("", None), ("x", None), ("1.5Gi", None)],
)
def test_quantities(text: str, size: int | None) -> None:
    assert quantity(text) == size
