# ruff: noqa: ARG002  (it implements a port; not every argument matters)
"""Trying claims: what is bound, offered and left behind is told; what never happens is a bad number and not none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from gpuproof.claim_trial import ClaimTrial
from gpuproof.cluster.port import CLAIMS, EVENTS, STORAGE_CLASSES, VOLUMES, ClusterError, Listing, Resource, WatchEvent
from gpuproof.cluster.raw import Raw
from gpuproof.expectation import Storage
from gpuproof.failure import Reason
from gpuproof.manifests import PodSettings, Renderer
from gpuproof.quantities import quantity
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

    def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        grace_s: int | None = None,
        foreground: bool = False,
    ) -> Raw:
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


class Growing(Storing):
    """Such a cluster whose claim becomes `grown` when it is asked to grow, or is refused by `error`."""

    def __init__(self, grown: Raw, error: ClusterError | None = None, permitted: bool = True) -> None:
        super().__init__(bound())
        self.grown, self.error, self.permitted = grown, error, permitted
        self.there[VOLUMES, "pv-1"] = {"metadata": {"name": "pv-1"}, "spec": {"capacity": {"storage": "2Gi"}}}

    def patch(self, resource: Resource, name: str, body: Mapping[str, Any], *, namespace: str | None = None) -> Raw:
        assert (resource, name, namespace) == (CLAIMS, "trial-shared", "gpuproof-r1")
        assert body == {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
        if self.error is not None:
            raise self.error
        before, self.claim = self.claim, self.grown
        return before

    def may(self, verb: str, resource: Resource, *, namespace: str | None = None) -> bool:
        assert (verb, resource) == ("patch", CLAIMS)
        return self.permitted


GROWS = replace(RENDERER, storage={"shared": replace(RENDERER.storage["shared"], expands_to="2Gi")})
NO_CLASS = ClusterError(Reason.FORBIDDEN, "HTTP 403: the storageclass must support resize", 403)


def condition(kind: str) -> list[Raw]:
    return [{"type": kind, "status": "True"}]


def tried(cluster: Storing, renderer: Renderer = RENDERER) -> tuple[dict[str, float], Measurement]:
    found = ClaimTrial(cluster, renderer, 5.0).run()
    assert all(sample.at == {"storage": "shared"} for sample in found.samples)
    return {sample.metric: sample.value for sample in found.samples}, found


def test_a_claim_that_is_bound_and_leaves_nothing() -> None:
    numbers, found = tried(Storing(bound()))
    assert numbers.pop("claim_bound") < 5
    assert numbers == {"claim_capacity_share": 1, "volumes_left": 0}
    assert found.facts == {
        "claim_trouble": "none",
        "claim_access_modes": "as asked for",
        "claim_expansion": "not asked for",
    }


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
    ("grown", "share", "conditions"),
    [
        (bound(capacity={"storage": "2Gi"}), 1, "none seen"),
        (bound(capacity={"storage": "1536Mi"}), 0.75, "none seen"),
        (bound(conditions=condition("FileSystemResizePending")), 1, "shared: FileSystemResizePending"),
    ],
    ids=["grown", "grown by less", "its volume has grown"],
)
def test_a_claim_that_grows_says_how_far(grown: Raw, share: float, conditions: str) -> None:
    numbers, found = tried(Growing(grown), GROWS)
    assert numbers["claim_expanded"] < 5
    assert numbers["claim_expanded_share"] == share
    assert found.facts["claim_expansion"] == "as asked for"
    assert found.facts["claim_expansion_conditions"] == conditions
    assert numbers["volumes_left"] == 0


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        (Growing(bound(conditions=condition("Resizing"))), "shared: ProvisioningFailed: no such driver"),
        (Growing(bound(), NO_CLASS), "shared: HTTP 403: the storageclass must support resize"),
    ],
    ids=["never", "refused"],
)
def test_a_claim_that_does_not_grow_took_for_ever_and_says_why(cluster: Growing, said: str) -> None:
    numbers, found = tried(cluster, GROWS)
    assert (numbers["claim_expanded"], numbers["claim_expanded_share"]) == (math.inf, 0.5)
    assert found.facts["claim_expansion"] == said
    assert numbers["volumes_left"] == 0


@pytest.mark.parametrize(
    ("error", "permitted"),
    [
        (NO_CLASS, False),
        (ClusterError(Reason.QUOTA_EXCEEDED, "exceeded quota", 403), True),
        (ClusterError(Reason.CLUSTER_UNREACHABLE, "no answer"), True),
    ],
    ids=["the harness may not", "quota", "no answer"],
)
def test_what_is_no_answer_of_the_storage_is_an_error(error: ClusterError, permitted: bool) -> None:
    with pytest.raises(ClusterError):
        tried(Growing(bound(), error, permitted), GROWS)


def test_a_claim_that_had_as_much_before_it_was_asked_proves_nothing() -> None:
    numbers, found = tried(Storing(bound(capacity={"storage": "2Gi"})), GROWS)
    assert not {"claim_expanded", "claim_expanded_share"} & set(numbers)
    assert "claim_expansion" not in found.facts
    assert "larger expands_to" in str(found.facts["claim_expansion_unproved"])


@pytest.mark.parametrize(
    ("text", "size"),
    [("256Mi", 2**28), ("1Ti", 2**40), ("5G", 5 * 10**9), ("17", 17), ("", None), ("x", None), ("1.5Gi", None)],
)
def test_quantities(text: str, size: int | None) -> None:
    assert quantity(text) == size
