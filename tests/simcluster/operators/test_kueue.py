"""Kueue's stand-in through the API: owners wait suspended, are admitted within quota, give it back, are evicted."""

from __future__ import annotations

from typing import Any

import pytest

from simcluster.api.port import ApiError, Object
from simcluster.controllers import fields
from simcluster.installed import install
from simcluster.operators.installed import Operators
from simcluster.operators.kueue import words
from simcluster.operators.kueue.site import CLUSTER_QUEUE
from simcluster.topology import Topology
from tests.simcluster.controllers.world import NS, Act, World, pod_spec

JOBS = "jobs.batch"
JOB_SETS = "jobsets.jobset.x-k8s.io"
TRAIN_JOBS = "trainjobs.trainer.kubeflow.org"
API = "kueue.x-k8s.io/v1beta1"
NO_FLAVORS = "couldn't assign flavors to pod set main"


@pytest.fixture
def operators() -> Operators:
    """Kueue beside what it may queue."""
    return Operators(["jobset", "trainer", "kueue"], {})


@pytest.fixture
async def queued(world: World) -> World:
    """A queue with four GPUs, a flavor of labelled nodes, two such nodes beside n1; pods run until they are deleted."""
    world.act = lambda _pod: Act(run_s=None, start_s=0.1)
    for name in ("n2", "n3"):
        await world.node(name, gpus=4, labels={"pool": "train"})
    await create(world, words.FLAVORS, "ResourceFlavor", "gpus", "", nodeLabels={"pool": "train"})
    await create(world, words.CLUSTER_QUEUES, "ClusterQueue", "tests", "", **queue_spec(gpus=4))
    await create(world, words.LOCAL_QUEUES, "LocalQueue", "lq", NS, clusterQueue="tests")
    return world


def queue_spec(gpus: int, **spec: Any) -> Object:
    resources = [{"name": "nvidia.com/gpu", "nominalQuota": gpus}]
    flavors = [{"name": "gpus", "resources": resources}]
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": flavors}]
    return {"namespaceSelector": {}, "resourceGroups": groups, **spec}


async def create(world: World, resource: str, kind: str, name: str, namespace: str, **spec: Any) -> Object:
    obj = {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}
    return await world.client.create(resource, obj, namespace or None)


async def job(
    world: World, name: str, *, gpus: int = 2, pods: int = 1, queue: str = "lq", namespace: str = NS
) -> Object:
    spec = {"parallelism": pods, "completions": pods, "template": {"spec": pod_spec(gpus=gpus)}}
    metadata = {"name": name, "labels": {words.QUEUE_KEY: queue}}
    return await world.client.create(
        JOBS, {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}, namespace
    )


async def workload_of(world: World, owner: Object) -> Object:
    async def found() -> Object | None:
        selector = f"{words.JOB_UID_KEY}={fields.uid(owner)}"
        items = (await world.client.list(words.WORKLOADS, fields.namespace(owner), label_selector=selector)).items
        return items[0] if items else None

    workload: Object = await world.until(found)
    return workload


async def until_condition(world: World, owner: Object, kind: str, *wanted: str) -> Object:
    """Wait for status, reason and (where it is given) text of a condition of the owner's Workload."""

    async def found() -> Object | None:
        workload = await workload_of(world, owner)
        condition = fields.condition(workload, kind) or {}
        told = (condition.get("status"), condition.get("reason"), condition.get("message"))
        return workload if told[: len(wanted)] == wanted else None

    workload: Object = await world.until(found)
    return workload


async def until_pods(world: World, name: str, count: int) -> list[Object]:
    async def found() -> list[Object] | None:
        pods = await world.pods(selector=f"batch.kubernetes.io/job-name={name}")
        return pods if len(pods) == count and all(map(fields.ready, pods)) else None

    pods: list[Object] = await world.until(found)
    return pods


async def until_suspended(world: World, name: str, value: bool) -> Object:
    async def found() -> Object | None:
        obj = await world.client.get(JOBS, name, NS)
        return obj if obj["spec"].get("suspend") is value else None

    obj: Object = await world.until(found)
    return obj


async def status_of(world: World, resource: str, name: str, namespace: str | None, **wanted: Any) -> Object:
    async def found() -> Object | None:
        status = fields.status(await world.client.get(resource, name, namespace))
        return status if wanted.items() <= status.items() else None

    status: Object = await world.until(found)
    return status


async def test_a_job_is_born_suspended_runs_on_its_flavors_nodes_and_gives_its_quota_back(queued: World) -> None:
    first = await job(queued, "first", gpus=1, pods=4)
    assert first["spec"]["suspend"] is True
    second = await job(queued, "second", gpus=1)
    workload = await until_condition(queued, first, "Admitted", "True", "Admitted", "The workload is admitted")
    assert fields.name(workload).startswith("job-first-")
    await until_condition(
        queued, first, "QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue tests"
    )
    [assignment] = workload["status"]["admission"]["podSetAssignments"]
    assert assignment == {
        "name": "main",
        "count": 4,
        "flavors": {"nvidia.com/gpu": "gpus"},
        "resourceUsage": {"nvidia.com/gpu": "4"},
    }
    pods = await until_pods(queued, "first", 4)
    assert {fields.node_of(pod) for pod in pods} <= {"n2", "n3"}
    why = f"{NO_FLAVORS}: insufficient unused quota for nvidia.com/gpu in flavor gpus, 1 more needed"
    await until_condition(queued, second, "QuotaReserved", "False", "Pending", why)
    counts = {"pendingWorkloads": 1, "reservingWorkloads": 1, "admittedWorkloads": 1}
    status = await status_of(queued, words.CLUSTER_QUEUES, "tests", None, **counts)
    assert status["flavorsUsage"] == [
        {"name": "gpus", "resources": [{"name": "nvidia.com/gpu", "total": "4", "borrowed": "0"}]}
    ]
    assert fields.condition_true({"status": status}, "Active")
    await status_of(queued, words.LOCAL_QUEUES, "lq", NS, **counts)
    queued.act = lambda _pod: Act(run_s=0.1, start_s=0.1)
    await queued.client.delete(JOBS, "first", NS, propagation="Background")
    finished = await until_condition(queued, second, "Finished", "True", "Succeeded")
    assert fields.condition_true(finished, "Admitted")
    assert await queued.gone(words.WORKLOADS, fields.name(workload))
    await status_of(queued, words.CLUSTER_QUEUES, "tests", None, pendingWorkloads=0, admittedWorkloads=0)


async def test_what_cannot_be_admitted_says_why_and_is_admitted_once_that_has_changed(queued: World) -> None:
    lost = await job(queued, "lost", queue="nowhere")
    await until_condition(queued, lost, "QuotaReserved", "False", "Inadmissible", "LocalQueue nowhere doesn't exist")
    await create(queued, words.LOCAL_QUEUES, "LocalQueue", "nowhere", NS, clusterQueue="later")
    await until_condition(queued, lost, "QuotaReserved", "False", "Inadmissible", "ClusterQueue later doesn't exist")
    selective = queue_spec(4, namespaceSelector={"matchLabels": {"team": "a"}}, stopPolicy="Hold")
    await create(queued, words.CLUSTER_QUEUES, "ClusterQueue", "later", "", **selective)
    await until_condition(queued, lost, "QuotaReserved", "False", "Inadmissible", "ClusterQueue later is inactive")
    await queued.client.patch(words.CLUSTER_QUEUES, "later", {"spec": {"stopPolicy": "None"}})
    why = "Workload namespace doesn't match ClusterQueue selector"
    await until_condition(queued, lost, "QuotaReserved", "False", "Inadmissible", why)
    large = await job(queued, "large", gpus=8)
    why = (
        f"{NO_FLAVORS}: insufficient quota for nvidia.com/gpu in flavor gpus, previously"
        " considered podsets requests (0) + current podset request (8) > maximum capacity (4)"
    )
    await until_condition(queued, large, "QuotaReserved", "False", "Pending", why)
    assert (await queued.client.get(JOBS, "lost", NS))["spec"]["suspend"] is True
    assert await queued.pods() == []
    await queued.client.patch("namespaces", NS, {"metadata": {"labels": {"team": "a"}}})
    await until_pods(queued, "lost", 1)


async def test_a_drained_queue_suspends_again_and_what_it_gave_is_taken_out_of_the_template(queued: World) -> None:
    first = await job(queued, "first")
    [pod] = await until_pods(queued, "first", 1)
    assert pod["spec"]["nodeSelector"] == {"pool": "train"}
    await queued.client.patch(words.CLUSTER_QUEUES, "tests", {"spec": {"stopPolicy": "HoldAndDrain"}})
    await until_condition(queued, first, "Evicted", "True", "ClusterQueueStopped", "The ClusterQueue is stopped")
    waiting = await until_condition(queued, first, "Admitted", "False", "NoReservation")
    stopped = await until_suspended(queued, "first", value=True)
    assert "admission" not in waiting["status"]
    assert "nodeSelector" not in stopped["spec"]["template"]["spec"]
    await queued.until(lambda: queued.gone("pods", fields.name(pod)))
    await queued.client.patch(words.CLUSTER_QUEUES, "tests", {"spec": {"stopPolicy": "None"}})
    again = await until_condition(queued, first, "Admitted", "True")
    assert not fields.condition_true(again, "Evicted")
    [other] = await until_pods(queued, "first", 1)
    assert fields.uid(other) != fields.uid(pod)


async def test_one_that_somebody_lets_run_is_suspended_again(queued: World) -> None:
    waiting = await job(queued, "eager", queue="nowhere")
    await until_condition(queued, waiting, "QuotaReserved", "False")
    await queued.client.patch(JOBS, "eager", {"spec": {"suspend": False}}, NS)
    await until_suspended(queued, "eager", value=True)
    plain = await queued.job("plain", pod={"gpus": 1})
    assert not plain["spec"].get("suspend")
    await until_pods(queued, "plain", 1)
    names = [fields.name(each) for each in (await queued.client.list(words.WORKLOADS, NS)).items]
    assert [name[:10] for name in names] == ["job-eager-"]


async def test_a_local_queue_stays_with_its_cluster_queue(queued: World) -> None:
    with pytest.raises(ApiError, match="field is immutable"):
        await queued.client.patch(words.LOCAL_QUEUES, "lq", {"spec": {"clusterQueue": "other"}}, NS)


def job_set(name: str) -> Object:
    spec = {"parallelism": 2, "completions": 2, "template": {"spec": pod_spec(gpus=1)}}
    metadata = {"name": name, "labels": {words.QUEUE_KEY: "lq"}}
    # Jobs that carry the label, too, are not queued once more.
    template = {"metadata": {"labels": {words.QUEUE_KEY: "lq"}}, "spec": spec}
    replicated = [{"name": "node", "replicas": 2, "template": template}]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {"replicatedJobs": replicated},
    }


async def test_a_job_set_is_queued_as_one_and_its_jobs_with_it(queued: World) -> None:
    owner = await queued.client.create(JOB_SETS, job_set("set"), NS)
    assert owner["spec"]["suspend"] is True
    workload = await until_condition(queued, owner, "Admitted", "True")
    assert fields.name(workload).startswith("jobset-set-")
    [assignment] = workload["status"]["admission"]["podSetAssignments"]
    assert (assignment["name"], assignment["count"]) == ("node", 4)
    pods = [pod for name in ("set-node-0", "set-node-1") for pod in await until_pods(queued, name, 2)]
    assert {pod["spec"]["nodeSelector"]["pool"] for pod in pods} == {"train"}
    assert len((await queued.client.list(words.WORKLOADS, NS)).items) == 1
    await queued.client.patch(words.LOCAL_QUEUES, "lq", {"spec": {"stopPolicy": "HoldAndDrain"}}, NS)
    await until_condition(queued, owner, "Evicted", "True", "LocalQueueStopped")
    await until_condition(queued, owner, "Admitted", "False", "NoReservation")
    stopped = await queued.client.get(JOB_SETS, "set", NS)
    assert stopped["spec"]["suspend"] is True
    inner = stopped["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert "nodeSelector" not in inner["spec"]
    await queued.client.delete(JOB_SETS, "set", NS)
    await queued.until(lambda: queued.gone(words.WORKLOADS, fields.name(workload)))


async def test_a_train_job_is_queued_as_one_with_all_that_is_made_of_it(queued: World) -> None:
    replicated = job_set("set")["spec"]["replicatedJobs"][0] | {"replicas": 1}
    replicated["template"]["metadata"] = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    template = {"spec": {"replicatedJobs": [replicated]}}
    runtime = {"kind": "TrainingRuntime", "metadata": {"name": "rt"}, "spec": {"template": template}}
    api = {"apiVersion": "trainer.kubeflow.org/v1alpha1"}
    await queued.client.create("trainingruntimes.trainer.kubeflow.org", {**api, **runtime}, NS)
    spec = {"runtimeRef": {"name": "rt", "kind": "TrainingRuntime"}, "trainer": {"numNodes": 3}}
    metadata = {"name": "tj", "labels": {words.QUEUE_KEY: "lq"}}
    owner = await queued.client.create(TRAIN_JOBS, {**api, "kind": "TrainJob", "metadata": metadata, "spec": spec}, NS)
    assert owner["spec"]["suspend"] is True
    workload = await until_condition(queued, owner, "Admitted", "True")
    assert fields.name(workload).startswith("trainjob-tj-")
    assert workload["status"]["admission"]["podSetAssignments"][0]["resourceUsage"] == {"nvidia.com/gpu": "3"}
    pods = await until_pods(queued, "tj-node-0", 3)
    assert {pod["spec"]["nodeSelector"]["pool"] for pod in pods} == {"train"}
    assert len((await queued.client.list(words.WORKLOADS, NS)).items) == 1
    await queued.client.patch(words.CLUSTER_QUEUES, "tests", {"spec": {"stopPolicy": "HoldAndDrain"}})
    await until_condition(queued, owner, "Admitted", "False", "NoReservation")
    stopped = await queued.client.get(TRAIN_JOBS, "tj", NS)
    assert (stopped["spec"]["suspend"], "podTemplateOverrides" in stopped["spec"]) == (True, False)
    await queued.client.patch(words.CLUSTER_QUEUES, "tests", {"spec": {"stopPolicy": "None"}})
    await until_pods(queued, "tj-node-0", 3)


async def test_quota_that_somebody_else_holds_admits_nothing(queued: World) -> None:
    pool = {"prefix": "gpu-", "nodes": 2, "mode": "hollow", "gpu": {"count": 4}, "labels": {"pool": "train"}}
    topology = {"name": "t", "operators": ["kueue"], "operator_troubles": {"kueue": "never-admits"}, "pools": [pool]}
    for name in ("gpu-01", "gpu-02"):
        await queued.node(name, gpus=4)
    await install(queued.client, Topology.model_validate(topology))
    flavor = await queued.client.get(words.FLAVORS, "simulated-gpus")
    assert flavor["spec"] == {"nodeLabels": {"pool": "train"}}
    status = await status_of(queued, words.CLUSTER_QUEUES, CLUSTER_QUEUE, None, admittedWorkloads=1)
    totals = {each["name"]: each["total"] for each in status["flavorsUsage"][0]["resources"]}
    assert totals == {"cpu": "16", "memory": "32Gi", "nvidia.com/gpu": "8"}
    await queued.client.create("namespaces", {"metadata": {"name": "run"}})
    await create(queued, words.LOCAL_QUEUES, "LocalQueue", "mine", "run", clusterQueue=CLUSTER_QUEUE)
    waiting = await job(queued, "waiting", gpus=1, queue="mine", namespace="run")
    why = f"{NO_FLAVORS}: insufficient unused quota for nvidia.com/gpu in flavor simulated-gpus, 1 more needed"
    await until_condition(queued, waiting, "QuotaReserved", "False", "Pending", why)
    await queued.client.delete("namespaces", "run")
    await queued.until(lambda: queued.gone("namespaces", "run", None))
