"""Where pods that match an affinity term run, by topology value, kept up to date as pods come and go.

Owns these counts, so that placing a pod never looks at all other pods; must not know what a filter concludes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from simcluster.api.port import Object
from simcluster.controllers.matching import labels_match

Labels = Mapping[str, str]
MOST_TERMS = 512


class Located(Protocol):
    """A pod, as far as terms see it."""

    @property
    def namespace(self) -> str: ...

    @property
    def labels(self) -> Labels: ...

    @property
    def anti_terms(self) -> tuple[Term, ...]: ...


@lru_cache(maxsize=1024)
def _selector(text: str) -> Any:
    return json.loads(text)


@dataclass(frozen=True)
class Term:
    """Pods of some namespaces (None: of all) with some labels, grouped by a node label."""

    namespaces: frozenset[str] | None
    selector: str
    topology_key: str

    def matches(self, namespace: str, labels: Labels) -> bool:
        """Whether a pod with these labels is meant."""
        if self.namespaces is not None and namespace not in self.namespaces:
            return False
        return labels_match(_selector(self.selector), labels)


def term_of(affinity_term: Object, namespace: str) -> Term:
    """Read a PodAffinityTerm of a pod in that namespace; an empty namespaceSelector means all namespaces."""
    named = affinity_term.get("namespaces")
    everywhere = affinity_term.get("namespaceSelector") == {}
    spaces = None if everywhere else frozenset(named or (namespace,))
    selector = json.dumps(affinity_term.get("labelSelector"), sort_keys=True)
    return Term(spaces, selector, affinity_term["topologyKey"])


@dataclass
class TermIndex:
    """Counts for each term that was ever asked for, and for each required anti-affinity term that a placed pod has."""

    _placed: dict[str, tuple[Located, Labels]] = field(default_factory=dict)
    _matching: dict[Term, Counter[str]] = field(default_factory=dict)
    _owning: dict[Term, Counter[str]] = field(default_factory=dict)

    def add(self, uid: str, pod: Located, node_labels: Labels) -> None:
        """A pod runs (or will run) on a node with these labels."""
        self._placed[uid] = (pod, node_labels)
        self._change(pod, node_labels, 1)

    def remove(self, uid: str) -> None:
        """A pod counts no longer."""
        known = self._placed.pop(uid, None)
        if known is not None:
            self._change(*known, -1)

    def _change(self, pod: Located, node_labels: Labels, by: int) -> None:
        for term, counts in self._matching.items():
            value = node_labels.get(term.topology_key)
            if value is not None and term.matches(pod.namespace, pod.labels):
                counts[value] += by
        for term in pod.anti_terms:
            value = node_labels.get(term.topology_key)
            if value is not None:
                owned = self._owning.setdefault(term, Counter())
                owned[value] += by
                if owned[value] <= 0:
                    del owned[value]
                if not owned:
                    del self._owning[term]

    def matching(self, term: Term) -> Counter[str]:
        """How many placed pods match the term, by topology value."""
        counts = self._matching.get(term)
        if counts is None:
            if len(self._matching) >= MOST_TERMS:
                self._matching.clear()
            counts = Counter()
            for pod, node_labels in self._placed.values():
                value = node_labels.get(term.topology_key)
                if value is not None and term.matches(pod.namespace, pod.labels):
                    counts[value] += 1
            self._matching[term] = counts
        return counts

    def repelling_terms(self, pod: Located) -> frozenset[Term]:
        """The terms of placed pods that want no pod such as this one near them."""
        return frozenset(term for term in self._owning if term.matches(pod.namespace, pod.labels))

    def repelling(self, pod: Located) -> Iterable[tuple[str, set[str]]]:
        """(topology key, values) where placed pods want no pod such as this one."""
        for term, counts in self._owning.items():
            if term.matches(pod.namespace, pod.labels):
                yield term.topology_key, set(counts)
