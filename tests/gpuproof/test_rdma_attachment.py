"""How RDMA reaches a pod: every way of the profile in the manifest, contradictions refused, no name ever guessed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuproof.expectation import Attach, Rdma
from gpuproof.inventory import read_node
from gpuproof.manifests import PodSettings, Renderer, SweepJob
from gpuproof.pod_shape import PodShape
from gpuproof.profile_error import ProfileError
from gpuproof.rdma_attachment import looks_like_rdma, unnamed
from tests.gpuproof.profiles import GOOD, load

NETWORKS = {"k8s.v1.cni.cncf.io/networks": "rail-0, rail-1"}
INTERFACES = {"networking.gke.io/interfaces": '[{"interfaceName":"eth1","network":"rdma-0"}]'}
BOUGHT = Rdma("rdma/ib", 2, 400, "InfiniBand")
LINE = 'rdma          = { resource = "rdma/ib", per_node = 8, rate_gbps = 400, link_layer = "InfiniBand" }'


def rendered(rdma: Rdma, *, asks: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
    """The pod template and its `measure` container."""
    renderer = Renderer("r1", "ns", {"pool": "a"}, "nvidia.com/gpu", PodSettings("image"), rdma=rdma)
    shape = PodShape(gpus="none", rdma=asks)
    job = SweepJob("j-1", "s-1", "rdma_attachment", "pause", 2, 0, 2, 60, shape=shape)
    template = renderer.sweep(job)["spec"]["template"]
    (measure,) = [c for c in template["spec"]["containers"] if c["name"] == "measure"]
    return template, measure


@pytest.mark.parametrize(
    ("rdma", "limits"),
    [
        (BOUGHT, {"rdma/ib": "2"}),
        (replace(BOUGHT, request=1), {"rdma/ib": "1"}),
        (
            replace(BOUGHT, resource="vpc.amazonaws.com/efa", attach=Attach.EFA, resources={"hugepages-2Mi": "5Gi"}),
            {"vpc.amazonaws.com/efa": "2", "hugepages-2Mi": "5Gi"},
        ),
        (
            replace(
                BOUGHT,
                resource="",
                attach=Attach.MULTI_NETWORK,
                annotations=INTERFACES,
                resources={"networking.gke.io.networks/rdma-0": "1"},
            ),
            {"networking.gke.io.networks/rdma-0": "1"},
        ),
        (replace(BOUGHT, attach=Attach.RESOURCE_AND_NETWORK, annotations=NETWORKS), {"rdma/ib": "2"}),
    ],
    ids=["resource", "shared plugin", "EFA", "GKE multi-network", "resource and network"],
)
def test_resources_are_asked_for(rdma: Rdma, limits: dict[str, str]) -> None:
    template, measure = rendered(rdma)
    assert measure["resources"]["limits"] == limits
    assert template["metadata"].get("annotations", {}) == rdma.annotations


def test_networks_alone_are_an_annotation() -> None:
    template, measure = rendered(replace(BOUGHT, resource="", attach=Attach.NETWORK, annotations=NETWORKS))
    assert template["metadata"]["annotations"] == NETWORKS
    assert "resources" not in measure


def test_the_host_network_brings_its_device_files() -> None:
    template, measure = rendered(replace(BOUGHT, resource="", attach=Attach.HOST_NETWORK, ipc_lock=True))
    assert template["spec"]["hostNetwork"] is True
    (volume,) = [v for v in template["spec"]["volumes"] if "hostPath" in v]
    assert volume["hostPath"]["path"] == "/dev/infiniband"
    assert {"name": volume["name"], "mountPath": "/dev/infiniband"} in measure["volumeMounts"]
    assert measure["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}


def test_a_claim_is_made_from_the_platforms_template() -> None:
    template, measure = rendered(replace(BOUGHT, resource="", attach=Attach.CLAIM, claim_template="roce"))
    (claim,) = template["spec"]["resourceClaims"]
    assert claim["resourceClaimTemplateName"] == "roce"
    assert measure["resources"]["claims"] == [{"name": claim["name"]}]


def test_a_pod_that_does_not_ask_gets_nothing_of_it() -> None:
    everything = replace(BOUGHT, attach=Attach.HOST_NETWORK, annotations=NETWORKS, ipc_lock=True)
    template, measure = rendered(everything, asks=False)
    assert "annotations" not in template["metadata"]
    assert "hostNetwork" not in template["spec"]
    assert not {"resources", "securityContext"} & measure.keys()


@pytest.mark.parametrize(
    ("said", "key"),
    [
        ('attach = "network", per_node = 8, rate_gbps = 400, link_layer = "Ethernet"', "annotations"),
        ('attach = "multi-network", per_node = 8, rate_gbps = 400, link_layer = "Ethernet"', "annotations"),
        ('attach = "claim", per_node = 8, rate_gbps = 400, link_layer = "Ethernet"', "claim_template"),
        (
            'resource = "rdma/ib", claim_template = "x", per_node = 8, rate_gbps = 400, link_layer = "Ethernet"',
            "claim_template",
        ),
        (
            'attach = "host-network", resource = "rdma/ib", per_node = 8, rate_gbps = 400, link_layer = "Ethernet"',
            "resource",
        ),
        ('attach = "host-network", request = 1, per_node = 8, rate_gbps = 400, link_layer = "Ethernet"', "request"),
        ('attach = "efa", resource = "a/efa", per_node = 8, rate_gbps = 400, link_layer = "Ethernet"', "link_layer"),
        ('resource = "rdma/ib", per_node = 8, rate_gbps = 400, link_layer = "Unspecified"', "link_layer"),
    ],
    ids=[
        "no annotation",
        "no interfaces",
        "no template",
        "template of no claim",
        "resource on the host network",
        "request of nothing",
        "EFA with a link layer",
        "a link layer of EFA",
    ],
)
def test_what_contradicts_itself_is_refused_by_its_key(tmp_path: Path, said: str, key: str) -> None:
    with pytest.raises(ProfileError, match=rf"cluster\.rdma\.{key}"):
        load(tmp_path, GOOD.replace(LINE, f"rdma = {{ {said} }}"))


def node(name: str, **offers: str) -> dict[str, Any]:
    allocatable = {key.replace("__", "/").replace("_", "-"): value for key, value in offers.items()}
    return {"metadata": {"name": name}, "status": {"allocatable": allocatable}}


def test_candidates_are_listed_and_never_taken() -> None:
    raw = [node("a", rdma__ib="8", rdma__eth="63", cpu="4"), node("b", rdma__ib="8", rdma__old="0")]
    offers = {read.name: list(read.rdma_offers) for read in (read_node(one, gpu_resource="gpu") for one in raw)}
    nameless = replace(BOUGHT, resource="")
    said = unnamed(nameless, offers, "our.toml")
    assert "our.toml: [cluster.rdma] resource" in said
    assert "rdma/eth on a; rdma/ib on a, b" in said
    assert "cpu" not in said
    assert "rdma/old" not in said
    assert "nothing that looks like RDMA" in unnamed(nameless, {"a": []}, "our.toml")
    assert "rdma/ib on a" in unnamed(nameless, {"a": ["rdma/ib"]}, "our.toml"), "not even a single one is taken"
    assert unnamed(BOUGHT, offers, "our.toml") == ""
    assert unnamed(replace(nameless, attach=Attach.HOST_NETWORK), offers, "our.toml") == ""


@pytest.mark.parametrize(
    ("resource", "may_be"),
    [
        ("rdma/hca_shared_devices_a", True),
        ("vpc.amazonaws.com/efa", True),
        ("nvidia.com/hostdev", True),
        ("openshift.io/rail0", True),
        ("networking.gke.io.networks/rdma-0", True),
        ("networking.gke.io.networks/rdma-0.IP", False),
        ("nvidia.com/gpu", False),
        ("memory", False),
    ],
)
def test_names_that_look_like_rdma(resource: str, *, may_be: bool) -> None:
    assert looks_like_rdma(resource) is may_be


def test_a_profile_may_leave_the_name_to_be_asked_for(tmp_path: Path) -> None:
    text = GOOD.replace(LINE, 'rdma = { per_node = 8, rate_gbps = 400, link_layer = "InfiniBand" }')
    rdma = load(tmp_path, text).cluster.rdma
    assert rdma is not None
    assert rdma.resource == ""
