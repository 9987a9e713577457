"""Owns which keys of `[cluster.rdma]` make sense together; must not know a manifest or a cluster."""

from gpuproof.expectation import Attach, Rdma
from gpuproof.profile_error import ProfileError, Source, describe
from gpuproof.profile_model import RdmaTable

NETWORKS = "k8s.v1.cni.cncf.io/networks"
"""The annotation by which Multus knows a pod's secondary networks (Network Plumbing Working Group's specification)."""

INTERFACES = "networking.gke.io/interfaces"
"""The annotation by which GKE's multi-network knows a pod's interfaces (signals.md, section 2)."""

_ANNOTATED = {
    Attach.NETWORK: NETWORKS,
    Attach.RESOURCE_AND_NETWORK: NETWORKS,
    Attach.MULTI_NETWORK: INTERFACES,
}
_WITHOUT_RESOURCE = (Attach.NETWORK, Attach.HOST_NETWORK, Attach.CLAIM, Attach.MULTI_NETWORK)


def read_rdma(table: RdmaTable, source: Source) -> Rdma:
    """
    Return what the profile says of RDMA; raises `ProfileError` for keys that contradict each other.

    A missing `resource` is no error here: which candidates a cluster has is known only when it is looked at.
    """
    attach = Attach(table.attach)
    annotation = _ANNOTATED.get(attach)
    if annotation is not None and annotation not in table.annotations:
        raise _wrong(source, "annotations", f"the annotation {annotation}, by which networks are attached", "none")
    if attach is Attach.CLAIM and table.claim_template is None:
        raise _wrong(source, "claim_template", "the ResourceClaimTemplate that the platform provides", "none")
    if attach is not Attach.CLAIM and table.claim_template is not None:
        raise _wrong(source, "claim_template", f'none where attach = "{attach}"', describe(table.claim_template))
    if attach in _WITHOUT_RESOURCE and (table.resource is not None or table.request is not None):
        key = "resource" if table.resource is not None else "request"
        found = describe(getattr(table, key))
        raise _wrong(source, key, f'none where attach = "{attach}"; further limits go into resources', found)
    if attach is Attach.MULTI_NETWORK and not table.resources:
        raise _wrong(
            source, "resources", 'a limit for each network, such as "networking.gke.io.networks/NAME" = "1"', "none"
        )
    if (attach is Attach.EFA) != (table.link_layer == "Unspecified"):
        raise _wrong(
            source, "link_layer", '"Unspecified" where attach = "efa", and only there', describe(table.link_layer)
        )
    given = table.model_dump() | {"attach": attach, "resource": table.resource or ""}
    return Rdma(**(given | {"claim_template": table.claim_template or ""}))


def _wrong(source: Source, key: str, expected: str, actual: str) -> ProfileError:
    return source.error(
        ("cluster", "rdma", key),
        expected=expected,
        actual=actual,
        next_step=f"correct {key} or attach in [cluster.rdma]",
    )
