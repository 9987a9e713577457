"""The columns of each kind as `kubectl get` prints them.

Owns that table. It must not know how a cell is read, nor HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simcluster.api.port import Object
from simcluster.api.wire import cells, podcells
from simcluster.api.wire.cells import Cell, at


@dataclass(frozen=True)
class Column:
    """One column; `wide` ones are shown by `-o wide` only."""

    name: str
    cell: Cell
    wide: bool = False
    type: str = "string"
    description: str = ""

    def definition(self) -> Object:
        """As TableColumnDefinition."""
        return {
            "name": self.name,
            "type": self.type,
            "format": "name" if self.name == "Name" else "",
            "description": self.description,
            "priority": 1 if self.wide else 0,
        }


NAME = Column("Name", at("metadata.name"))
AGE = Column("Age", cells.age_of)


def _wide(name: str, cell: Cell) -> Column:
    return Column(name, cell, wide=True)


_TEMPLATE = (_wide("Containers", cells.containers("name")), _wide("Images", cells.containers("image")))
_SELECTOR = _wide("Selector", cells.selector)

COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "pods": (
        NAME,
        Column("Ready", podcells.ready),
        Column("Status", podcells.status),
        Column("Restarts", podcells.restarts),
        AGE,
        _wide("IP", at("status.podIP", cells.NONE)),
        _wide("Node", at("spec.nodeName", cells.NONE)),
        _wide("Nominated Node", at("status.nominatedNodeName", cells.NONE)),
        _wide("Readiness Gates", lambda _obj: cells.NONE),
    ),
    "nodes": (
        NAME,
        Column("Status", cells.node_status),
        Column("Roles", cells.node_roles),
        AGE,
        Column("Version", at("status.nodeInfo.kubeletVersion")),
        _wide("Internal-IP", cells.node_address("InternalIP")),
        _wide("External-IP", cells.node_address("ExternalIP")),
        _wide("OS-Image", at("status.nodeInfo.osImage", "<unknown>")),
        _wide("Kernel-Version", cells.node_kernel),
        _wide("Container-Runtime", at("status.nodeInfo.containerRuntimeVersion", "<unknown>")),
    ),
    "jobs.batch": (
        NAME,
        Column("Status", cells.job_status),
        Column("Completions", cells.job_completions),
        Column("Duration", cells.job_duration),
        AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    "events": (
        Column("Last Seen", cells.event_last),
        Column("Type", at("type")),
        Column("Reason", at("reason")),
        Column("Object", cells.event_object),
        _wide("Subobject", at("involvedObject.fieldPath")),
        _wide("Source", cells.event_source),
        Column("Message", at("message")),
        _wide("First Seen", cells.event_first),
        _wide("Count", cells.event_count),
        Column("Name", at("metadata.name"), wide=True),
    ),
    "namespaces": (NAME, Column("Status", cells.namespace_status), AGE),
    "configmaps": (NAME, Column("Data", lambda o: len(o.get("data") or ()) + len(o.get("binaryData") or ())), AGE),
    "secrets": (NAME, Column("Type", at("type")), Column("Data", cells.count("data")), AGE),
    "serviceaccounts": (NAME, Column("Secrets", cells.count("secrets")), AGE),
    "services": (
        NAME,
        Column("Type", at("spec.type")),
        Column("Cluster-IP", at("spec.clusterIP", cells.NONE)),
        Column("External-IP", lambda _obj: cells.NONE),
        Column("Port(s)", cells.ports),
        AGE,
        _wide("Selector", cells.pairs("spec.selector")),
    ),
    "endpoints": (NAME, Column("Endpoints", cells.endpoints), AGE),
    "endpointslices.discovery.k8s.io": (
        NAME,
        Column("AddressType", at("addressType")),
        Column("Ports", cells.slice_ports),
        Column("Endpoints", cells.slice_addresses),
        AGE,
    ),
    "persistentvolumeclaims": (
        NAME,
        Column("Status", cells.claim_status),
        Column("Volume", at("spec.volumeName")),
        Column("Capacity", at("status.capacity.storage")),
        Column("Access Modes", cells.modes("status.accessModes")),
        Column("StorageClass", at("spec.storageClassName")),
        Column("VolumeAttributesClass", at("spec.volumeAttributesClassName", "<unset>")),
        AGE,
        _wide("VolumeMode", at("spec.volumeMode", "<unset>")),
    ),
    "persistentvolumes": (
        NAME,
        Column("Capacity", at("spec.capacity.storage")),
        Column("Access Modes", cells.modes("spec.accessModes")),
        Column("Reclaim Policy", at("spec.persistentVolumeReclaimPolicy")),
        Column("Status", cells.claim_status),
        Column("Claim", cells.claim_of),
        Column("StorageClass", at("spec.storageClassName")),
        Column("VolumeAttributesClass", at("spec.volumeAttributesClassName", "<unset>")),
        Column("Reason", at("status.reason")),
        AGE,
        _wide("VolumeMode", at("spec.volumeMode", "<unset>")),
    ),
    "storageclasses.storage.k8s.io": (
        NAME,
        Column("Provisioner", at("provisioner")),
        Column("ReclaimPolicy", at("reclaimPolicy")),
        Column("VolumeBindingMode", at("volumeBindingMode")),
        Column("AllowVolumeExpansion", at("allowVolumeExpansion", default=False)),
        AGE,
    ),
    "daemonsets.apps": (
        NAME,
        Column("Desired", at("status.desiredNumberScheduled", 0)),
        Column("Current", at("status.currentNumberScheduled", 0)),
        Column("Ready", at("status.numberReady", 0)),
        Column("Up-to-date", at("status.updatedNumberScheduled", 0)),
        Column("Available", at("status.numberAvailable", 0)),
        Column("Node Selector", cells.pairs("spec.template.spec.nodeSelector")),
        AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    "deployments.apps": (
        NAME,
        Column("Ready", cells.ready_of("spec.replicas", "status.readyReplicas")),
        Column("Up-to-date", at("status.updatedReplicas", 0)),
        Column("Available", at("status.availableReplicas", 0)),
        AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    "replicasets.apps": (
        NAME,
        Column("Desired", at("spec.replicas", 0)),
        Column("Current", at("status.replicas", 0)),
        Column("Ready", at("status.readyReplicas", 0)),
        AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    "statefulsets.apps": (
        NAME,
        Column("Ready", cells.ready_of("spec.replicas", "status.readyReplicas")),
        AGE,
        *_TEMPLATE,
    ),
    "poddisruptionbudgets.policy": (
        NAME,
        Column("Min Available", at("spec.minAvailable", "N/A")),
        Column("Max Unavailable", at("spec.maxUnavailable", "N/A")),
        Column("Allowed Disruptions", at("status.disruptionsAllowed", 0)),
        AGE,
    ),
    "resourcequotas": (
        NAME,
        Column("Request", cells.quota("requests")),
        Column("Limit", cells.quota("limits")),
        AGE,
    ),
    "limitranges": (NAME, Column("Created At", at("metadata.creationTimestamp"))),
    "networkpolicies.networking.k8s.io": (
        NAME,
        Column("Pod-Selector", cells.pod_selector),
        AGE,
    ),
    "leases.coordination.k8s.io": (NAME, Column("Holder", at("spec.holderIdentity")), AGE),
    "priorityclasses.scheduling.k8s.io": (
        NAME,
        Column("Value", at("value", 0)),
        Column("Global-Default", at("globalDefault", default=False)),
        AGE,
        Column("PreemptionPolicy", at("preemptionPolicy")),
    ),
    "runtimeclasses.node.k8s.io": (NAME, Column("Handler", at("handler")), AGE),
    "roles.rbac.authorization.k8s.io": (NAME, Column("Created At", at("metadata.creationTimestamp"))),
    "clusterroles.rbac.authorization.k8s.io": (NAME, Column("Created At", at("metadata.creationTimestamp"))),
    "rolebindings.rbac.authorization.k8s.io": (NAME, Column("Role", cells.role_ref), AGE),
    "clusterrolebindings.rbac.authorization.k8s.io": (NAME, Column("Role", cells.role_ref), AGE),
    "customresourcedefinitions.apiextensions.k8s.io": (
        NAME,
        Column("Created At", at("metadata.creationTimestamp")),
    ),
}
