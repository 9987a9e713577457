"""Which nodes can take a pod, and for each that cannot the reason in the scheduler's words.

Owns the rules and their order; must not know scores, queues or the client.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from simcluster.controllers import fields
from simcluster.controllers.matching import node_selected, untolerated
from simcluster.controllers.scheduler.podinfo import NodeInfo, PodInfo, Spread
from simcluster.controllers.scheduler.snapshot import Snapshot

HARD_EFFECTS = ("NoSchedule", "NoExecute")
UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
HELPLESS = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


@dataclass
class Found:
    """Nodes that fit, or why none does: reasons with the number of nodes, and nodes where preemption could help."""

    fitting: list[NodeInfo] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    preemptible: list[NodeInfo] = field(default_factory=list)
    nodes: int = 0

    def message(self, *, preempting: bool = False) -> str:
        """As in the PodScheduled condition and the FailedScheduling event; shorter where room is being made."""
        if not self.nodes:
            return "no nodes available to schedule pods"
        head = f"0/{self.nodes} nodes are available: "
        hopeless = self.nodes - len(self.preemptible)
        counts = ((len(self.preemptible), NO_VICTIMS), (hopeless, HELPLESS))
        preemption = ", ".join(sorted(f"{count} {text}" for count, text in counts if count))
        parts = ", ".join(sorted(f"{count} {reason}" for reason, count in self.reasons.items()))
        if preempting:
            return f"{head}{parts}."
        return f"{head}{parts}. no new claims to deallocate, preemption: {head}{preemption}."


@dataclass(frozen=True)
class _Static:
    """What depends on nodes and rules only, not on other pods."""

    shape: int
    passed: Sequence[NodeInfo]
    reasons: Counter[str]
    affine: Sequence[NodeInfo]


VolumeCheck = Callable[[PodInfo, NodeInfo], str | None]
"""A reason why the pod's volumes cannot be had on a node, or None."""


class Filters:
    """Remembers the answers for pods with equal rules about nodes until a node changes."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._static: dict[str, _Static] = {}
        self._refused: dict[Hashable, Found] = {}
        self._refused_at = -1

    def find(self, pod: PodInfo, volumes: VolumeCheck | None = None) -> Found:
        """Try all nodes, unless a pod that asks for the same was just tried in vain and nothing has changed since."""
        if self._refused_at != self._snapshot.version:
            self._refused_at = self._snapshot.version
            self._refused.clear()
        alike = self._alike(pod) if volumes is None else None
        known = self._refused.get(alike) if alike is not None else None
        if known is not None:
            return known
        found = self._search(pod, volumes)
        if alike is not None and not found.fitting:
            self._refused[alike] = found
        return found

    def _alike(self, pod: PodInfo) -> Hashable:
        """Equal for pods that get the same answer: the pods of one Job differ in labels that no rule asks for."""
        own = (*pod.terms, *pod.anti_terms, *(spread.term for spread in pod.spreads))
        return (
            pod.priority,
            pod.placement,
            tuple(sorted(pod.requests.items())),
            pod.ports,
            own,
            pod.spreads,
            tuple(term.matches(pod.namespace, pod.labels) for term in own),
            self._snapshot.terms.repelling_terms(pod),
        )

    def fits(self, pod: PodInfo, node_name: str) -> bool:
        """Whether one node that passed the rules about nodes can take the pod as things stand."""
        node = self._snapshot.nodes[node_name]
        checks = self._pod_checks(pod, self._static_for(pod))
        return not self._lacking(pod, node) and not any(refused(node) for _, _, refused in checks)

    def _search(self, pod: PodInfo, volumes: VolumeCheck | None) -> Found:
        static = self._static_for(pod)
        found = Found(reasons=Counter(static.reasons), nodes=len(self._snapshot.nodes))
        checks = self._pod_checks(pod, static)
        for each in static.passed:
            node = self._snapshot.nodes[each.name]
            lacking = self._lacking(pod, node)
            if lacking:
                found.reasons.update(lacking)
                if not _larger_than(pod, node):
                    found.preemptible.append(node)
                continue
            reason = volumes(pod, node) if volumes is not None else None
            if reason is not None:
                found.reasons[reason] += 1
                continue
            for reason, helpful, refused in checks:
                if refused(node):
                    found.reasons[reason] += 1
                    if helpful:
                        found.preemptible.append(node)
                    break
            else:
                found.fitting.append(node)
        return found

    def _lacking(self, pod: PodInfo, node: NodeInfo) -> list[str]:
        if pod.ports and any(pod.ports & taken for taken in node.ports.values()):
            return ["node(s) didn't have free ports for the requested pod ports"]
        used: Mapping[str, int] = node.used
        rivals = self._snapshot.nominated.get(node.name)
        if rivals:
            used = _with_nominated(pod, node, rivals)
        have = node.allocatable
        short = [r for r, need in pod.requests.items() if need and used.get(r, 0) + need > have.get(r, 0)]
        return ["Too many pods" if resource == "pods" else f"Insufficient {resource}" for resource in short]

    def _static_for(self, pod: PodInfo) -> _Static:
        known = self._static.get(pod.placement)
        if known is not None and known.shape == self._snapshot.shape:
            return known
        if len(self._static) > 256:
            self._static.clear()
        passed, affine, reasons = [], [], Counter[str]()
        for node in self._snapshot.nodes.values():
            selected = node_selected(pod.spec, node.raw)
            if selected:
                affine.append(node)
            reason = _static_reason(pod, node, selected=selected)
            if reason is None:
                passed.append(node)
            else:
                reasons[reason] += 1
        known = _Static(self._snapshot.shape, passed, reasons, affine)
        self._static[pod.placement] = known
        return known

    def _pod_checks(self, pod: PodInfo, static: _Static) -> list[tuple[str, bool, Callable[[NodeInfo], bool]]]:
        """(reason, whether preemption could help, test) in the order of Kubernetes' plugins."""
        checks: list[tuple[str, bool, Callable[[NodeInfo], bool]]] = []
        for spread in pod.spreads:
            if spread.required:
                checks.extend(self._spread_checks(pod, spread, static))
        terms = self._snapshot.terms
        for term in pod.terms:
            values = set(+terms.matching(term))
            alone = not any(+terms.matching(each) for each in pod.terms)
            if alone and term.matches(pod.namespace, pod.labels):
                # The first of a group that wants to be together may go anywhere.
                continue
            checks.append(("node(s) didn't match pod affinity rules", False, _outside(term.topology_key, values)))
        for term in pod.anti_terms:
            values = set(+terms.matching(term))
            if values:
                reason = "node(s) didn't match pod anti-affinity rules"
                checks.append((reason, True, _inside(term.topology_key, values)))
        for key, values in terms.repelling(pod):
            reason = "node(s) didn't satisfy existing pods anti-affinity rules"
            checks.append((reason, True, _inside(key, values)))
        return checks

    def _spread_checks(
        self, pod: PodInfo, spread: Spread, static: _Static
    ) -> list[tuple[str, bool, Callable[[NodeInfo], bool]]]:
        key = spread.term.topology_key
        reason = "node(s) didn't match pod topology spread constraints"
        counts = self._snapshot.terms.matching(spread.term)
        domains = {node.labels[key] for node in static.affine if key in node.labels}
        least = min((counts[value] for value in domains), default=0)
        own = int(spread.term.matches(pod.namespace, pod.labels))
        crowded = {value for value in domains if counts[value] + own - least > spread.max_skew}
        return [
            (f"{reason} (missing required label)", False, lambda node: key not in node.labels),
            (reason, True, _inside(key, crowded)),
        ]


def _inside(key: str, values: set[str]) -> Callable[[NodeInfo], bool]:
    return lambda node: node.labels.get(key) in values


def _outside(key: str, values: set[str]) -> Callable[[NodeInfo], bool]:
    return lambda node: node.labels.get(key) not in values


def _static_reason(pod: PodInfo, node: NodeInfo, *, selected: bool) -> str | None:
    spec = fields.spec(node.raw)
    tolerations = pod.spec.get("tolerations")
    if spec.get("unschedulable") and untolerated(tolerations, [UNSCHEDULABLE_TAINT], HARD_EFFECTS):
        return "node(s) were unschedulable"
    if untolerated(tolerations, spec.get("taints") or (), HARD_EFFECTS):
        return "node(s) had untolerated taint(s)"
    if not selected:
        return "node(s) didn't match Pod's node affinity/selector"
    return None


def _with_nominated(pod: PodInfo, node: NodeInfo, rivals: Mapping[str, PodInfo]) -> Counter[str]:
    """What is used once those have come for whom room was made and who go before the pod."""
    used = Counter(node.used)
    for rival in rivals.values():
        if rival.uid != pod.uid and rival.priority >= pod.priority and rival.uid not in node.pods:
            used.update(rival.requests)
    return used


def _larger_than(pod: PodInfo, node: NodeInfo) -> bool:
    return any(need > node.allocatable.get(resource, 0) for resource, need in pod.requests.items())
