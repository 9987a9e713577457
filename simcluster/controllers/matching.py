"""Whether labels match a LabelSelector, a node matches a NodeSelector, tolerations cover a taint.

Pure: owns these three grammars; must not know who asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from simcluster.api.port import Object
from simcluster.controllers import fields

Labels = Mapping[str, str]


def labels_match(selector: Object | None, labels: Labels) -> bool:
    """A metav1.LabelSelector: None selects nothing, {} everything."""
    if selector is None:
        return False
    wanted: Labels = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_requirement_met(each, labels) for each in selector.get("matchExpressions") or ())


def _requirement_met(requirement: Object, labels: Labels) -> bool:
    value = labels.get(requirement["key"])
    values: Sequence[str] = requirement.get("values") or ()
    match requirement["operator"]:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            if value is None or not value.lstrip("-").isdigit():
                return False
            return int(value) > int(values[0]) if requirement["operator"] == "Gt" else int(value) < int(values[0])
    return False


def node_term_matches(term: Object, node: Object) -> bool:
    """One NodeSelectorTerm: all its expressions and fields; an empty term matches no node."""
    expressions, named = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not named:
        return False
    facts = {"metadata.name": fields.name(node)}
    labels = fields.labels(node)
    return all(_requirement_met(e, labels) for e in expressions) and all(_requirement_met(f, facts) for f in named)


def node_selected(pod_spec: Object, node: Object) -> bool:
    """The node fits a pod's nodeSelector and its required node affinity."""
    labels = fields.labels(node)
    wanted: Labels = pod_spec.get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or selector_matches(required, node)


def selector_matches(selector: Object, node: Object) -> bool:
    """A NodeSelector: any of its terms."""
    return any(node_term_matches(term, node) for term in selector.get("nodeSelectorTerms") or ())


def tolerates(toleration: Object, taint: Object) -> bool:
    """One toleration covers one taint."""
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


def untolerated(
    tolerations: Iterable[Object] | None, taints: Iterable[Object], effects: Iterable[str]
) -> dict[str, Any] | None:
    """The first taint of those effects that no toleration covers."""
    known = tuple(tolerations or ())
    for taint in taints:
        if taint["effect"] in effects and not any(tolerates(toleration, taint) for toleration in known):
            return taint
    return None
