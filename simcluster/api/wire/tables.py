"""Tables: the columns of each kind as `kubectl get` prints them, and what stands in their cells.

Owns columns and generic cells; what a pod's status column says is in podcells. It must not know HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simcluster.api.kinds import Kind
from simcluster.api.port import Object
from simcluster.api.selectors import label_selector_text
from simcluster.api.wire import podcells
from simcluster.api.wire.durations import age, between

Cell = Callable[[Object], Any]


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


@dataclass(frozen=True)
class Table:
    """All columns of a kind."""

    columns: tuple[Column, ...]

    def definitions(self) -> list[Object]:
        """The columns as they go over the wire."""
        return [column.definition() for column in self.columns]

    def cells(self, obj: Object) -> list[Any]:
        """The row of an object."""
        return [column.cell(obj) for column in self.columns]


def at(path: str, default: Any = "") -> Cell:
    """The cell that shows the value at a dotted path."""
    parts = path.split(".")

    def cell(obj: Object) -> Any:
        current: Any = obj
        for part in parts:
            current = current.get(part) if isinstance(current, Mapping) else None
        return default if current is None else current

    return cell


def _age(obj: Object) -> str:
    return age(obj["metadata"].get("creationTimestamp"))


NAME = Column("Name", at("metadata.name"))
AGE = Column("Age", _age)
_NONE = "<none>"


def _wide(name: str, cell: Cell) -> Column:
    return Column(name, cell, wide=True)


def _count(path: str) -> Cell:
    value = at(path)
    return lambda obj: len(value(obj) or ())


def _selector(obj: Object) -> str:
    return label_selector_text((obj.get("spec") or {}).get("selector")) or _NONE


def _pairs(path: str) -> Cell:
    value = at(path)
    return lambda obj: ",".join(f"{key}={item}" for key, item in sorted((value(obj) or {}).items())) or _NONE


def _containers(field: str) -> Cell:
    def cell(obj: Object) -> str:
        containers = obj["spec"].get("template", {}).get("spec", {}).get("containers") or []
        return ",".join(str(container.get(field, "")) for container in containers)

    return cell


def _job_status(obj: Object) -> str:
    status = obj.get("status") or {}
    true = {condition["type"] for condition in status.get("conditions") or [] if condition.get("status") == "True"}
    for shown in ("Complete", "Failed"):
        if shown in true:
            return shown
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    for shown in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if shown in true:
            return shown
    return "Running"


def _job_completions(obj: Object) -> str:
    spec, done = obj["spec"], (obj.get("status") or {}).get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    parallelism = spec.get("parallelism", 0)
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(obj: Object) -> str:
    status = obj.get("status") or {}
    return between(status.get("startTime"), status.get("completionTime"))


def _node_status(obj: Object) -> str:
    status = "Unknown"
    for condition in (obj.get("status") or {}).get("conditions") or []:
        if condition["type"] == "Ready":
            status = "Ready" if condition["status"] == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if (obj.get("spec") or {}).get("unschedulable") else status


def _node_roles(obj: Object) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    return ",".join(sorted(key[len(prefix) :] for key in labels if key.startswith(prefix))) or _NONE


def _node_address(kind: str) -> Cell:
    def cell(obj: Object) -> str:
        for address in (obj.get("status") or {}).get("addresses") or []:
            if address.get("type") == kind:
                return str(address["address"])
        return _NONE

    return cell


def _node_kernel(obj: Object) -> str:
    info = (obj.get("status") or {}).get("nodeInfo") or {}
    return f"{info.get('kernelVersion', '')} ({info.get('architecture', '')})"


def _event_object(obj: Object) -> str:
    involved = obj.get("involvedObject") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


def _event_source(obj: Object) -> str:
    source = obj.get("source") or {}
    component = source.get("component") or obj.get("reportingComponent") or ""
    host = source.get("host") or obj.get("reportingInstance") or ""
    return f"{component}, {host}" if host and component else component


def _event_first(obj: Object) -> str:
    return age(obj.get("firstTimestamp") or obj.get("eventTime") or obj["metadata"].get("creationTimestamp"))


def _event_last(obj: Object) -> str:
    series = (obj.get("series") or {}).get("lastObservedTime")
    return age(series or obj.get("lastTimestamp") or obj.get("eventTime") or obj["metadata"].get("creationTimestamp"))


def _event_count(obj: Object) -> int:
    return int((obj.get("series") or {}).get("count") or obj.get("count") or 1)


def _ports(obj: Object) -> str:
    shown = []
    for port in (obj.get("spec") or {}).get("ports") or []:
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or _NONE


def _endpoints(obj: Object) -> str:
    shown = []
    for subset in obj.get("subsets") or []:
        ports = [port["port"] for port in subset.get("ports") or []]
        for address in subset.get("addresses") or []:
            shown += [f"{address['ip']}:{port}" for port in ports] or [str(address["ip"])]
    extra = f" + {len(shown) - 3} more..." if len(shown) > 3 else ""
    return (",".join(shown[:3]) + extra) or _NONE


def _slice_addresses(obj: Object) -> str:
    found = [address for endpoint in obj.get("endpoints") or [] for address in endpoint.get("addresses") or []]
    extra = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return (",".join(found[:3]) + extra) or "<unset>"


def _slice_ports(obj: Object) -> str:
    return ",".join(str(port.get("port", "*")) for port in obj.get("ports") or []) or "<unset>"


def _quota(field: str) -> Cell:
    def cell(obj: Object) -> str:
        status = obj.get("status") or {}
        hard = status.get("hard") or (obj.get("spec") or {}).get("hard") or {}
        names = [name for name in sorted(hard) if name.startswith("limits.") is (field == "limits")]
        used = status.get("used") or {}
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return cell


def _namespace_status(obj: Object) -> str:
    return str((obj.get("status") or {}).get("phase", "Active"))


def _claim_status(obj: Object) -> str:
    return "Terminating" if "deletionTimestamp" in obj["metadata"] else str((obj.get("status") or {}).get("phase", ""))


def _modes(path: str) -> Cell:
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    value = at(path)
    return lambda obj: ",".join(short.get(mode, mode) for mode in value(obj) or ())


def _claim_of(obj: Object) -> str:
    claim = obj["spec"].get("claimRef")
    return f"{claim.get('namespace', '')}/{claim['name']}" if claim else ""


def _ready_of(wanted: str, ready: str) -> Cell:
    goal, now = at(wanted, 0), at(ready, 0)
    return lambda obj: f"{now(obj)}/{goal(obj)}"


def _role_ref(obj: Object) -> str:
    return f"{obj['roleRef']['kind']}/{obj['roleRef']['name']}"


_TEMPLATE = (_wide("Containers", _containers("name")), _wide("Images", _containers("image")))
_SELECTOR = _wide("Selector", _selector)

COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "pods": (
        NAME,
        Column("Ready", podcells.ready),
        Column("Status", podcells.status),
        Column("Restarts", podcells.restarts),
        AGE,
        _wide("IP", at("status.podIP", _NONE)),
        _wide("Node", at("spec.nodeName", _NONE)),
        _wide("Nominated Node", at("status.nominatedNodeName", _NONE)),
        _wide("Readiness Gates", lambda _obj: _NONE),
    ),
    "nodes": (
        NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        AGE,
        Column("Version", at("status.nodeInfo.kubeletVersion")),
        _wide("Internal-IP", _node_address("InternalIP")),
        _wide("External-IP", _node_address("ExternalIP")),
        _wide("OS-Image", at("status.nodeInfo.osImage", "<unknown>")),
        _wide("Kernel-Version", _node_kernel),
        _wide("Container-Runtime", at("status.nodeInfo.containerRuntimeVersion", "<unknown>")),
    ),
    "jobs.batch": (
        NAME,
        Column("Status", _job_status),
        Column("Completions", _job_completions),
        Column("Duration", _job_duration),
        AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    "events": (
        Column("Last Seen", _event_last),
        Column("Type", at("type")),
        Column("Reason", at("reason")),
        Column("Object", _event_object),
        _wide("Subobject", at("involvedObject.fieldPath")),
        _wide("Source", _event_source),
        Column("Message", at("message")),
        _wide("First Seen", _event_first),
        _wide("Count", _event_count),
        Column("Name", at("metadata.name"), wide=True),
    ),
    "namespaces": (NAME, Column("Status", _namespace_status), AGE),
    "configmaps": (NAME, Column("Data", lambda o: len(o.get("data") or ()) + len(o.get("binaryData") or ())), AGE),
    "secrets": (NAME, Column("Type", at("type")), Column("Data", _count("data")), AGE),
    "serviceaccounts": (NAME, Column("Secrets", _count("secrets")), AGE),
    "services": (
        NAME,
        Column("Type", at("spec.type")),
        Column("Cluster-IP", at("spec.clusterIP", _NONE)),
        Column("External-IP", lambda _obj: _NONE),
        Column("Port(s)", _ports),
        AGE,
        _wide("Selector", _pairs("spec.selector")),
    ),
    "endpoints": (NAME, Column("Endpoints", _endpoints), AGE),
    "endpointslices.discovery.k8s.io": (
        NAME,
        Column("AddressType", at("addressType")),
        Column("Ports", _slice_ports),
        Column("Endpoints", _slice_addresses),
        AGE,
    ),
    "persistentvolumeclaims": (
        NAME,
        Column("Status", _claim_status),
        Column("Volume", at("spec.volumeName")),
        Column("Capacity", at("status.capacity.storage")),
        Column("Access Modes", _modes("status.accessModes")),
        Column("StorageClass", at("spec.storageClassName")),
        Column("VolumeAttributesClass", at("spec.volumeAttributesClassName", "<unset>")),
        AGE,
        _wide("VolumeMode", at("spec.volumeMode", "<unset>")),
    ),
    "persistentvolumes": (
        NAME,
        Column("Capacity", at("spec.capacity.storage")),
        Column("Access Modes", _modes("spec.accessModes")),
        Column("Reclaim Policy", at("spec.persistentVolumeReclaimPolicy")),
        Column("Status", _claim_status),
        Column("Claim", _claim_of),
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
        Column("Node Selector", _pairs("spec.template.spec.nodeSelector")),
        AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    "deployments.apps": (
        NAME,
        Column("Ready", _ready_of("spec.replicas", "status.readyReplicas")),
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
        Column("Ready", _ready_of("spec.replicas", "status.readyReplicas")),
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
        Column("Request", _quota("requests")),
        Column("Limit", _quota("limits")),
        AGE,
    ),
    "limitranges": (NAME, Column("Created At", at("metadata.creationTimestamp"))),
    "networkpolicies.networking.k8s.io": (
        NAME,
        Column("Pod-Selector", lambda o: label_selector_text(o["spec"].get("podSelector")) or _NONE),
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
    "rolebindings.rbac.authorization.k8s.io": (NAME, Column("Role", _role_ref), AGE),
    "clusterrolebindings.rbac.authorization.k8s.io": (NAME, Column("Role", _role_ref), AGE),
    "customresourcedefinitions.apiextensions.k8s.io": (
        NAME,
        Column("Created At", at("metadata.creationTimestamp")),
    ),
}


def table_of(kind: Kind, extra: Sequence[Column] = ()) -> Table:
    """The table of a kind; `extra` are the columns a CustomResourceDefinition names."""
    if extra:
        return Table((NAME, *extra))
    name = "events" if kind.storage == "events" else kind.name
    return Table(COLUMNS.get(name, (NAME, AGE)))


def custom_column(spec: Mapping[str, Any]) -> Column:
    """A column of additionalPrinterColumns; simple JSON paths only."""
    cell = at(str(spec["jsonPath"]).lstrip("."))
    if spec.get("type") == "date":
        shown = cell
        return Column(spec["name"], lambda obj: age(shown(obj) or None), wide=bool(spec.get("priority")))
    return Column(spec["name"], cell, wide=bool(spec.get("priority")), type=spec.get("type", "string"))
