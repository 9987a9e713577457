"""Namespaces, owners, TTLs and absent nodes: what goes when something else went (05f, 08, 14, 19, 19b)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from simcluster.api.port import Object
from simcluster.controllers import fields
from tests.simcluster.controllers.world import NS, Act, World

JOB = "jobs.batch"


@pytest.fixture
async def one(world: World) -> World:
    """One node."""
    await world.node("node-1", gpus=64)
    return world


async def namespace(world: World, name: str) -> None:
    """Create a namespace and wait for what every namespace gets."""
    await world.client.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    async def furnished() -> bool:
        return not await world.gone("configmaps", "kube-root-ca.crt", name)

    await world.until(furnished)


def config_map(name: str, **meta: Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}, "data": {"a": "b"}}


async def running_pods(world: World, count: int, selector: str = "", ns: str = NS) -> list[Object]:
    async def check() -> list[Object] | None:
        pods = await world.pods(ns, selector)
        return pods if sum(fields.phase(pod) == "Running" for pod in pods) == count else None

    found: list[Object] = await world.until(check)
    return found


async def test_every_namespace_has_a_service_account_and_the_root_certificate(world: World) -> None:
    await namespace(world, "fresh")
    await world.client.get("serviceaccounts", "default", "fresh")
    bundle = await world.client.get("configmaps", "kube-root-ca.crt", "fresh")
    assert bundle["data"]["ca.crt"].startswith("-----BEGIN CERTIFICATE")
    await world.client.delete("serviceaccounts", "default", "fresh")

    async def back() -> bool:
        return not await world.gone("serviceaccounts", "default", "fresh")

    await world.until(back)


async def test_a_namespace_loses_its_pods_first_then_the_rest_then_itself(one: World) -> None:
    await namespace(one, "ns")
    one.act = lambda _pod: Act(run_s=None, term_code=0, term_s=6.0)
    await one.client.create("configmaps", config_map("plain"), "ns")
    await one.job(namespace="ns", completions=2, parallelism=2, completionMode="Indexed")
    await running_pods(one, 2, ns="ns")
    await one.client.delete("namespaces", "ns")
    held = await one.until_condition("namespaces", "ns", "NamespaceDeletionContentFailure", namespace=None)
    condition = fields.condition(held, "NamespaceDeletionContentFailure") or {}
    assert condition["message"].endswith("remain in namespace: ns for gvr: /v1, Resource=pods")
    assert not await one.gone("configmaps", "plain", "ns")
    assert not await one.gone(JOB, "j", "ns")
    await one.until(lambda: one.gone("namespaces", "ns", None))
    assert await one.pods("ns") == []
    assert await one.gone("configmaps", "plain", "ns")


async def test_a_held_object_keeps_its_namespace_and_the_conditions_name_it(world: World) -> None:
    await namespace(world, "ns")
    await world.client.create("configmaps", config_map("held", finalizers=["example.com/hold"]), "ns")
    await world.client.delete("namespaces", "ns")
    stuck = await world.until_condition("namespaces", "ns", "NamespaceFinalizersRemaining", namespace=None)
    messages = {c["type"]: c["message"] for c in fields.status(stuck)["conditions"]}
    assert messages["NamespaceContentRemaining"] == (
        "Some resources are remaining: configmaps. has 1 resource instances"
    )
    assert messages["NamespaceFinalizersRemaining"] == (
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    )
    await world.client.patch("configmaps", "held", {"metadata": {"finalizers": None}}, "ns")
    await world.until(lambda: world.gone("namespaces", "ns", None))


async def test_background_deletion_of_a_job_takes_its_pods_too(one: World) -> None:
    one.act = lambda _pod: Act(run_s=None)
    await one.job(completions=2, parallelism=2, completionMode="Indexed")
    await running_pods(one, 2)
    await one.client.delete(JOB, "j", NS, propagation="Background")
    assert await one.gone(JOB, "j")

    async def no_pods() -> bool:
        return await one.pods() == []

    await one.until(no_pods)


async def test_foreground_deletion_keeps_the_job_until_the_last_pod_is_gone(one: World) -> None:
    one.act = lambda _pod: Act(run_s=None, term_s=4.0)
    await one.job(completions=2, parallelism=2, completionMode="Indexed")
    await running_pods(one, 2)
    await one.client.delete(JOB, "j", NS, propagation="Foreground")

    async def pods_going() -> bool:
        return all(fields.deleting(pod) for pod in await one.pods())

    await one.until(pods_going)
    assert fields.finalizers(await one.client.get(JOB, "j", NS)) == ["foregroundDeletion"]
    assert len(await one.pods()) == 2
    await one.until(lambda: one.gone(JOB, "j"))
    assert await one.pods() == []


async def test_orphaned_pods_go_on_without_owner_and_finalizer(one: World) -> None:
    one.act = lambda _pod: Act(run_s=None)
    await one.job(completions=1, parallelism=1, completionMode="Indexed")
    await running_pods(one, 1)
    await one.client.delete(JOB, "j", NS, propagation="Orphan")
    await one.until(lambda: one.gone(JOB, "j"))

    async def free() -> Object | None:
        (pod,) = await one.pods()
        return pod if not fields.owners(pod) and not fields.finalizers(pod) else None

    pod = await one.until(free)
    assert fields.phase(pod) == "Running"
    assert not fields.deleting(pod)


async def test_a_dependent_whose_owner_never_existed_is_collected(world: World) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "no-such-uid"}
    await world.client.create("configmaps", config_map("child", ownerReferences=[owner]), NS)
    await world.until(lambda: world.gone("configmaps", "child"))


async def test_a_dependent_of_two_owners_stays_with_the_living_one(world: World) -> None:
    owners = []
    for name in ("a", "b"):
        made = await world.client.create("configmaps", config_map(name), NS)
        owners.append({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": fields.uid(made)})
    await world.client.create("configmaps", config_map("child", ownerReferences=owners), NS)
    await world.client.delete("configmaps", "a", NS)

    async def left() -> list[str]:
        child = await world.client.get("configmaps", "child", NS)
        names = [owner["name"] for owner in fields.owners(child)]
        return names if len(names) == 1 else []

    assert await world.until(left) == ["b"]


async def test_a_job_with_ttl_zero_goes_at_once_and_its_pods_with_it(one: World) -> None:
    await one.job(ttlSecondsAfterFinished=0, backoffLimit=0)
    await one.until(lambda: one.gone(JOB, "j"))
    assert await one.pods() == []
    assert any(c["type"] == "Complete" for status in one.history("j") for c in status.get("conditions", ()))


async def test_a_ttl_is_seconds_of_the_wall_clock(one: World) -> None:
    await one.job(ttlSecondsAfterFinished=1)
    await one.until_condition(JOB, "j", "Complete")
    ended = asyncio.get_running_loop().time()
    await one.until(lambda: one.gone(JOB, "j"))
    assert 0.8 < asyncio.get_running_loop().time() - ended < 2.5


async def test_pods_of_an_absent_node_are_failed_and_removed(world: World) -> None:
    world.silent_nodes.add("node-9")
    await world.pod("nonode", nodeName="node-9")
    seen: list[Object] = []

    async def follow() -> None:
        async for event in world.client.watch("pods", NS, resource_version="0"):
            seen.append(event.object)
            if event.type == "DELETED":
                return

    await asyncio.wait_for(follow(), 10.0)
    condition = fields.condition(seen[-1], "DisruptionTarget") or {}
    assert fields.phase(seen[-1]) == "Failed"
    assert (condition["reason"], condition["message"]) == ("DeletionByPodGC", "PodGC: node no longer exists")


async def test_a_vanished_node_costs_its_jobs_a_retry(world: World) -> None:
    await world.node("node-1")
    world.act = lambda pod: Act(run_s=None if fields.node_of(pod) == "node-1" else 1.0)
    await world.job(completions=1, parallelism=1, completionMode="Indexed")
    await running_pods(world, 1)
    world.silent_nodes.add("node-1")
    await world.client.delete("nodes", "node-1")
    await world.node("node-2")
    job = await world.until_condition(JOB, "j", "Complete")
    assert (fields.status(job)["failed"], fields.status(job)["succeeded"]) == (1, 1)
