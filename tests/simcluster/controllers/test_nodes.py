"""Silent, cordoned and tainted nodes, and what happens to their pods (26a, 26b, 27)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest

from simcluster.api.port import ApiError, Object
from simcluster.controllers import clock, fields
from tests.simcluster.controllers.world import NS, Act, World

LEASES = "leases.coordination.k8s.io"
CONDITIONS = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")


class Heart:
    """Renews a node's lease like a kubelet until it is stopped, and brings the node back when it beats again."""

    def __init__(self, world: World, node: str) -> None:
        self._world = world
        self._node = node
        self.beats = 0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Post the node's conditions, then begin to beat."""
        conditions = [{"type": kind, "status": "True" if kind == "Ready" else "False"} for kind in CONDITIONS]
        body = {"status": {"conditions": conditions}}
        await self._world.client.patch("nodes", self._node, body, kind="strategic", subresource="status")
        self._task = asyncio.create_task(self._beat())

    async def stop(self) -> None:
        """Fall silent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _beat(self) -> None:
        lease: Object = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self._node}}
        space = "kube-node-lease"
        while True:
            renewed = {"spec": {"renewTime": clock.micro_stamp(), "holderIdentity": self._node}}
            try:
                await self._world.client.patch(LEASES, self._node, renewed, space)
            except ApiError:
                await self._world.client.create(LEASES, {**lease, **renewed}, space)
            self.beats += 1
            await asyncio.sleep(self._world.timing.heartbeat_s)


@pytest.fixture
def scale() -> float:
    """Silence is noticed after 50 s of a real cluster."""
    return 0.025


@pytest.fixture
async def heart(world: World) -> AsyncIterator[Heart]:
    """A node with a lease; pods run until deleted."""
    world.act = lambda _pod: Act(run_s=None)
    await world.node("node-1")
    heart = Heart(world, "node-1")
    await heart.start()
    yield heart
    await heart.stop()


async def taints(world: World, *wanted: tuple[str, str]) -> list[tuple[str, str]]:
    """Wait for exactly these (key, effect) on node-1."""

    async def check() -> list[tuple[str, str]] | None:
        node = await world.client.get("nodes", "node-1")
        found = [(t["key"].rpartition("/")[2], t["effect"]) for t in fields.spec(node).get("taints") or ()]
        return found if sorted(found) == sorted(wanted) else None

    return list(await world.until(check) or [] if wanted else [await _none(world)])


async def _none(world: World) -> tuple[str, str]:
    async def check() -> bool:
        return not fields.spec(await world.client.get("nodes", "node-1")).get("taints")

    await world.until(check)
    return "", ""


async def running(world: World, name: str) -> Object:
    async def check() -> Object | None:
        pod = await world.client.get("pods", name, NS)
        return pod if fields.ready(pod) else None

    found: Object = await world.until(check)
    return found


async def test_silence_makes_a_node_unknown_and_its_pods_unready(world: World, heart: Heart) -> None:
    await world.pod("p")
    await running(world, "p")
    await heart.stop()
    await taints(world, ("unreachable", "NoSchedule"), ("unreachable", "NoExecute"))
    node = await world.client.get("nodes", "node-1")
    for kind in CONDITIONS:
        condition = fields.condition(node, kind) or {}
        said = (condition["status"], condition["reason"], condition["message"])
        assert said == ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
    pod = await world.client.get("pods", "p", NS)
    assert (fields.phase(pod), fields.ready(pod)) == ("Running", False)
    (event,) = [e for e in await world.until(lambda: world.events("NodeNotReady")) if e["type"] == "Warning"]
    assert (event["message"], event["involvedObject"]["name"]) == ("Node is not ready", "p")
    await heart.start()
    await taints(world)


async def test_a_beating_node_is_left_alone(world: World, heart: Heart) -> None:
    enough = heart.beats + math.ceil(1.3 * world.timing.node_grace_s / world.timing.heartbeat_s)

    async def beaten() -> bool:
        return heart.beats >= enough

    await world.until(beaten)
    assert fields.condition_true(await world.client.get("nodes", "node-1"), "Ready")


async def test_pods_leave_a_silent_node_after_their_toleration_and_stay_as_objects(world: World, heart: Heart) -> None:
    tolerations = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 8}
        for key in ("unreachable", "not-ready")
    ]
    await world.pod("short", tolerations=tolerations)
    await world.pod("patient")
    await running(world, "short")
    await running(world, "patient")
    world.silent_nodes.add("node-1")
    await heart.stop()

    async def leaving() -> Object | None:
        pod = await world.client.get("pods", "short", NS)
        return pod if fields.deleting(pod) else None

    pod = await world.until(leaving)
    condition = fields.condition(pod, "DisruptionTarget") or {}
    assert condition["reason"] == "DeletionByTaintManager"
    assert condition["message"] == "Taint manager: deleting due to NoExecute taint"
    assert not fields.deleting(await world.client.get("pods", "patient", NS))
    events = await world.until(lambda: world.events("TaintManagerEviction"))
    assert [e["message"] for e in events] == [f"Marking for deletion Pod {NS}/short"]
    await heart.start()

    async def cancelled() -> bool:
        messages = [e["message"] for e in await world.events("TaintManagerEviction")]
        return f"Cancelling deletion of Pod {NS}/patient" in messages

    await world.until(cancelled)


async def test_an_operators_taint_drives_out_at_once_what_does_not_tolerate_it(world: World, heart: Heart) -> None:
    await world.pod("goes")
    await world.pod("stays", tolerations=[{"operator": "Exists"}])
    await running(world, "goes")
    await running(world, "stays")
    taint = {"key": "k", "effect": "NoExecute"}
    await world.client.patch("nodes", "node-1", {"spec": {"taints": [taint]}})
    await world.until(lambda: world.gone("pods", "goes"))
    assert not fields.deleting(await world.client.get("pods", "stays", NS))


async def test_a_taint_that_is_not_tolerated_ends_the_patience_with_another(world: World, heart: Heart) -> None:
    patient = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 36000}
    await world.pod("p", tolerations=[patient])
    await running(world, "p")
    await heart.stop()
    await taints(world, ("unreachable", "NoSchedule"), ("unreachable", "NoExecute"))
    present = fields.spec(await world.client.get("nodes", "node-1"))["taints"]
    gone = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    world.silent_nodes.add("node-1")
    await world.client.patch("nodes", "node-1", {"spec": {"taints": [*present, gone]}})

    async def removed() -> bool:
        return not (await world.client.list("pods")).items

    # Asked to end by one controller, removed by another, as nobody on the node confirms its end.
    await world.until(removed)
    assert [event["message"] for event in await world.events("TaintManagerEviction")]


async def test_a_cordon_becomes_a_taint_and_goes_with_it(world: World, heart: Heart) -> None:
    await world.client.patch("nodes", "node-1", {"spec": {"unschedulable": True}})
    await taints(world, ("unschedulable", "NoSchedule"))
    await world.client.patch("nodes", "node-1", {"spec": {"unschedulable": None}})
    await taints(world)


async def test_foreign_taints_are_kept(world: World, heart: Heart) -> None:
    own = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    await world.client.patch("nodes", "node-1", {"spec": {"taints": [own], "unschedulable": True}})
    await taints(world, ("gpu", "NoSchedule"), ("unschedulable", "NoSchedule"))


async def test_a_lost_node_leaves_two_copies_of_an_index_unless_only_failed_pods_are_replaced(
    world: World, heart: Heart
) -> None:
    tolerations = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 8}
        for key in ("unreachable", "not-ready")
    ]
    spec: dict[str, Any] = {"completions": 1, "parallelism": 1, "completionMode": "Indexed"}
    await world.job("default", pod={"tolerations": tolerations}, **spec)
    await world.job("failed", pod={"tolerations": tolerations}, podReplacementPolicy="Failed", **spec)

    async def both_run() -> bool:
        return sum(map(fields.ready, await world.pods())) == 2

    await world.until(both_run)
    await world.node("node-2")
    world.silent_nodes.add("node-1")
    await heart.stop()

    async def second_copy() -> list[str] | None:
        nodes = sorted(fields.node_of(pod) for pod in await world.pods(selector="job-name=default"))
        return nodes if len(nodes) == 2 and all(nodes) else None

    assert await world.until(second_copy) == ["node-1", "node-2"]
    pods = await world.pods(selector="job-name=default")
    lost = next(pod for pod in pods if fields.node_of(pod) == "node-1")
    assert (fields.phase(lost), fields.deleting(lost), fields.finalizers(lost)) == ("Running", True, [])
    assert fields.status(await world.client.get("jobs.batch", "default", NS))["failed"] == 1
    assert len(await world.pods(selector="job-name=failed")) == 1
    status = fields.status(await world.client.get("jobs.batch", "failed", NS))
    assert (status.get("active"), status["terminating"]) == (None, 1)
