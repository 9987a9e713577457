"""Which of the fitting nodes is best: the least allocated one, as far as preferences do not say otherwise.

Owns the weights; must not know why a node fits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from simcluster.api.port import Object
from simcluster.controllers.matching import node_term_matches, untolerated
from simcluster.controllers.scheduler.podinfo import PREFERRED, SOFT, NodeInfo, PodInfo
from simcluster.controllers.scheduler.terms import TermIndex

ALWAYS = ("cpu", "memory")
PREFERENCE_WEIGHT = 2.0
TAINT_WEIGHT = 3.0


def best(pod: PodInfo, nodes: Sequence[NodeInfo], terms: TermIndex) -> NodeInfo:
    """The node with the highest score, of equals the one with fewer pods; `nodes` is not empty."""
    if len(nodes) == 1:
        return nodes[0]
    resources = [*ALWAYS, *(r for r in pod.requests if r not in ALWAYS and r != "pods")]
    wishes = _wishes(pod, nodes, terms)
    return max(nodes, key=lambda node: (_free(pod, node, resources) + wishes[node.name], -len(node.pods)))


def _free(pod: PodInfo, node: NodeInfo, resources: Sequence[str]) -> float:
    """0..1: the mean free share of the node once the pod is there."""
    total = 0.0
    for resource in resources:
        have = node.allocatable.get(resource, 0)
        if have:
            total += (have - node.used.get(resource, 0) - pod.requests.get(resource, 0)) / have
    return round(total / len(resources), 4)


def _wishes(pod: PodInfo, nodes: Sequence[NodeInfo], terms: TermIndex) -> Mapping[str, float]:
    affinity = (pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    wished = affinity.get(PREFERRED) or ()
    soft = [spread.term for spread in pod.spreads if not spread.required]
    tainted = [node for node in nodes if node.soft_taints and _unwanted(pod, node)]
    scores: defaultdict[str, float] = defaultdict(float)
    if wished:
        weights = {
            n.name: sum(int(w["weight"]) for w in wished if node_term_matches(w["preference"], n.raw)) for n in nodes
        }
        _add_shares(scores, weights)
    if soft or pod.preferred:
        weighted = [*((-1, term) for term in soft), *pod.preferred]
        counted = [(weight, term.topology_key, terms.matching(term)) for weight, term in weighted]
        near = {n.name: sum(w * counts[n.labels.get(key, "")] for w, key, counts in counted) for n in nodes}
        _add_shares(scores, near)
    for node in tainted:
        scores[node.name] -= TAINT_WEIGHT
    return scores


def _wish_weight(wished: Sequence[Object], node: NodeInfo) -> int:
    return sum(int(wish["weight"]) for wish in wished if node_term_matches(wish["preference"], node.raw))


def _unwanted(pod: PodInfo, node: NodeInfo) -> bool:
    return untolerated(pod.spec.get("tolerations"), node.soft_taints, (SOFT,)) is not None


def _add_shares(scores: defaultdict[str, float], values: Mapping[str, float]) -> None:
    low, high = min(values.values()), max(values.values())
    if high > low:
        for name, value in values.items():
            scores[name] += PREFERENCE_WEIGHT * (value - low) / (high - low)
