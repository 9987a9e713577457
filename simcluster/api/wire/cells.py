"""What stands in the cells of tables: one function a column, from an object to what a person reads.

Owns those readings; a pod's are in podcells. It must not know columns or HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from simcluster.api.port import Object
from simcluster.api.selectors import label_selector_text
from simcluster.api.wire.durations import age, between

Cell = Callable[[Object], Any]

NONE = "<none>"
"""What kubectl shows for nothing."""


def at(path: str, default: Any = "") -> Cell:
    """The cell that shows the value at a dotted path."""
    parts = path.split(".")

    def cell(obj: Object) -> Any:
        current: Any = obj
        for part in parts:
            current = current.get(part) if isinstance(current, Mapping) else None
        return default if current is None else current

    return cell


def of_condition(kind: str, field: str) -> Cell:
    """The cell that shows a field of the condition of that type."""
    value = at("status.conditions")

    def cell(obj: Object) -> Any:
        return next((each.get(field, "") for each in value(obj) or () if each.get("type") == kind), "")

    return cell


def age_of(obj: Object) -> str:
    """Time since creation."""
    return age(obj["metadata"].get("creationTimestamp"))


def count(path: str) -> Cell:
    """The cell that shows how many entries a field has."""
    value = at(path)
    return lambda obj: len(value(obj) or ())


def selector(obj: Object) -> str:
    """The label selector of the spec."""
    return label_selector_text((obj.get("spec") or {}).get("selector")) or NONE


def pod_selector(obj: Object) -> str:
    """The pods that a network policy covers."""
    return label_selector_text(obj["spec"].get("podSelector")) or NONE


def pairs(path: str) -> Cell:
    """The cell that shows a map as key=value pairs."""
    value = at(path)
    return lambda obj: ",".join(f"{key}={item}" for key, item in sorted((value(obj) or {}).items())) or NONE


def containers(field: str) -> Cell:
    """The cell that shows one field of every container of the template."""

    def cell(obj: Object) -> str:
        containers = obj["spec"].get("template", {}).get("spec", {}).get("containers") or []
        return ",".join(str(container.get(field, "")) for container in containers)

    return cell


def job_status(obj: Object) -> str:
    """Complete, Failed, Terminating, Suspended, FailureTarget, SuccessCriteriaMet or Running."""
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


def job_completions(obj: Object) -> str:
    """Succeeded pods of those wanted."""
    spec, done = obj["spec"], (obj.get("status") or {}).get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    parallelism = spec.get("parallelism", 0)
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def job_duration(obj: Object) -> str:
    """Time from start to completion, or to now."""
    status = obj.get("status") or {}
    return between(status.get("startTime"), status.get("completionTime"))


def node_status(obj: Object) -> str:
    """Ready, NotReady or Unknown, and whether the node is cordoned."""
    status = "Unknown"
    for condition in (obj.get("status") or {}).get("conditions") or []:
        if condition["type"] == "Ready":
            status = "Ready" if condition["status"] == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if (obj.get("spec") or {}).get("unschedulable") else status


def node_roles(obj: Object) -> str:
    """Roles by the labels that name them."""
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    return ",".join(sorted(key[len(prefix) :] for key in labels if key.startswith(prefix))) or NONE


def node_address(kind: str) -> Cell:
    """The cell that shows the first address of a type."""

    def cell(obj: Object) -> str:
        for address in (obj.get("status") or {}).get("addresses") or []:
            if address.get("type") == kind:
                return str(address["address"])
        return NONE

    return cell


def node_kernel(obj: Object) -> str:
    """Kernel and architecture."""
    info = (obj.get("status") or {}).get("nodeInfo") or {}
    return f"{info.get('kernelVersion', '')} ({info.get('architecture', '')})"


def event_object(obj: Object) -> str:
    """What the event is about, as kind/name."""
    involved = obj.get("involvedObject") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


def event_source(obj: Object) -> str:
    """Who reported it, and where."""
    source = obj.get("source") or {}
    component = source.get("component") or obj.get("reportingComponent") or ""
    host = source.get("host") or obj.get("reportingInstance") or ""
    return f"{component}, {host}" if host and component else component


def event_first(obj: Object) -> str:
    """Time since it was first seen."""
    return age(obj.get("firstTimestamp") or obj.get("eventTime") or obj["metadata"].get("creationTimestamp"))


def event_last(obj: Object) -> str:
    """Time since it was last seen."""
    series = (obj.get("series") or {}).get("lastObservedTime")
    return age(series or obj.get("lastTimestamp") or obj.get("eventTime") or obj["metadata"].get("creationTimestamp"))


def event_count(obj: Object) -> int:
    """How often it was seen."""
    return int((obj.get("series") or {}).get("count") or obj.get("count") or 1)


def ports(obj: Object) -> str:
    """Ports of a service with their protocols."""
    shown = []
    for port in (obj.get("spec") or {}).get("ports") or []:
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or NONE


def endpoints(obj: Object) -> str:
    """The first three addresses with ports."""
    shown = []
    for subset in obj.get("subsets") or []:
        ports = [port["port"] for port in subset.get("ports") or []]
        for address in subset.get("addresses") or []:
            shown += [f"{address['ip']}:{port}" for port in ports] or [str(address["ip"])]
    extra = f" + {len(shown) - 3} more..." if len(shown) > 3 else ""
    return (",".join(shown[:3]) + extra) or NONE


def slice_addresses(obj: Object) -> str:
    """The first three addresses of a slice."""
    found = [address for endpoint in obj.get("endpoints") or [] for address in endpoint.get("addresses") or []]
    extra = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return (",".join(found[:3]) + extra) or "<unset>"


def slice_ports(obj: Object) -> str:
    """Ports of a slice."""
    return ",".join(str(port.get("port", "*")) for port in obj.get("ports") or []) or "<unset>"


def quota(field: str) -> Cell:
    """The cell that shows used/hard of requests or of limits."""

    def cell(obj: Object) -> str:
        status = obj.get("status") or {}
        hard = status.get("hard") or (obj.get("spec") or {}).get("hard") or {}
        names = [name for name in sorted(hard) if name.startswith("limits.") is (field == "limits")]
        used = status.get("used") or {}
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return cell


def namespace_status(obj: Object) -> str:
    """Active or Terminating."""
    return str((obj.get("status") or {}).get("phase", "Active"))


def claim_status(obj: Object) -> str:
    """The phase, or Terminating."""
    return "Terminating" if "deletionTimestamp" in obj["metadata"] else str((obj.get("status") or {}).get("phase", ""))


def modes(path: str) -> Cell:
    """The cell that shows access modes in their short forms."""
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    value = at(path)
    return lambda obj: ",".join(short.get(mode, mode) for mode in value(obj) or ())


def claim_of(obj: Object) -> str:
    """The claim that a volume is bound to."""
    claim = obj["spec"].get("claimRef")
    return f"{claim.get('namespace', '')}/{claim['name']}" if claim else ""


def ready_of(wanted: str, ready: str) -> Cell:
    """The cell that shows a count as ready/wanted."""
    goal, now = at(wanted, 0), at(ready, 0)
    return lambda obj: f"{now(obj)}/{goal(obj)}"


def role_ref(obj: Object) -> str:
    """The role that a binding grants."""
    return f"{obj['roleRef']['kind']}/{obj['roleRef']['name']}"
