"""Volcano's stand-in through the API: gangs, restarts by policy under the same names, retries, ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from simcluster.api.port import ApiError, Object
from simcluster.controllers import fields
from simcluster.operators.installed import Operators
from simcluster.operators.volcano import words
from simcluster.operators.volcano.policy import Happening, action_for
from tests.simcluster.controllers.world import NS, Act, World, pod_spec

RESTART = [{"events": ["PodFailed", "PodEvicted"], "action": "RestartJob"}]


@pytest.fixture
def operators() -> Operators:
    """Only Volcano."""
    return Operators(["volcano"], {})


@pytest.fixture
async def ready(world: World) -> World:
    """The default queue is open; pods run until they are deleted."""
    world.act = lambda _pod: Act(run_s=None, start_s=0.1)

    async def is_open() -> bool:
        queues = (await world.client.list(words.QUEUES)).items
        return any(fields.status(queue).get("state") == "Open" for queue in queues)

    await world.until(is_open)
    return world


async def submit(world: World, name: str = "vj", *, pods: int = 2, gpus: int = 1, **spec: Any) -> Object:
    task = {"name": "node", "replicas": pods, "template": {"spec": pod_spec(gpus=gpus)}}
    body = {"apiVersion": words.API_VERSION, "kind": "Job", "metadata": {"name": name}}
    return await world.client.create(words.JOBS, {**body, "spec": {"tasks": [task], **spec}}, NS)


async def job_when(world: World, check: Callable[[Object], bool], name: str = "vj") -> Object:
    """The Job once its status is so."""

    async def found() -> Object | None:
        job = await world.client.get(words.JOBS, name, NS)
        return job if check(fields.status(job)) else None

    job: Object = await world.until(found)
    return job


def phase(wanted: str, **also: int) -> Callable[[Object], bool]:
    def check(status: Object) -> bool:
        return (status.get("state") or {}).get("phase") == wanted and also.items() <= status.items()

    return check


async def pods_when(world: World, count: int, *, version: int) -> dict[str, Object]:
    """The running pods of a version by name."""

    async def found() -> dict[str, Object] | None:
        pods = {fields.name(pod): pod for pod in await world.pods() if fields.ready(pod) and not fields.deleting(pod)}
        wanted = [pod for pod in pods.values() if fields.notes(pod)[words.VERSION_KEY] == str(version)]
        return pods if len(wanted) == len(pods) == count else None

    pods: dict[str, Object] = await world.until(found)
    return pods


async def test_a_job_has_pods_of_fixed_names_that_find_each_other_and_completes(ready: World) -> None:
    await submit(ready, plugins={"svc": [], "env": []}, ttlSecondsAfterFinished=0)
    running = await job_when(ready, phase("Running", running=2))
    assert running["spec"] | {"tasks": []} == {
        "schedulerName": "volcano",
        "minAvailable": 2,
        "maxRetry": 3,
        "queue": "default",
        "plugins": {"svc": [], "env": []},
        "ttlSecondsAfterFinished": 0,
        "tasks": [],
    }
    assert running["status"]["taskStatusCount"] == {"node": {"phase": {"Running": 2}}}
    pods = await pods_when(ready, 2, version=0)
    assert sorted(pods) == ["vj-node-0", "vj-node-1"]
    last = pods["vj-node-1"]
    assert (last["spec"]["hostname"], last["spec"]["subdomain"]) == ("vj-node-1", "vj")
    assert last["spec"]["schedulerName"] == "volcano"
    labels = {words.JOB_KEY: "vj", words.TASK_KEY: "node", words.INDEX_KEY: "1", words.QUEUE_KEY: "default"}
    assert labels.items() <= fields.labels(last).items()
    variables = {each["name"]: each.get("value") for each in last["spec"]["containers"][0]["env"]}
    assert variables["VC_TASK_INDEX"] == variables["VK_TASK_INDEX"] == "1"
    service = await ready.client.get("services", "vj", NS)
    assert service["spec"]["clusterIP"] == "None"
    hosts = (await ready.client.get("configmaps", "vj-svc", NS))["data"]
    assert hosts == {
        "node.host": "vj-node-0.vj\nvj-node-1.vj",
        "VC_NODE_HOSTS": "vj-node-0.vj,vj-node-1.vj",
        "VC_NODE_NUM": "2",
    }

    async def found_by_name() -> bool:
        subsets = (await ready.client.get("endpoints", "vj", NS)).get("subsets") or [{}]
        return [each["hostname"] for each in subsets[0].get("addresses", ())] == ["vj-node-0", "vj-node-1"]

    await ready.until(found_by_name)
    [group] = (await ready.client.list(words.GROUPS, NS)).items
    assert fields.name(group) == f"vj-{fields.uid(running)}"
    assert group["spec"] == {
        "minMember": 2,
        "minTaskMember": {"node": 2},
        "queue": "default",
        "minResources": {"nvidia.com/gpu": "2"},
    }
    for name in pods:
        await ready.client.patch("pods", name, {"status": {"phase": "Succeeded"}}, NS, subresource="status")
    await ready.until(lambda: ready.gone(words.JOBS, "vj"))
    await ready.until(lambda: ready.gone("services", "vj"))


async def test_a_failed_pod_restarts_all_under_the_same_names_until_the_retries_are_used_up(ready: World) -> None:
    await submit(ready, policies=RESTART, maxRetry=3)
    before = await pods_when(ready, 2, version=0)
    await job_when(ready, phase("Running"))
    await fail(ready, before["vj-node-1"])
    after = await pods_when(ready, 2, version=1)
    assert after.keys() == before.keys()
    assert {fields.uid(pod) for pod in after.values()}.isdisjoint(fields.uid(pod) for pod in before.values())
    await job_when(ready, phase("Running", retryCount=1, version=1))
    await ready.client.delete("pods", "vj-node-0", NS)
    last = await pods_when(ready, 2, version=2)
    await job_when(ready, phase("Running", retryCount=2))
    await fail(ready, last["vj-node-0"])
    failed = await job_when(ready, phase("Failed", retryCount=3))
    told = [each["status"] for each in failed["status"]["conditions"]]
    assert told == [*["Pending", "Running", "Restarting"] * 3, "Failed"]

    async def what_is_left() -> bool:
        return [fields.name(pod) for pod in await ready.pods()] == ["vj-node-0"]

    await ready.until(what_is_left)


async def test_a_completed_task_may_complete_the_job(ready: World) -> None:
    task = {"replicas": 1, "template": {"spec": pod_spec(gpus=1)}}
    first = {**task, "name": "first", "policies": [{"event": "TaskCompleted", "action": "CompleteJob"}]}
    await submit(ready, tasks=[first, task])
    assert sorted(await pods_when(ready, 2, version=0)) == ["vj-default1-0", "vj-first-0"]
    await ready.client.patch("pods", "vj-first-0", {"status": {"phase": "Succeeded"}}, NS, subresource="status")
    await job_when(ready, phase("Completed", succeeded=1))
    await ready.until(lambda: ready.gone("pods", "vj-default1-0"))


@pytest.mark.parametrize("operators", [Operators(["volcano"], {"volcano": "never-restarts"})])
async def test_one_that_never_restarts_leaves_the_job_as_it_is(ready: World) -> None:
    await submit(ready, policies=RESTART, pods=3)
    pods = await pods_when(ready, 3, version=0)
    await job_when(ready, phase("Running"))
    await fail(ready, pods["vj-node-0"])
    await ready.client.delete("pods", "vj-node-1", NS)
    await ready.until(lambda: ready.gone("pods", "vj-node-1"))
    await job_when(ready, phase("Running", running=1, failed=1))
    assert sorted(map(fields.name, await ready.pods())) == ["vj-node-0", "vj-node-2"]


async def fail(world: World, pod: Object) -> None:
    state = {"terminated": {"exitCode": 137, "reason": "Error"}}
    container = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": state}
    status = {"phase": "Failed", "containerStatuses": [container]}
    await world.client.patch("pods", fields.name(pod), {"status": status}, NS, subresource="status")


async def test_without_a_policy_a_failed_pod_stays_and_a_deleted_one_is_made_anew(ready: World) -> None:
    await submit(ready)
    before = await pods_when(ready, 2, version=0)
    await ready.client.delete("pods", "vj-node-0", NS)

    async def replaced() -> bool:
        pods = await pods_when(ready, 2, version=0)
        return fields.uid(pods["vj-node-0"]) != fields.uid(before["vj-node-0"])

    await ready.until(replaced)
    await fail(ready, before["vj-node-1"])
    await job_when(ready, phase("Running", running=1, failed=1))


async def test_a_policy_of_the_task_restarts_only_its_pod(ready: World) -> None:
    task = {"name": "node", "replicas": 2, "policies": [{"exitCode": 137, "action": "RestartPod"}]}
    tasks = [{**task, "template": {"spec": pod_spec(gpus=1)}}]
    await submit(ready, tasks=tasks, policies=[{"event": "*", "action": "TerminateJob"}])
    before = await pods_when(ready, 2, version=0)
    await fail(ready, before["vj-node-1"])
    await job_when(ready, phase("Running", retryCount=1, running=2))
    after = {fields.name(pod): fields.uid(pod) for pod in await ready.pods()}
    assert after["vj-node-0"] == fields.uid(before["vj-node-0"])
    assert after["vj-node-1"] != fields.uid(before["vj-node-1"])
    await ready.client.delete("pods", "vj-node-0", NS)
    await job_when(ready, phase("Terminated"))


async def test_a_gang_waits_until_all_of_it_fits(ready: World) -> None:
    await submit(ready, pods=3, gpus=3)
    why = "1/3 tasks in gang unschedulable: pod group is not ready, 3 Pending, 3 minAvailable"

    async def told() -> bool:
        return why in [event["message"] for event in await ready.events("FailedScheduling")]

    await ready.until(told)
    assert not any(map(fields.node_of, await ready.pods()))
    await submit(ready, "huge", pods=2, gpus=8)
    group = (await ready.until(lambda: group_with_reason(ready, "NotEnoughResources")))[0]
    assert fields.name(group).startswith("huge-")
    await ready.node("n2")
    await job_when(ready, phase("Running", running=3))
    assert sorted(map(fields.node_of, await ready.pods())) in (["n1", "n1", "n2"], ["n1", "n2", "n2"])
    assert "pending" not in fields.status(await ready.client.get(words.JOBS, "huge", NS))


async def group_with_reason(world: World, reason: str) -> list[Object]:
    groups = (await world.client.list(words.GROUPS, NS)).items
    return [each for each in groups if any(c["reason"] == reason for c in fields.status(each).get("conditions") or ())]


async def test_what_cannot_be_is_refused(ready: World) -> None:
    with pytest.raises(ApiError, match=r'unable to find job queue: .* "none" not found'):
        await submit(ready, queue="none")
    with pytest.raises(ApiError, match="'minAvailable' should not be greater than total replicas"):
        await submit(ready, minAvailable=3)
    with pytest.raises(ApiError, match="unable to find job plugin: ssl"):
        await submit(ready, plugins={"ssl": []})
    await ready.client.patch(words.QUEUES, "default", {"status": {"state": "Closed"}}, subresource="status")
    with pytest.raises(ApiError, match="can only submit job to queue with state `Open`, queue `default`"):
        await submit(ready)


@pytest.mark.parametrize(
    ("event", "version", "exit_code", "action"),
    [
        ("PodEvicted", 2, 0, "RestartTask"),
        ("PodFailed", 2, 7, "AbortJob"),
        ("TaskCompleted", 2, 0, "CompleteJob"),
        ("PodFailed", 2, 1, "SyncJob"),
        ("PodEvicted", 1, 0, "SyncJob"),
    ],
)
def test_policies_of_the_task_come_first_and_pods_of_an_earlier_version_ask_for_nothing(
    event: str, version: int, exit_code: int, action: str
) -> None:
    own = [{"event": "PodEvicted", "action": "RestartTask"}, {"exitCode": 7, "action": "AbortJob"}]
    general = [{"events": ["PodEvicted", "TaskCompleted"], "action": "CompleteJob"}]
    job = {"spec": {"policies": general, "tasks": [{"name": "node", "policies": own}]}, "status": {"version": 2}}
    assert action_for(job, Happening(event, "node", "uid", version, exit_code)) == action
