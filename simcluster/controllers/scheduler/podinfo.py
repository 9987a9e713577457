"""What the scheduler needs of a pod and of a node, read once.

Owns the reading of requests, affinity and spread constraints; decides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from simcluster.api.port import Object
from simcluster.controllers import fields
from simcluster.controllers.quantity import amount
from simcluster.controllers.scheduler.terms import Term, term_of

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SOFT = "PreferNoSchedule"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class Spread:
    """A topologySpreadConstraint."""

    term: Term
    max_skew: int
    required: bool


@dataclass(frozen=True, eq=False)
class PodInfo:
    """A pod as the scheduler sees it; `requests` holds one of "pods" too. `placement` is equal for equal node rules."""

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str]
    requests: Mapping[str, int]
    ports: frozenset[tuple[str, int]]
    terms: tuple[Term, ...]
    anti_terms: tuple[Term, ...]
    preferred: tuple[tuple[int, Term], ...]
    spreads: tuple[Spread, ...]
    priority: int
    placement: str
    raw: Object = field(repr=False, compare=False)

    @property
    def spec(self) -> dict[str, Any]:
        """The pod's spec."""
        return fields.spec(self.raw)


def pod_info(pod: Object) -> PodInfo:
    """Read a pod."""
    spec = fields.spec(pod)
    affinity = spec.get("affinity") or {}
    near, far = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
    namespace = fields.namespace(pod)
    rules = {name: spec.get(name) for name in ("nodeSelector", "tolerations")}
    rules["nodeAffinity"] = affinity.get("nodeAffinity")
    return PodInfo(
        namespace=namespace,
        name=fields.name(pod),
        uid=fields.uid(pod),
        labels=fields.labels(pod),
        requests=requests_of(spec),
        ports=_host_ports(spec),
        terms=tuple(term_of(term, namespace) for term in near.get(REQUIRED) or ()),
        anti_terms=tuple(term_of(term, namespace) for term in far.get(REQUIRED) or ()),
        preferred=(*_weighted(near, namespace, 1), *_weighted(far, namespace, -1)),
        spreads=tuple(_spread(each, namespace) for each in spec.get("topologySpreadConstraints") or ()),
        priority=int(spec.get("priority") or 0),
        placement=json.dumps(rules, sort_keys=True),
        raw=pod,
    )


def requests_of(spec: Object) -> dict[str, int]:
    """What a pod needs at once: its containers and sidecars together, or more where an init container needs more."""
    total: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(total, container)
    sidecars: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            _add(sidecars, container)
            need = dict(sidecars)
        else:
            need = dict(sidecars)
            _add(need, container)
        for resource, value in need.items():
            peak[resource] = max(peak.get(resource, 0), value)
    for resource, value in sidecars.items():
        total[resource] = total.get(resource, 0) + value
    needed = {resource: max(total.get(resource, 0), peak.get(resource, 0)) for resource in {*total, *peak}}
    for resource, text in (spec.get("overhead") or {}).items():
        needed[resource] = needed.get(resource, 0) + amount(resource, text)
    needed["pods"] = 1
    return needed


def _add(total: dict[str, int], container: Object) -> None:
    resources = container.get("resources") or {}
    wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    for resource, text in wanted.items():
        total[resource] = total.get(resource, 0) + amount(resource, text)


def _host_ports(spec: Object) -> frozenset[tuple[str, int]]:
    ports = (port for container in spec.get("containers") or () for port in container.get("ports") or ())
    return frozenset((port.get("protocol", "TCP"), int(port["hostPort"])) for port in ports if port.get("hostPort"))


def _weighted(affinity: Object, namespace: str, sign: int) -> tuple[tuple[int, Term], ...]:
    return tuple(
        (sign * int(each["weight"]), term_of(each["podAffinityTerm"], namespace))
        for each in affinity.get(PREFERRED) or ()
    )


def _spread(constraint: Object, namespace: str) -> Spread:
    return Spread(
        term=term_of({**constraint, "namespaces": [namespace], "namespaceSelector": None}, namespace),
        max_skew=int(constraint["maxSkew"]),
        required=constraint.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule",
    )


@dataclass
class NodeInfo:
    """A node and what its pods use of it; `soft_taints` are those that only ask pods to go elsewhere."""

    name: str
    raw: Object
    labels: Mapping[str, str]
    allocatable: Mapping[str, int]
    soft_taints: tuple[Object, ...] = ()
    used: dict[str, int] = field(default_factory=dict)
    ports: dict[str, frozenset[tuple[str, int]]] = field(default_factory=dict)
    pods: dict[str, PodInfo] = field(default_factory=dict)

    def add(self, pod: PodInfo) -> None:
        """The pod takes its share."""
        self.pods[pod.uid] = pod
        for resource, value in pod.requests.items():
            self.used[resource] = self.used.get(resource, 0) + value
        if pod.ports:
            self.ports[pod.uid] = pod.ports

    def remove(self, pod: PodInfo) -> None:
        """The pod gives its share back."""
        del self.pods[pod.uid]
        for resource, value in pod.requests.items():
            self.used[resource] -= value
        self.ports.pop(pod.uid, None)


def node_info(node: Object) -> NodeInfo:
    """Read a node."""
    amounts = fields.status(node).get("allocatable") or {}
    return NodeInfo(
        name=fields.name(node),
        raw=node,
        labels=fields.labels(node),
        allocatable={resource: amount(resource, text) for resource, text in amounts.items()},
        soft_taints=tuple(t for t in fields.spec(node).get("taints") or () if t["effect"] == SOFT),
    )
