"""The plan: its denominator is the profile's, whatever the cluster has."""

from __future__ import annotations

import dataclasses
import datetime as dt

import pytest

from gpuproof.catalogue import load_checks, subjects_asked
from gpuproof.decision import VerdictLine
from gpuproof.expectation import CoverCanary, CoverShare, Scope, Waiver
from gpuproof.inventory import gpus_in_use
from gpuproof.plan import expected_nodes, judge_coverage, make_plan, scope_labels
from gpuproof.profile import THRESHOLDS, Profile, load_profile
from gpuproof.verdict import Verdict

CHECKS = load_checks()
TODAY = dt.date(2026, 11, 30)
SIMULATED = load_profile(THRESHOLDS / "simulated.toml", known_checks=subjects_asked(CHECKS), today=TODAY)
NAMES = tuple(check.name for check in CHECKS if check.asks_nodes)
POOL = SIMULATED.scope.pool


def scoped(cover: CoverShare | CoverCanary) -> Profile:
    return dataclasses.replace(SIMULATED, scope=Scope(POOL, cover))


def test_nodes_that_the_pool_has_too_few_of_are_subjects() -> None:
    plan = make_plan(CHECKS, SIMULATED, ["a", "b"])
    assert [node.name for node in plan.nodes] == ["a", "b", "missing-1", "missing-2"]
    asked = {(subject.check, subject.subject) for subject in plan.subjects}
    assert ("cuda_runtime", "missing-2") in asked
    assert ("gpu_inventory", "cluster") in asked
    assert {subject.check for subject in plan.subjects if not subject.required} == {"checkpoint_node_lost"}


def test_an_empty_cluster_is_all_missing_and_a_larger_one_is_asked_whole() -> None:
    assert len(make_plan(CHECKS, SIMULATED, []).nodes) == 4
    assert len(make_plan(CHECKS, SIMULATED, list("abcdef")).nodes) == 6


def test_a_share_of_the_pool_misses_no_node_by_name_but_is_counted() -> None:
    profile = scoped(CoverShare(0.5, 7))
    plan = make_plan(CHECKS, profile, ["a"])
    assert [node.name for node in plan.nodes] == ["a"]
    judged = {(s.check, s.subject): VerdictLine(s.check, s.subject, Verdict.PASS) for s in plan.subjects}
    assert not judge_coverage(plan, profile, judged, today=TODAY).complete
    assert judge_coverage(plan, profile, judged, today=TODAY, earlier={"b": TODAY - dt.timedelta(6)}).complete
    assert not judge_coverage(plan, profile, judged, today=TODAY, earlier={"b": TODAY - dt.timedelta(8)}).complete


def test_a_canary_scope_selects_and_counts_its_own_nodes() -> None:
    profile = scoped(CoverCanary({"canary": "yes"}, 1))
    assert scope_labels(profile) == {**POOL, "canary": "yes"}
    assert expected_nodes(profile) == 1


def test_a_node_without_an_answer_is_not_covered_unless_waived() -> None:
    plan = make_plan(CHECKS, SIMULATED, list("abcd"))
    judged = {(s.check, s.subject): VerdictLine(s.check, s.subject, Verdict.PASS) for s in plan.subjects}
    judged["cuda_runtime", "a"] = VerdictLine("cuda_runtime", "a", Verdict.ERROR)
    assert not judge_coverage(plan, SIMULATED, judged, today=TODAY).complete
    waiver = Waiver("cuda_runtime", "a", "owner", "reason", TODAY)
    waived = dataclasses.replace(SIMULATED, waivers=(waiver,))
    covered = judge_coverage(plan, waived, judged, today=TODAY)
    assert covered.complete
    assert covered.text.endswith(", 1 of them only by waiver")
    assert not judge_coverage(plan, waived, judged, today=TODAY + dt.timedelta(1)).complete


@pytest.mark.parametrize(
    ("verdict", "only_by_waiver"), [(Verdict.FAIL, True), (Verdict.ERROR, True), (Verdict.PASS, False)]
)
def test_a_scope_says_which_nodes_a_waiver_alone_brought_in(verdict: Verdict, *, only_by_waiver: bool) -> None:
    plan = make_plan(CHECKS, SIMULATED, list("abcd"))
    judged = {(s.check, s.subject): VerdictLine(s.check, s.subject, Verdict.PASS) for s in plan.subjects}
    for check in NAMES:
        judged[check, "a"] = VerdictLine(check, "a", verdict)
    waivers = tuple(Waiver(check, "a", "owner", "reason", TODAY) for check in NAMES)
    got = judge_coverage(plan, dataclasses.replace(SIMULATED, waivers=waivers), judged, today=TODAY)
    assert got.complete
    assert ("1 of them only by waiver" in got.text) is only_by_waiver


def test_a_waived_check_does_not_count_a_node_that_lacks_another() -> None:
    plan = make_plan(CHECKS, SIMULATED, list("abcd"))
    judged = {(s.check, s.subject): VerdictLine(s.check, s.subject, Verdict.PASS) for s in plan.subjects}
    for check in NAMES:
        judged[check, "a"] = VerdictLine(check, "a", Verdict.ERROR)
    waivers = (Waiver("cuda_runtime", "a", "owner", "reason", TODAY),)
    got = judge_coverage(plan, dataclasses.replace(SIMULATED, waivers=waivers), judged, today=TODAY)
    assert not got.complete
    assert "waiver" not in got.text


def test_a_narrowed_run_never_covers_its_scope() -> None:
    plan = make_plan(CHECKS, SIMULATED, list("abcd"))
    judged = {(s.check, s.subject): VerdictLine(s.check, s.subject, Verdict.PASS) for s in plan.subjects}
    assert not judge_coverage(plan, SIMULATED, judged, today=TODAY, narrowed="--only gpu_inventory").complete


def test_gpus_are_in_use_only_by_pods_that_have_not_ended() -> None:
    def pod(node: str, phase: str, gpus: object) -> dict[str, object]:
        container = {"resources": {"limits": {"nvidia.com/gpu": gpus}}}
        return {"spec": {"nodeName": node, "containers": [container, {}]}, "status": {"phase": phase}}

    pods = [
        pod("a", "Running", "2"),
        pod("a", "Pending", "1"),
        pod("b", "Succeeded", "8"),
        pod("c", "Running", "x"),
        {},
    ]
    assert gpus_in_use(pods, gpu_resource="nvidia.com/gpu") == {"a": 3}
