"""What is in a cluster from the first moment besides its nodes: other people's pods, as the topology says.

Owns these objects. It must not know how anything runs them: it creates them as any client would.
"""

from __future__ import annotations

from simcluster.api.port import ApiError, Client, Object
from simcluster.node.images import PYTHON_IMAGE
from simcluster.topology import Pool, Topology, node_names


async def install(client: Client, topology: Topology) -> None:
    """Create everything the topology asks for. Raises `ApiError`."""
    for pool in topology.pools:
        for pod in busy_pods(pool):
            await ensure_namespace(client, pod["metadata"]["namespace"])
            await client.create("pods", pod, pod["metadata"]["namespace"])


async def ensure_namespace(client: Client, name: str) -> None:
    """Create a namespace where it is absent."""
    try:
        await client.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise


def busy_pods(pool: Pool) -> list[Object]:
    """The pods that hold GPUs of a pool before anybody else comes."""
    if pool.busy is None:
        return []
    limits = {"nvidia.com/gpu": str(pool.busy.gpus)}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"training-{node}",
                "namespace": pool.busy.namespace,
                "labels": {"app": "training"},
                "annotations": {"simcluster.local/duration-s": "1e9"},
            },
            "spec": {
                "nodeName": node,
                "tolerations": [{"operator": "Exists"}],
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {
                        "name": "train",
                        "image": PYTHON_IMAGE,
                        "command": ["sleep", "infinity"],
                        "resources": {"limits": limits},
                    }
                ],
            },
        }
        for node in node_names(pool)[: pool.busy.nodes]
    ]
