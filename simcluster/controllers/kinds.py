"""Which resources controllers look at, by what they are for.

Owns these lists; must not know what is done with the objects.
"""

from __future__ import annotations

from typing import Final

CONTENT: Final = (
    "configmaps",
    "cronjobs.batch",
    "jobs.batch",
    "daemonsets.apps",
    "deployments.apps",
    "statefulsets.apps",
    "replicasets.apps",
    "controllerrevisions.apps",
    "replicationcontrollers",
    "services",
    "endpoints",
    "endpointslices.discovery.k8s.io",
    "leases.coordination.k8s.io",
    "limitranges",
    "networkpolicies.networking.k8s.io",
    "persistentvolumeclaims",
    "poddisruptionbudgets.policy",
    "podtemplates",
    "resourcequotas",
    "rolebindings.rbac.authorization.k8s.io",
    "roles.rbac.authorization.k8s.io",
    "secrets",
    "serviceaccounts",
    "events",
)
"""What a namespace may hold besides pods."""

OWNED: Final = {
    ("v1", "Pod"): "pods",
    ("v1", "ConfigMap"): "configmaps",
    ("v1", "Secret"): "secrets",
    ("v1", "Service"): "services",
    ("v1", "Endpoints"): "endpoints",
    ("v1", "ServiceAccount"): "serviceaccounts",
    ("v1", "PersistentVolumeClaim"): "persistentvolumeclaims",
    ("v1", "Node"): "nodes",
    ("batch/v1", "Job"): "jobs.batch",
    ("batch/v1", "CronJob"): "cronjobs.batch",
    ("apps/v1", "DaemonSet"): "daemonsets.apps",
    ("apps/v1", "Deployment"): "deployments.apps",
    ("apps/v1", "ReplicaSet"): "replicasets.apps",
    ("apps/v1", "StatefulSet"): "statefulsets.apps",
    ("apps/v1", "ControllerRevision"): "controllerrevisions.apps",
    ("discovery.k8s.io/v1", "EndpointSlice"): "endpointslices.discovery.k8s.io",
    ("policy/v1", "PodDisruptionBudget"): "poddisruptionbudgets.policy",
    ("rbac.authorization.k8s.io/v1", "Role"): "roles.rbac.authorization.k8s.io",
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): "rolebindings.rbac.authorization.k8s.io",
    ("coordination.k8s.io/v1", "Lease"): "leases.coordination.k8s.io",
}
"""Kinds between which owner references are followed."""
