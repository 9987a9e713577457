"""Creates what is to run at once, and tells where the cluster holds it back from the first moment.

It must not know why it is needed, or wait for anything.
"""

from __future__ import annotations

from gpuproof.cluster import raw
from gpuproof.cluster.port import Cluster, ClusterError, Resource
from gpuproof.failure import Reason


def create_running(cluster: Cluster, resource: Resource, manifest: raw.Raw, namespace: str) -> None:
    """Create it; raises `ClusterError` where it was refused, or suspended although nobody had asked for that.

    Source for the second: Kueue's configuration, manageJobsWithoutQueueName, suspends Jobs that name no queue for good.
    """
    made = cluster.create(resource, manifest, namespace=namespace)
    if raw.at(made, "spec", "suspend") is True and raw.at(manifest, "spec", "suspend") is not True:
        what = f"{raw.text(manifest, 'kind')} {raw.text(manifest, 'metadata', 'name')}"
        said = (
            f"the cluster suspended the {what} as it was created, so that no pod of it can come: something holds back "
            "Jobs that name no queue (Kueue with manageJobsWithoutQueueName, or a policy); have it leave namespaces "
            "called gpuproof-… alone (Kueue: managedJobsNamespaceSelector)"
        )
        raise ClusterError(Reason.NOT_ADMITTED, said)
