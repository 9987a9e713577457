"""Where pods are put, and what a pod that fits nowhere is told (texts as recorded in 10a, 10b, 10c, 26a)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from simcluster.api.port import Object
from simcluster.controllers import fields
from tests.simcluster.controllers.world import NS, Act, World, pod_spec

HEAD = "no new claims to deallocate, preemption: 0/4 nodes are available:"
HELPLESS = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
ANTI = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}


@pytest.fixture
async def four(world: World) -> World:
    """Four nodes with 8 GPUs each; pods run until they are deleted."""
    world.act = lambda _pod: Act(run_s=None)
    for number in range(4):
        await world.node(f"node-{number + 1}", labels={"rack": f"r{number // 2}"})
    return world


async def told(world: World, name: str) -> str:
    """The message of PodScheduled=False."""

    async def message() -> str:
        condition = fields.condition(await world.client.get("pods", name, NS), "PodScheduled") or {}
        return str(condition.get("message", ""))

    found: str = await world.until(message)
    return found


async def bound(world: World, *names: str) -> list[str]:
    """The nodes of pods, once all have one."""

    async def nodes() -> list[str] | None:
        pods = [await world.client.get("pods", name, NS) for name in names]
        return [fields.node_of(pod) for pod in pods] if all(map(fields.node_of, pods)) else None

    found: list[str] = await world.until(nodes)
    return found


async def test_a_pod_larger_than_any_node_is_told_that_preemption_cannot_help(four: World) -> None:
    await four.pod("p", gpus=9)
    expected = f"0/4 nodes are available: 4 Insufficient nvidia.com/gpu. {HEAD} 4 {HELPLESS}."
    assert await told(four, "p") == expected
    events = await four.until(lambda: four.events("FailedScheduling"))
    assert (events[0]["message"], events[0]["type"], events[0]["action"]) == (expected, "Warning", "Scheduling")
    assert events[0].get("count") is None
    assert events[0]["eventTime"].endswith("Z")
    condition = fields.condition(await four.client.get("pods", "p", NS), "PodScheduled") or {}
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")


async def test_a_pod_that_waits_for_gpus_runs_as_soon_as_their_holder_ends(four: World) -> None:
    four.act = lambda pod: Act(run_s=20.0 if fields.name(pod) == "h0" else None)
    await asyncio.gather(*(four.pod(f"h{i}", gpus=8) for i in range(4)))
    assert len(set(await bound(four, "h0", "h1", "h2", "h3"))) == 4
    await four.pod("waits", gpus=8)
    message = await told(four, "waits")
    assert message == f"0/4 nodes are available: 4 Insufficient nvidia.com/gpu. {HEAD} 4 {NO_VICTIMS}."
    holder = await four.client.get("pods", "h0", NS)
    assert await bound(four, "waits") == [fields.node_of(holder)]
    assert fields.phase(await four.client.get("pods", "h0", NS)) == "Succeeded"


async def test_several_lacks_are_listed_in_order(four: World) -> None:
    resources = {"requests": {"cpu": "100", "memory": "1Ti"}, "limits": {"example.com/x": "1"}}
    container = {"name": "c", "image": "i", "resources": resources}
    await four.pod("p", containers=[container])
    lacks = "4 Insufficient cpu, 4 Insufficient example.com/x, 4 Insufficient memory"
    assert await told(four, "p") == f"0/4 nodes are available: {lacks}. {HEAD} 4 {HELPLESS}."


async def test_selector_and_anti_affinity_causes_are_counted_by_node(four: World) -> None:
    selector = {"kubernetes.io/hostname": "node-1"}
    await four.pod("one", labels={"app": "a"}, affinity=ANTI, nodeSelector=selector)
    assert await bound(four, "one") == ["node-1"]
    await four.pod("two", labels={"app": "a"}, affinity=ANTI, nodeSelector=selector)
    causes = "1 node(s) didn't match pod anti-affinity rules, 3 node(s) didn't match Pod's node affinity/selector"
    assert await told(four, "two") == f"0/4 nodes are available: {causes}. {HEAD} 1 {NO_VICTIMS}, 3 {HELPLESS}."


async def test_a_pod_without_the_rule_keeps_away_from_one_that_has_it(four: World) -> None:
    await four.pod("one", labels={"app": "b"}, affinity=ANTI)
    (node,) = await bound(four, "one")
    await four.pod("two", labels={"app": "a"}, nodeSelector={"kubernetes.io/hostname": node})
    assert "1 node(s) didn't satisfy existing pods anti-affinity rules" in await told(four, "two")
    await four.client.delete("pods", "one", NS)
    assert await bound(four, "two") == [node]


async def test_taints_keep_pods_away_until_they_go(four: World) -> None:
    taint = {"key": "k", "value": "v1", "effect": "NoSchedule"}
    for number in range(4):
        await four.client.patch("nodes", f"node-{number + 1}", {"spec": {"taints": [taint]}})
    await four.pod("p")
    assert await told(four, "p") == (
        f"0/4 nodes are available: 4 node(s) had untolerated taint(s). {HEAD} 4 {HELPLESS}."
    )
    await four.pod("wrong", tolerations=[{"key": "k", "value": "v0"}])
    assert "4 node(s) had untolerated taint(s)" in await told(four, "wrong")
    await four.pod("right", tolerations=[{"key": "k", "value": "v1", "effect": "NoSchedule"}])
    await bound(four, "right")
    await four.client.patch("nodes", "node-2", {"spec": {"taints": None}})
    assert await bound(four, "p", "wrong") == ["node-2", "node-2"]


async def test_cordoned_nodes_are_named_as_such(four: World) -> None:
    for number in range(4):
        await four.client.patch("nodes", f"node-{number + 1}", {"spec": {"unschedulable": True}})
    await four.pod("p")
    assert await told(four, "p") == f"0/4 nodes are available: 4 node(s) were unschedulable. {HEAD} 4 {HELPLESS}."
    await four.client.patch("nodes", "node-3", {"spec": {"unschedulable": None}})
    assert await bound(four, "p") == ["node-3"]


async def test_a_gated_pod_is_not_tried_until_its_gate_goes(four: World) -> None:
    await four.pod("gated", schedulingGates=[{"name": "example.com/g"}])
    await four.pod("other")
    await bound(four, "other")
    assert not fields.node_of(await four.client.get("pods", "gated", NS))
    assert await four.events("FailedScheduling") == []
    await four.client.patch("pods", "gated", {"spec": {"schedulingGates": None}}, NS)
    await bound(four, "gated")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"key": "rack", "operator": "In", "values": ["r1"]}, {"node-3", "node-4"}),
        ({"key": "rack", "operator": "NotIn", "values": ["r1"]}, {"node-1", "node-2"}),
        ({"key": "special", "operator": "DoesNotExist"}, {"node-1", "node-2", "node-3"}),
        ({"key": "special", "operator": "Gt", "values": ["4"]}, {"node-4"}),
    ],
)
async def test_node_affinity_operators(four: World, expression: Object, expected: set[str]) -> None:
    await four.client.patch("nodes", "node-4", {"metadata": {"labels": {"special": "5"}}})
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    await asyncio.gather(*(four.pod(f"p{i}", gpus=2, affinity=affinity) for i in range(8)))
    assert set(await bound(four, *(f"p{i}" for i in range(4)))) <= expected


async def test_preferred_affinity_beats_the_emptier_node(four: World) -> None:
    await four.pod("heavy", gpus=4, nodeSelector={"kubernetes.io/hostname": "node-2"})
    await bound(four, "heavy")
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-2"]}
    wish = [{"weight": 10, "preference": {"matchExpressions": [expression]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wish}}
    await four.pod("p", gpus=2, affinity=affinity)
    assert await bound(four, "p") == ["node-2"]


async def test_pod_affinity_follows_the_rack_and_the_first_of_a_group_goes_anywhere(four: World) -> None:
    term = {"labelSelector": {"matchLabels": {"gang": "g"}}, "topologyKey": "rack"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    names = [f"p{i}" for i in range(4)]
    for name in names:
        await four.pod(name, gpus=4, labels={"gang": "g"}, affinity=affinity)
    nodes = await bound(four, *names)
    assert {node in {"node-1", "node-2"} for node in nodes} in ({True}, {False})
    await four.pod("fifth", gpus=4, labels={"gang": "g"}, affinity=affinity)
    message = await told(four, "fifth")
    assert "2 Insufficient nvidia.com/gpu, 2 node(s) didn't match pod affinity rules" in message


async def test_spread_constraint_limits_the_skew_between_racks(four: World) -> None:
    await four.client.patch("nodes", "node-3", {"spec": {"unschedulable": True}})
    await four.client.patch("nodes", "node-4", {"spec": {"unschedulable": True}})
    spread = {
        "maxSkew": 1,
        "topologyKey": "rack",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "s"}},
    }
    await four.pod("one", labels={"app": "s"}, topologySpreadConstraints=[spread])
    await bound(four, "one")
    await four.pod("two", labels={"app": "s"}, topologySpreadConstraints=[spread])
    message = await told(four, "two")
    assert "2 node(s) didn't match pod topology spread constraints, 2 node(s) were unschedulable" in message


async def test_a_late_node_takes_what_waited_without_any_node(world: World) -> None:
    await world.pod("p")
    assert await told(world, "p") == "no nodes available to schedule pods"
    await world.node("late")
    assert await bound(world, "p") == ["late"]


async def test_higher_priority_goes_first(world: World) -> None:
    body: Object = {"apiVersion": "v1", "kind": "Pod"}
    for name, priority in (("low", 0), ("high", 10)):
        spec: dict[str, Any] = {**pod_spec(gpus=8), "priority": priority}
        await world.client.create("pods", {**body, "metadata": {"name": name}, "spec": spec}, NS)
    await told(world, "low")
    await told(world, "high")
    await world.node("only")
    assert await bound(world, "high") == ["only"]
    assert not fields.node_of(await world.client.get("pods", "low", NS))


async def test_node_capacity_in_pods_is_a_resource(world: World) -> None:
    await world.node("tiny", pods=1)
    await world.pod("one")
    await bound(world, "one")
    await world.pod("two")
    assert (await told(world, "two")).startswith("0/1 nodes are available: 1 Too many pods.")


async def test_hundreds_of_anti_affine_pods_find_a_node_each(world: World) -> None:
    count = 256
    world.act = lambda _pod: Act(run_s=None)
    for number in range(count):
        await world.node(f"n{number:03}")
    term = {"labelSelector": {"matchLabels": {"job-name": "sweep"}}, "topologyKey": "kubernetes.io/hostname"}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    began = time.process_time()
    await world.job("sweep", completions=count, parallelism=count, completionMode="Indexed", pod={"affinity": anti})

    async def all_bound() -> list[str] | None:
        nodes = [fields.node_of(pod) for pod in await world.pods()]
        return nodes if len(nodes) == count and all(nodes) else None

    nodes = await world.until(all_bound)
    assert len(set(nodes)) == count
    assert time.process_time() - began < 4.0


async def prioritised(world: World, name: str, priority: int, **spec: Any) -> None:
    """A bare pod with that priority."""
    body: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
    await world.client.create("pods", {**body, "spec": {**pod_spec(**spec), "priority": priority}}, NS)


async def test_a_more_important_pod_sends_the_least_important_ones_away(world: World) -> None:
    world.act = lambda _pod: Act(run_s=None)
    await world.node("node-1")
    for name, priority in (("low", 1), ("middle", 5)):
        await prioritised(world, name, priority, gpus=4)
    await bound(world, "low", "middle")
    await prioritised(world, "high", 9, gpus=4)
    assert await bound(world, "high") == ["node-1"]
    await world.until(lambda: world.gone("pods", "low"))
    assert not fields.deleting(await world.client.get("pods", "middle", NS))
    (event,) = await world.until(lambda: world.events("Preempted"))
    assert event["involvedObject"]["name"] == "low"
    assert event["message"].endswith("on node node-1")


async def test_room_that_was_made_is_kept_from_less_important_pods(world: World) -> None:
    world.act = lambda _pod: Act(run_s=None, term_s=5.0)
    await world.node("node-1")
    await prioritised(world, "victim", 1, gpus=8)
    await bound(world, "victim")
    await prioritised(world, "high", 9, gpus=8)

    async def leaving() -> bool:
        return fields.deleting(await world.client.get("pods", "victim", NS))

    await world.until(leaving)
    nominated = fields.status(await world.client.get("pods", "high", NS))["nominatedNodeName"]
    assert nominated == "node-1"
    for number in range(3):
        await prioritised(world, f"thief-{number}", 1, gpus=1)
    assert await bound(world, "high") == ["node-1"]
    assert "Insufficient nvidia.com/gpu" in await told(world, "thief-0")


async def test_equal_pods_and_pods_that_may_not_preempt_wait(world: World) -> None:
    world.act = lambda _pod: Act(run_s=None)
    await world.node("node-1")
    await prioritised(world, "first", 5, gpus=8)
    await bound(world, "first")
    await prioritised(world, "equal", 5, gpus=8)
    await prioritised(world, "polite", 9, gpus=8, preemptionPolicy="Never")
    assert NO_VICTIMS in await told(world, "equal")
    await told(world, "polite")
    assert not fields.deleting(await world.client.get("pods", "first", NS))
