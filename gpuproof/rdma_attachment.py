"""How a pod is given RDMA: the limits, annotations, mounts and claims that the profile's way of attaching needs.

Pure: a profile's words in, parts of a pod template out. It must not know a cluster or what a pod then sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuproof.expectation import Attach, Rdma

DEVICES = "/dev/infiniband"
_CONTAINER, _CLAIM, _VOLUME = "measure", "rdma", "gpuproof-rdma-devices"
_PREFIXES = ("rdma/", "networking.gke.io.networks/", "openshift.io/")
_NAMES = ("vpc.amazonaws.com/efa", "nvidia.com/hostdev", "nvidia.com/mlnxnics", "nvidia.com/sriovlegacy")


def looks_like_rdma(resource: str) -> bool:
    """Whether an extended resource may be a node's RDMA: a help for a person, never a choice."""
    return resource in _NAMES or (resource.startswith(_PREFIXES) and not resource.endswith(".IP"))


def limits(rdma: Rdma) -> dict[str, str]:
    """The container's limits."""
    wanted = dict(rdma.resources)
    if rdma.needs_resource:
        wanted[rdma.resource] = str(rdma.per_node if rdma.request is None else rdma.request)
    return wanted


def pod_patch(rdma: Rdma) -> dict[str, Any]:
    """A strategic-merge patch over the pod template; empty where limits are all."""
    spec: dict[str, Any] = {}
    container: dict[str, Any] = {}
    if rdma.ipc_lock:
        container["securityContext"] = {"capabilities": {"add": ["IPC_LOCK"]}}
    if rdma.attach is Attach.CLAIM:
        spec["resourceClaims"] = [{"name": _CLAIM, "resourceClaimTemplateName": rdma.claim_template}]
        container["resources"] = {"claims": [{"name": _CLAIM}]}
    if rdma.attach is Attach.HOST_NETWORK:
        spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
        spec["volumes"] = [{"name": _VOLUME, "hostPath": {"path": DEVICES, "type": "Directory"}}]
        container["volumeMounts"] = [{"name": _VOLUME, "mountPath": DEVICES}]
    if container:
        spec["containers"] = [{"name": _CONTAINER, **container}]
    patch: dict[str, Any] = {"spec": spec} if spec else {}
    if rdma.annotations:
        patch["metadata"] = {"annotations": dict(rdma.annotations)}
    return patch


def unnamed(rdma: Rdma, offers: Mapping[str, Iterable[str]], where: str) -> str:
    """Why nothing may run: a resource is needed and the profile names none; '' where all is well.

    `offers` are, by node, the extended resources that look like RDMA. Even a single candidate is not taken: what a pod
    asks for is the profile's to say.
    """
    if rdma.resource or not rdma.needs_resource:
        return ""
    having: dict[str, list[str]] = {}
    for node, resources in sorted(offers.items()):
        for resource in sorted(resources):
            having.setdefault(resource, []).append(node)
    seen = "; ".join(f"{name} on {_few(nodes)}" for name, nodes in sorted(having.items()))
    return (
        f"{where}: [cluster.rdma] resource\n"
        f'  expected: the extended resource by which a pod gets RDMA, as attach = "{rdma.attach}" needs one\n'
        f"  found:    none in the profile; the cluster offers {seen or 'nothing that looks like RDMA'}\n"
        "  next:     name the one that you bought; gpuproof does not guess"
    )


def _few(nodes: list[str]) -> str:
    return ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
