"""The table of kinds this API serves, from which discovery, paths and names are generated.

Owns what exists and how it is called. It must not know how objects are stored, checked or shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class Kind:
    """One served resource.

    `storage` names the collection that holds the objects, so that two groups may show the same objects.
    `generation` says whether metadata.generation counts changes of the spec.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    short: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    generation: bool = False
    storage: str = ""
    custom: bool = False
    singular: str = ""
    schema: str = field(default="", compare=False)
    list_kind: str = ""

    @cached_property
    def api_version(self) -> str:
        """What stands in an object's apiVersion."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def name(self) -> str:
        """The resource with its group, "jobs.batch", as messages and the in-process client spell it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def collection(self) -> str:
        """Key of the collection that stores the objects."""
        return self.storage or self.name

    @cached_property
    def has_status(self) -> bool:
        """Whether the status is written through a subresource of its own."""
        return "status" in self.subresources

    @property
    def singular_name(self) -> str:
        """As discovery shows it."""
        return self.singular or self.kind.lower()

    @property
    def list_kind_name(self) -> str:
        """Kind of a list answer."""
        return self.list_kind or f"{self.kind}List"


def _core(plural: str, kind: str, *, namespaced: bool = True, short: str = "", sub: str = "", cat: str = "") -> Kind:
    return _kind(
        "", "v1", plural, kind, namespaced=namespaced, short=short, sub=sub, cat=cat, generation=plural == "pods"
    )


def _kind(
    group: str,
    version: str,
    plural: str,
    kind: str,
    *,
    namespaced: bool = True,
    short: str = "",
    sub: str = "",
    cat: str = "",
    generation: bool = False,
    storage: str = "",
) -> Kind:
    return Kind(
        group=group,
        version=version,
        plural=plural,
        kind=kind,
        namespaced=namespaced,
        short=tuple(short.split()),
        subresources=tuple(sub.split()),
        categories=tuple(cat.split()),
        generation=generation,
        storage=storage,
    )


def _review(group: str, plural: str, kind: str, *, namespaced: bool = False) -> Kind:
    return Kind(group, "v1", plural, kind, namespaced, verbs=("create",))


_RBAC = "rbac.authorization.k8s.io"

BUILT_IN: tuple[Kind, ...] = (
    _core("namespaces", "Namespace", namespaced=False, short="ns", sub="status finalize"),
    _core("nodes", "Node", namespaced=False, short="no", sub="status proxy"),
    _core(
        "pods",
        "Pod",
        short="po",
        sub="status log exec attach eviction binding proxy ephemeralcontainers resize",
        cat="all",
    ),
    _core("configmaps", "ConfigMap", short="cm"),
    _core("secrets", "Secret"),
    _core("services", "Service", short="svc", sub="status proxy", cat="all"),
    _core("endpoints", "Endpoints", short="ep"),
    _core("events", "Event", short="ev"),
    _core("serviceaccounts", "ServiceAccount", short="sa", sub="token"),
    _core("persistentvolumeclaims", "PersistentVolumeClaim", short="pvc", sub="status"),
    _core("persistentvolumes", "PersistentVolume", namespaced=False, short="pv", sub="status"),
    _core("resourcequotas", "ResourceQuota", short="quota", sub="status"),
    _core("limitranges", "LimitRange", short="limits"),
    _core("podtemplates", "PodTemplate"),
    _core("replicationcontrollers", "ReplicationController", short="rc", sub="status scale", cat="all"),
    _kind("apps", "v1", "daemonsets", "DaemonSet", short="ds", sub="status", cat="all", generation=True),
    _kind("apps", "v1", "deployments", "Deployment", short="deploy", sub="status scale", cat="all", generation=True),
    _kind("apps", "v1", "replicasets", "ReplicaSet", short="rs", sub="status scale", cat="all", generation=True),
    _kind("apps", "v1", "statefulsets", "StatefulSet", short="sts", sub="status scale", cat="all", generation=True),
    _kind("apps", "v1", "controllerrevisions", "ControllerRevision"),
    _kind("batch", "v1", "jobs", "Job", sub="status", cat="all", generation=True),
    _kind("batch", "v1", "cronjobs", "CronJob", short="cj", sub="status", cat="all", generation=True),
    _kind("coordination.k8s.io", "v1", "leases", "Lease"),
    _kind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", generation=True),
    _kind("events.k8s.io", "v1", "events", "Event", short="ev", storage="events"),
    _kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", short="netpol", generation=True),
    _kind("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False),
    _kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short="pdb", sub="status", generation=True),
    _kind(_RBAC, "v1", "roles", "Role"),
    _kind(_RBAC, "v1", "rolebindings", "RoleBinding"),
    _kind(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
    _kind(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    _kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False, short="pc", generation=True),
    _kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False, short="sc"),
    _kind("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False),
    _kind("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False),
    _kind(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        namespaced=False,
        short="crd crds",
        sub="status",
        cat="api-extensions",
        generation=True,
    ),
    _review("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    _review("authentication.k8s.io", "tokenreviews", "TokenReview"),
    _review("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    _review("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    _review("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
    _review("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", namespaced=True),
)


class KindTable:
    """The kinds served right now: the built-in ones and those that CustomResourceDefinitions added."""

    def __init__(self, kinds: Iterable[Kind] = BUILT_IN) -> None:
        self._by_path: dict[tuple[str, str, str], Kind] = {}
        self._by_name: dict[str, Kind] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: Kind) -> None:
        """Serve one more kind; a second version of a resource does not displace the first one's name."""
        self._by_path[kind.group, kind.version, kind.plural] = kind
        self._by_name.setdefault(kind.name, kind)

    def remove(self, kind: Kind) -> None:
        """Stop serving a kind."""
        self._by_path.pop((kind.group, kind.version, kind.plural), None)
        if self._by_name.get(kind.name) == kind:
            del self._by_name[kind.name]

    def at(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind at a path, or None."""
        return self._by_path.get((group, version, plural))

    def named(self, name: str) -> Kind | None:
        """The kind with a resource name such as "jobs.batch", or None."""
        return self._by_name.get(name)

    def __iter__(self) -> Iterator[Kind]:
        return iter(tuple(self._by_path.values()))
