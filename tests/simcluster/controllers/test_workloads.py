"""DaemonSets (27), ReplicaSets, Deployments, claims and quota status."""

from __future__ import annotations

from typing import Any

import pytest

from simcluster.api.port import Object
from simcluster.controllers import fields
from tests.simcluster.controllers.world import NS, Act, World, pod_spec

DAEMONS = "daemonsets.apps"
DEPLOYMENTS = "deployments.apps"
SETS = "replicasets.apps"
CLAIMS = "persistentvolumeclaims"


@pytest.fixture
async def three(world: World) -> World:
    """Three nodes, the last one tainted; pods run until deleted."""
    world.act = lambda _pod: Act(run_s=None, start_s=0.3)
    await world.node("node-1")
    await world.node("node-2")
    await world.node("node-3", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    return world


def workload(kind: str, name: str, pod: Object | None = None, **spec: Any) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(**{"restartPolicy": "Always", **(pod or {})})}
    meta = {"name": name}
    body = {"selector": {"matchLabels": labels}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": body}


async def status_when(world: World, resource: str, name: str, **wanted: int) -> Object:
    async def check() -> Object | None:
        status = fields.status(await world.client.get(resource, name, NS))
        return status if wanted.items() <= status.items() else None

    found: Object = await world.until(check)
    return found


async def nodes_of(world: World, name: str, count: int) -> list[str]:
    async def check() -> list[str] | None:
        pods = [pod for pod in await world.pods(selector=f"app={name}") if not fields.deleting(pod)]
        nodes = sorted(fields.node_of(pod) for pod in pods)
        return nodes if len(nodes) == count and all(map(fields.ready, pods)) else None

    found: list[str] = await world.until(check)
    return found


async def test_a_daemon_set_wants_no_pod_on_a_node_whose_taint_it_does_not_tolerate(three: World) -> None:
    await three.client.create(DAEMONS, workload("DaemonSet", "plain"), NS)
    tolerations = [{"operator": "Exists"}]
    await three.client.create(DAEMONS, workload("DaemonSet", "tol", {"tolerations": tolerations}), NS)
    assert await nodes_of(three, "plain", 2) == ["node-1", "node-2"]
    assert await nodes_of(three, "tol", 3) == ["node-1", "node-2", "node-3"]
    status = await status_when(three, DAEMONS, "plain", desiredNumberScheduled=2, numberReady=2, numberAvailable=2)
    assert (status["currentNumberScheduled"], status["updatedNumberScheduled"]) == (2, 2)
    assert "numberUnavailable" not in status
    await three.client.patch("nodes", "node-3", {"spec": {"taints": None}})
    assert await nodes_of(three, "plain", 3) == ["node-1", "node-2", "node-3"]


async def test_daemon_pods_are_bound_by_the_scheduler_and_ignore_a_cordon(three: World) -> None:
    await three.client.patch("nodes", "node-1", {"spec": {"unschedulable": True}})
    await three.client.create(DAEMONS, workload("DaemonSet", "d"), NS)
    await nodes_of(three, "d", 2)
    pod = next(p for p in await three.pods() if fields.node_of(p) == "node-1")
    affinity = fields.spec(pod)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    field = affinity["nodeSelectorTerms"][0]["matchFields"][0]
    assert field == {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
    names = {event["involvedObject"]["name"] for event in await three.until(lambda: three.events("Scheduled"))}
    assert fields.name(pod) in names


async def test_a_deleted_daemon_pod_comes_back_and_a_new_node_gets_one(three: World) -> None:
    await three.client.create(DAEMONS, workload("DaemonSet", "d"), NS)
    await nodes_of(three, "d", 2)
    (first, *_) = await three.pods()
    await three.client.delete("pods", fields.name(first), NS)
    await three.until(lambda: three.gone("pods", fields.name(first)))
    await nodes_of(three, "d", 2)
    await three.node("node-4")
    assert await nodes_of(three, "d", 3) == ["node-1", "node-2", "node-4"]


async def test_a_new_template_rolls_through_a_daemon_set(three: World) -> None:
    await three.client.create(DAEMONS, workload("DaemonSet", "d"), NS)
    await nodes_of(three, "d", 2)
    body = {"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}}
    await three.client.patch(DAEMONS, "d", body, NS)

    async def rolled() -> bool:
        pods = [pod for pod in await three.pods() if not fields.deleting(pod)]
        return len(pods) == 2 and all(fields.notes(pod).get("v") == "2" for pod in pods)

    await three.until(rolled)


async def test_a_deployment_scales_through_its_replica_set(three: World) -> None:
    await three.client.create(DEPLOYMENTS, workload("Deployment", "d", replicas=3), NS)
    await status_when(three, DEPLOYMENTS, "d", availableReplicas=3, updatedReplicas=3, replicas=3)
    deployment = await three.until_condition(DEPLOYMENTS, "d", "Available")
    (replica_set,) = (await three.client.list(SETS, NS)).items
    assert fields.owners(replica_set)[0]["uid"] == fields.uid(deployment)
    pods = await three.pods()
    assert {fields.owners(pod)[0]["name"] for pod in pods} == {fields.name(replica_set)}
    await three.client.patch(DEPLOYMENTS, "d", {"spec": {"replicas": 1}}, NS)
    assert len(await nodes_of(three, "d", 1)) == 1


async def test_a_rolling_update_never_falls_below_what_must_be_available(three: World) -> None:
    await three.client.create(DEPLOYMENTS, workload("Deployment", "d", replicas=4), NS)
    await status_when(three, DEPLOYMENTS, "d", availableReplicas=4)
    available: list[int] = []

    async def rolled() -> bool:
        status = fields.status(await three.client.get(DEPLOYMENTS, "d", NS))
        available.append(int(status.get("availableReplicas", 0)))
        pods = [pod for pod in await three.pods() if not fields.deleting(pod)]
        return len(pods) == 4 and all(fields.notes(pod).get("v") == "2" for pod in pods)

    body = {"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}}
    await three.client.patch(DEPLOYMENTS, "d", body, NS)
    await three.until(rolled)
    assert min(available) >= 3
    assert len((await three.client.list(SETS, NS)).items) == 2


async def test_deleting_a_deployment_takes_everything_below_it(three: World) -> None:
    await three.client.create(DEPLOYMENTS, workload("Deployment", "d", replicas=2), NS)
    await nodes_of(three, "d", 2)
    await three.client.delete(DEPLOYMENTS, "d", NS, propagation="Background")

    async def nothing() -> bool:
        return not (await three.client.list(SETS, NS)).items and not await three.pods()

    await three.until(nothing)


async def claim(world: World, name: str, mode: str, storage_class: str | None) -> None:
    spec: Object = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
    await world.client.create(CLAIMS, body, NS)


async def bound_volume(world: World, name: str) -> Object:
    async def check() -> Object | None:
        found = await world.client.get(CLAIMS, name, NS)
        if fields.phase(found) != "Bound":
            return None
        return await world.client.get("persistentvolumes", fields.spec(found)["volumeName"])

    volume: Object = await world.until(check)
    return volume


def mounting(name: str) -> dict[str, Any]:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


async def test_a_claim_without_class_gets_a_shared_volume_at_once_and_frees_it(three: World) -> None:
    await claim(three, "data", "ReadWriteMany", None)
    volume = await bound_volume(three, "data")
    assert fields.spec(volume)["storageClassName"] == "shared-rwx"
    assert fields.spec(volume)["claimRef"]["name"] == "data"
    bound = await three.client.get(CLAIMS, "data", NS)
    assert fields.status(bound)["capacity"] == {"storage": "1Gi"}
    await three.client.delete(CLAIMS, "data", NS)
    await three.until(lambda: three.gone("persistentvolumes", fields.name(volume), None))


async def test_a_local_claim_waits_for_its_first_consumer_and_ties_pods_to_that_node(three: World) -> None:
    await claim(three, "data", "ReadWriteOnce", "local-rwo")
    await three.until(lambda: three.events("WaitForFirstConsumer"))
    assert fields.phase(await three.client.get(CLAIMS, "data", NS)) == "Pending"
    await three.pod("one", nodeSelector={"kubernetes.io/hostname": "node-2"}, **mounting("data"))
    await bound_volume(three, "data")

    async def placed() -> bool:
        return fields.node_of(await three.client.get("pods", "one", NS)) == "node-2"

    await three.until(placed)
    await three.pod("two", nodeSelector={"kubernetes.io/hostname": "node-1"}, **mounting("data"))

    async def told() -> str:
        condition = fields.condition(await three.client.get("pods", "two", NS), "PodScheduled") or {}
        return str(condition.get("message", ""))

    assert "1 node(s) didn't match PersistentVolume's node affinity" in await three.until(told)


async def test_a_pod_whose_claim_is_absent_is_told_so(three: World) -> None:
    await three.pod("p", **mounting("none"))

    async def told() -> str:
        condition = fields.condition(await three.client.get("pods", "p", NS), "PodScheduled") or {}
        return str(condition.get("message", ""))

    message = await three.until(told)
    assert message == '0/3 nodes are available: persistentvolumeclaim "none" not found. not found'
    await claim(three, "none", "ReadWriteOnce", "shared-rwx")

    async def placed() -> str:
        return fields.node_of(await three.client.get("pods", "p", NS))

    await three.until(placed)


async def test_a_class_that_cannot_give_the_access_mode_says_so(three: World) -> None:
    await claim(three, "data", "ReadWriteMany", "local-rwo")
    await three.pod("p", **mounting("data"))
    (event, *_) = await three.until(lambda: three.events("ProvisioningFailed"))
    assert "ReadWriteMany" in event["message"]


async def test_an_existing_volume_is_preferred_to_a_new_one(three: World) -> None:
    spec = {
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "hostPath": {"path": "/data"},
    }
    body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "static"}, "spec": spec}
    await three.client.create("persistentvolumes", body)
    await claim(three, "data", "ReadWriteOnce", "")
    assert fields.name(await bound_volume(three, "data")) == "static"
    await three.client.delete(CLAIMS, "data", NS)

    async def released() -> bool:
        return fields.phase(await three.client.get("persistentvolumes", "static")) == "Released"

    await three.until(released)


async def test_quota_status_follows_what_runs(three: World) -> None:
    hard = {"pods": "4", "requests.nvidia.com/gpu": "8", "requests.cpu": "2", "configmaps": "10"}
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}}
    await three.client.create("resourcequotas", body, NS)

    async def used(**wanted: str) -> Object | None:
        status = fields.status(await three.client.get("resourcequotas", "q", NS))
        return status if wanted.items() <= (status.get("used") or {}).items() else None

    await three.until(lambda: used(pods="0", configmaps="1"))
    resources = {"requests": {"cpu": "500m", "nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}}
    three.act = lambda _pod: Act(run_s=20.0)
    await three.pod("p", containers=[{"name": "c", "image": "i", "resources": resources}])
    amounts = {"requests.nvidia.com/gpu": "2", "requests.cpu": "500m"}
    status = await three.until(lambda: used(pods="1", **amounts))
    assert status["hard"] == hard
    await three.until(lambda: used(pods="0"))
