"""What an administrator sets up in Kueue before anybody uses it: one ClusterQueue over all GPUs of the topology.

Owns these objects, and what holds all of their quota where the topology says that nothing is ever admitted.
"""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.api.port import Object
from simcluster.controllers.quantity import amount, text_of
from simcluster.operators.kueue import words
from simcluster.operators.kueue.workload import API_VERSION

CLUSTER_QUEUE = "gpuproof-tests"
FLAVOR = "simulated-gpus"
NOT_COUNTED = frozenset({"pods", "hugepages-1Gi", "hugepages-2Mi"})
TENANT = "tenant"
"""The namespace of those who hold the quota."""


def queue_objects(labels: dict[str, str], capacities: Sequence[dict[str, str]]) -> list[tuple[str, Object]]:
    """A flavor of the nodes with these labels, and a queue for all namespaces with what these nodes have together."""
    total: dict[str, int] = {}
    for capacity in capacities:
        for resource, text in capacity.items():
            if resource in NOT_COUNTED:
                continue
            total[resource] = total.get(resource, 0) + amount(resource, text)
    quotas = [{"name": name, "nominalQuota": text_of(name, value)} for name, value in total.items()]
    group = {"coveredResources": list(total), "flavors": [{"name": FLAVOR, "resources": quotas}]}
    flavor = {"nodeLabels": labels} if labels else {}
    return [
        (words.FLAVORS, _object("ResourceFlavor", FLAVOR, "", flavor)),
        (
            words.CLUSTER_QUEUES,
            _object("ClusterQueue", CLUSTER_QUEUE, "", {"namespaceSelector": {}, "resourceGroups": [group]}),
        ),
    ]


def holder_objects(queue: Object) -> list[tuple[str, Object]]:
    """Somebody else's Workload that is as large as the queue: without an owner, so that nothing runs for it."""
    quotas = queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    limits = {each["name"]: each["nominalQuota"] for each in quotas}
    container = {"name": "train", "image": "training", "resources": {"limits": limits, "requests": limits}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    spec = {"queueName": TENANT, "podSets": [pod_set]}
    return [
        (words.LOCAL_QUEUES, _object("LocalQueue", TENANT, TENANT, {"clusterQueue": queue["metadata"]["name"]})),
        (words.WORKLOADS, _object("Workload", "training", TENANT, spec)),
    ]


def _object(kind: str, name: str, namespace: str, spec: Object) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
