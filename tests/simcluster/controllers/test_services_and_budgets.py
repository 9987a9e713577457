"""Endpoints of Services (23) and the status of disruption budgets (06b, 06c)."""

from __future__ import annotations

from typing import Any

import pytest

from simcluster.api.port import Object
from simcluster.controllers import fields
from tests.simcluster.controllers.world import NS, Act, World

SLICES = "endpointslices.discovery.k8s.io"
BUDGETS = "poddisruptionbudgets.policy"


@pytest.fixture
async def one(world: World) -> World:
    """One node; pods run until deleted."""
    world.act = lambda _pod: Act(run_s=None)
    await world.node("node-1")
    return world


async def service(world: World, **spec: Any) -> Object:
    body: Object = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hl"}}
    return await world.client.create("services", {**body, "spec": {"clusterIP": "None", **spec}}, NS)


async def endpoints(world: World, count: int, *, ready: bool = True) -> list[Object]:
    async def check() -> tuple[list[Object]] | None:
        slices = (await world.client.list(SLICES, NS)).items
        found = [endpoint for each in slices for endpoint in each.get("endpoints") or ()]
        right = len(found) == count and all(endpoint["conditions"]["ready"] == ready for endpoint in found)
        return (found,) if slices and right else None

    (found,) = await world.until(check)
    return list(found)


async def test_a_headless_service_names_the_pods_of_an_indexed_job(one: World) -> None:
    made = await service(one, selector={"job-name": "j"})
    assert await endpoints(one, 0) == []
    await one.job(completions=3, parallelism=3, completionMode="Indexed", pod={"subdomain": "hl"})
    found = await endpoints(one, 3)
    assert sorted(endpoint["hostname"] for endpoint in found) == ["j-0", "j-1", "j-2"]
    assert {endpoint["nodeName"] for endpoint in found} == {"node-1"}
    assert {endpoint["targetRef"]["kind"] for endpoint in found} == {"Pod"}
    (piece,) = (await one.client.list(SLICES, NS)).items
    assert fields.labels(piece)["kubernetes.io/service-name"] == "hl"
    assert fields.labels(piece)["service.kubernetes.io/headless"] == ""
    assert fields.owners(piece)[0]["uid"] == fields.uid(made)
    old = await one.client.get("endpoints", "hl", NS)
    assert len(old["subsets"][0]["addresses"]) == 3


async def test_unready_pods_are_published_only_on_demand(one: World) -> None:
    one.silent_nodes.add("node-1")
    await service(one, selector={"app": "a"})
    await one.pod("p", labels={"app": "a"})
    status = {"status": {"phase": "Running", "podIP": "10.0.0.9"}}
    await one.client.patch("pods", "p", status, NS, kind="strategic", subresource="status")
    (found,) = await endpoints(one, 1, ready=False)
    assert found["addresses"] == ["10.0.0.9"]
    await one.client.patch("services", "hl", {"spec": {"publishNotReadyAddresses": True}}, NS)
    (found,) = await endpoints(one, 1)
    assert found["conditions"]["serving"] is False


async def test_slices_go_with_their_service(one: World) -> None:
    await service(one, selector={"app": "a"})
    await endpoints(one, 0)
    await one.client.delete("services", "hl", NS)

    async def none() -> bool:
        slices = (await one.client.list(SLICES, NS)).items
        return not slices and await one.gone("endpoints", "hl")

    await one.until(none)


async def budget(world: World, **spec: Any) -> None:
    body: Object = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "pdb"}}
    selector = {"selector": {"matchLabels": {"job-name": "j"}}}
    await world.client.create(BUDGETS, {**body, "spec": {**selector, **spec}}, NS)


async def status_when(world: World, **wanted: int) -> Object:
    async def check() -> Object | None:
        status = fields.status(await world.client.get(BUDGETS, "pdb", NS))
        return status if wanted.items() <= status.items() else None

    found: Object = await world.until(check)
    return found


async def test_min_available_allows_what_is_above_it(one: World) -> None:
    await budget(one, minAvailable=1)
    await one.job(completions=2, parallelism=2, completionMode="Indexed")
    status = await status_when(one, currentHealthy=2, desiredHealthy=1, expectedPods=2, disruptionsAllowed=1)
    assert fields.condition({"status": status}, "DisruptionAllowed") is not None
    pod = (await one.pods())[0]
    await one.client.delete("pods", fields.name(pod), NS)
    status = await status_when(one, currentHealthy=1, disruptionsAllowed=0)
    condition = fields.condition({"status": status}, "DisruptionAllowed") or {}
    assert (condition["status"], condition["reason"]) == ("False", "InsufficientPods")


async def test_max_unavailable_cannot_work_for_the_pods_of_a_job(one: World) -> None:
    await one.job(completions=1, parallelism=1)
    await budget(one, maxUnavailable=1)
    (event, *_) = await one.until(lambda: one.events("CalculateExpectedPodCountFailed"))
    message = "jobs.batch does not implement the scale subresource"
    assert event["message"] == f"Failed to calculate the number of expected pods: {message}"
    status = await status_when(one, disruptionsAllowed=0)
    condition = fields.condition({"status": status}, "DisruptionAllowed") or {}
    assert (condition["status"], condition["reason"], condition["message"]) == ("False", "SyncFailed", message)
