"""Claims are made once a run, and a refusal names the storage of the profile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gpuproof.claims import make_claims
from gpuproof.cluster.port import CLAIMS, ClusterError, Resource
from gpuproof.cluster.raw import Raw
from gpuproof.expectation import Storage
from gpuproof.failure import Reason
from gpuproof.manifests import PodSettings, Renderer
from gpuproof.pod_outcome import Phase
from gpuproof.refusals import overdue
from tests.gpuproof.pods import event
from tests.gpuproof.toy_cluster import ToyCluster

RENDERER = Renderer(
    "r1",
    "gpuproof-r1",
    {},
    "nvidia.com/gpu",
    PodSettings("image"),
    storage={"shared": Storage("shared", "fast", "1Gi", "ReadWriteMany")},
)


class Claiming(ToyCluster):
    """Answers every creation with one status, and remembers what was asked."""

    def __init__(self, status: int) -> None:
        super().__init__({})
        self.status = status
        self.asked: list[tuple[Resource, str, str | None]] = []

    def create(self, resource: Resource, body: Mapping[str, Any], *, namespace: str | None = None) -> Raw:
        self.asked.append((resource, body["metadata"]["name"], namespace))
        if self.status != 201:
            raise ClusterError(Reason.FORBIDDEN, "no", self.status)
        return body


def test_a_claim_is_made_once_in_the_namespace_of_the_run() -> None:
    cluster, made = Claiming(201), set[str]()
    make_claims(cluster, RENDERER, ["shared"], made)
    make_claims(cluster, RENDERER, ["shared"], made)
    assert cluster.asked == [(CLAIMS, "claim-shared", "gpuproof-r1")]
    assert made == {"shared"}


def test_a_claim_that_is_there_already_is_taken() -> None:
    made = set[str]()
    make_claims(Claiming(409), RENDERER, ["shared"], made)
    assert made == {"shared"}


def test_a_refusal_names_the_storage_of_the_profile() -> None:
    made = set[str]()
    with pytest.raises(ClusterError, match=r"the claim on \[storage\.shared\] was refused: no") as refused:
        make_claims(Claiming(403), RENDERER, ["shared"], made)
    assert (refused.value.reason, made) == (Reason.FORBIDDEN, set())


@pytest.mark.parametrize(
    ("reason", "message", "found"),
    [
        # As kubelet and attach-detach controller write them.
        (
            "FailedAttachVolume",
            'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) a',
            "volume_failed",
        ),
        ("FailedMount", 'MountVolume.SetUp failed for volume "pvc-1" : rpc error: code = Internal', "volume_failed"),
        ("FailedMount", "Unable to attach or mount volumes: unmounted volumes=[claim-shared]", "volume_failed"),
        (
            "FailedMount",
            'MountVolume.SetUp failed for volume "gpuproof-sources" : configmap "x" not found',
            "create_error",
        ),
    ],
)
def test_a_volume_that_cannot_be_mounted_is_the_storages_fault(reason: str, message: str, found: str) -> None:
    assert overdue({}, [event("j-0-aaaaa", reason, message)], Phase.STARTING, 20, message).reason == found
