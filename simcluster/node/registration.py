"""The Node object as a kubelet registers and refreshes it (golden 29).

Owns its fields. Pure: it must not know when it is written.
"""

from __future__ import annotations

import os
import uuid

from simcluster.api.port import Object
from simcluster.node.context import NodeContext
from simcluster.node.images import IMAGE_BYTES

VERSION = "v1.36.2+simcluster"
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def allocatable(node: NodeContext) -> dict[str, str]:
    """What pods may ask for."""
    return {**node.capacity, **node.devices.allocatable()}


def node_object(node: NodeContext, now: str) -> Object:
    """The whole object at registration."""
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        **node.labels,
    }
    annotations = {
        "node.alpha.kubernetes.io/ttl": "0",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
    }
    if node.gpus is not None:
        annotations["nvidia.com/gpu-driver-upgrade-enabled"] = "true"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": labels, "annotations": annotations},
        "spec": {"taints": node.taints} if node.taints else {},
        "status": node_status(node, now, {}),
    }


def node_status(node: NodeContext, now: str, since: dict[str, str]) -> Object:
    """The status; `since` gives each condition's last transition where that is not `now`."""
    identity = uuid.uuid5(uuid.NAMESPACE_DNS, node.name)
    return {
        "capacity": {**node.capacity, **node.devices.capacity()},
        "allocatable": allocatable(node),
        "conditions": [
            {
                "type": kind,
                "status": value,
                "lastHeartbeatTime": now,
                "lastTransitionTime": since.get(kind, now),
                "reason": reason,
                "message": message,
            }
            for kind, value, reason, message in _CONDITIONS
        ],
        "addresses": [
            {"type": "InternalIP", "address": node.host_ip},
            {"type": "Hostname", "address": node.name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": identity.hex,
            "systemUUID": str(identity),
            "bootID": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{node.name}/{node.boots}")),
            "kernelVersion": os.uname().release,
            "osImage": "Simulated Linux",
            "containerRuntimeVersion": "simcluster://1",
            "kubeletVersion": VERSION,
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
            **node.system,
        },
        "images": [{"names": [name], "sizeBytes": IMAGE_BYTES} for name in sorted(node.images.present)],
    }
