"""What has to be answered: every check on every subject that the profile expects, whatever the cluster has.

Pure. The denominator comes from here; it must not know a pod, a record or pytest.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpuproof.catalogue import Check
from gpuproof.decision import Key, PlannedSubject, ScopeResult, VerdictLine, judge_scope
from gpuproof.expectation import CoverCanary, CoverShare, State
from gpuproof.profile import Profile
from gpuproof.suite import ClusterSubject, NodeSubject
from gpuproof.verdict import Verdict

ANSWERED = (Verdict.PASS, Verdict.FAIL)
"""A node counts as covered when every required check on it came to one of these, or is waived."""


@dataclass(frozen=True)
class Plan:
    """The nodes that are asked (and those that are missing), and every question with its subject."""

    nodes: tuple[NodeSubject, ...]
    subjects: tuple[PlannedSubject, ...]
    expected_nodes: int


def make_plan(checks: Sequence[Check], profile: Profile, in_scope: Sequence[str]) -> Plan:
    """The plan for the nodes found in the profile's scope; those it has too few of become `missing-1` …

    A scope that covers a share of the pool misses no node by name: `judge_coverage` counts whether enough were judged.
    """
    expected = expected_nodes(profile)
    if isinstance(profile.scope.cover, CoverShare):
        nodes = tuple(NodeSubject(name) for name in in_scope)
        return Plan(nodes, _questions(checks, profile, nodes), expected)
    absent = [NodeSubject(f"missing-{number}", missing=True) for number in range(1, expected - len(in_scope) + 1)]
    nodes = (*(NodeSubject(name) for name in in_scope), *absent)
    return Plan(nodes, _questions(checks, profile, nodes), expected)


def _questions(checks: Sequence[Check], profile: Profile, nodes: Sequence[NodeSubject]) -> tuple[PlannedSubject, ...]:
    subjects: list[PlannedSubject] = []
    for check in checks:
        required = profile.checks[check.name].state is State.REQUIRED
        names = [ClusterSubject().name] if check.asks_cluster else []
        names += [node.name for node in nodes] if check.asks_nodes else []
        subjects += [PlannedSubject(check.name, name, required) for name in names]
    return tuple(subjects)


def expected_nodes(profile: Profile) -> int:
    """How many nodes the profile's scope promises to judge."""
    cover = profile.scope.cover
    return cover.nodes if isinstance(cover, CoverCanary) else profile.cluster.nodes


def scope_labels(profile: Profile) -> dict[str, str]:
    """The labels that a node in the profile's scope carries."""
    cover = profile.scope.cover
    return {**profile.scope.pool, **(cover.selector if isinstance(cover, CoverCanary) else {})}


def judge_coverage(
    plan: Plan,
    profile: Profile,
    judged: Mapping[Key, VerdictLine],
    *,
    today: dt.date,
    earlier: Mapping[str, dt.date] | None = None,
    narrowed: str | None = None,
) -> ScopeResult:
    """What the run speaks for: nodes fully judged today, and on which day `earlier` runs last did so for the others."""
    in_force = {(waiver.check, waiver.subject) for waiver in profile.waivers if not waiver.expired(today)}
    needed: dict[str, list[bool]] = {node.name: [] for node in plan.nodes if not node.missing}
    excused: set[str] = set()
    for subject in plan.subjects:
        key = (subject.check, subject.subject)
        if subject.required and subject.subject in needed:
            verdict = judged[key].verdict if key in judged else Verdict.NOT_RUN
            needed[subject.subject].append(verdict in ANSWERED or key in in_force)
            if verdict is not Verdict.PASS and key in in_force:
                excused.add(subject.subject)
    covered = [name for name, answers in needed.items() if answers and all(answers)]
    result = judge_scope(
        profile.scope,
        expected_nodes=plan.expected_nodes,
        visited={**(earlier or {}), **dict.fromkeys(covered, today)},
        today=today,
        narrowed=narrowed,
        by_waiver=len(excused.intersection(covered)),
    )
    return replace(result, text=f"{result.text}{_shares_text(profile)}")


def _shares_text(profile: Profile) -> str:
    """What was tested of a node whose GPUs are shared: a share is not the whole, and the reader must know it."""
    cluster = profile.cluster
    if not cluster.shared:
        return ""
    return f"; {cluster.sharing_text}: pods held {cluster.pod_gpus} of the {cluster.gpus_per_node} shares of a node"
