"""The stand-in of Kubeflow Trainer: from a TrainJob and its runtime to a JobSet, Jobs and pods, and back."""

from __future__ import annotations

from typing import Any

import pytest

from simcluster.api.port import ApiError, Object
from simcluster.controllers import fields
from tests.simcluster.controllers.world import NS, Act, World, pod_spec

TRAINJOBS = "trainjobs.trainer.kubeflow.org"
JOBSETS = "jobsets.jobset.x-k8s.io"
API = "trainer.kubeflow.org/v1alpha1"


def runtime(name: str = "torch", *, kind: str = "TrainingRuntime", failures: int | None = None) -> Object:
    """A runtime whose one replicated job is the trainer's."""
    container = {**pod_spec()["containers"][0], "name": "node", "env": [{"name": "A", "value": "runtime"}]}
    job = {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"backoffLimit": 0, "template": {"spec": pod_spec(containers=[container])}},
    }
    spec: Object = {"replicatedJobs": [{"name": "node", "template": job}]}
    if failures is not None:
        spec["failurePolicy"] = {"maxRestarts": failures}
    template = {"metadata": {"labels": {"from": "runtime"}}, "spec": spec}
    body = {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": template}
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": body}


async def add_runtime(world: World, **more: Any) -> None:
    """Create the runtime of the namespace."""
    await world.client.create("trainingruntimes.trainer.kubeflow.org", runtime(**more), NS)


async def make(world: World, *, kind: str = "TrainingRuntime", **spec: Any) -> Object:
    """Create a TrainJob of that runtime."""
    body = {"runtimeRef": {"name": "torch", "kind": kind}, **spec}
    obj = {"apiVersion": API, "kind": "TrainJob", "metadata": {"name": "tj"}, "spec": body}
    return await world.client.create(TRAINJOBS, obj, NS)


async def pods_when(world: World, count: int) -> list[Object]:
    """The running pods once there are so many."""

    async def look() -> list[Object] | None:
        pods = [pod for pod in await world.pods() if fields.phase(pod) == "Running" and not fields.deleting(pod)]
        return pods if len(pods) == count else None

    found: list[Object] = await world.until(look)
    return found


async def test_a_trainjob_becomes_a_jobset_of_its_name_with_what_it_asks_for(world: World) -> None:
    world.act = lambda _pod: Act(run_s=20.0)
    await add_runtime(world)
    trainer = {
        "numNodes": 2,
        "image": "simcluster.local/other:1",
        "command": ["python3"],
        "args": ["-V"],
        "env": [{"name": "A", "value": "trainjob"}, {"name": "B", "value": "2"}],
        "resourcesPerNode": {"limits": {"cpu": "1"}},
    }
    made = await make(world, trainer=trainer, labels={"own": "label"}, annotations={"own": "note"})
    pods = sorted(await pods_when(world, 2), key=fields.name)

    jobset = await world.client.get(JOBSETS, "tj", NS)
    owner = fields.controller_of(jobset)
    assert owner is not None
    assert (owner["kind"], owner["uid"]) == ("TrainJob", fields.uid(made))
    assert fields.labels(jobset) == {"from": "runtime", "own": "label"}
    assert fields.notes(jobset) == {"own": "note"}
    job = await world.client.get("jobs.batch", "tj-node-0", NS)
    assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (2, 2)
    assert [pod["spec"]["hostname"] for pod in pods] == ["tj-node-0-0", "tj-node-0-1"]

    (container,) = pods[1]["spec"]["containers"]
    assert (container["image"], container["command"], container["args"]) == (trainer["image"], ["python3"], ["-V"])
    assert container["resources"]["limits"] == {"cpu": "1"}
    env = {each["name"]: each.get("value") or each["valueFrom"]["fieldRef"]["fieldPath"] for each in container["env"]}
    index = "batch.kubernetes.io/job-completion-index"
    assert env == {
        "A": "trainjob",
        "B": "2",
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "1",
        "PET_NODE_RANK": f"metadata.annotations['{index}']",
        "PET_MASTER_ADDR": "tj-node-0-0.tj",
        "PET_MASTER_PORT": "29500",
        "JOB_COMPLETION_INDEX": f"metadata.labels['{index}']",
    }
    assert fields.notes(pods[1])[index] == "1"

    done = await world.until_condition(TRAINJOBS, "tj", "Complete")
    assert fields.condition(done, "Complete")["reason"] == "AllJobsCompleted"  # type: ignore[index]
    assert [(each["name"], each["succeeded"]) for each in done["status"]["jobsStatus"]] == [("node", 1)]
    await world.client.delete(TRAINJOBS, "tj", NS, propagation="Background")

    async def nothing() -> bool:
        return all([not (await world.client.list(kind, NS)).items for kind in (JOBSETS, "jobs.batch", "pods")])

    await world.until(nothing)


async def test_a_trainjob_fails_as_its_jobset_does_after_the_restarts_that_its_runtime_grants(world: World) -> None:
    world.act = lambda _pod: Act(run_s=0.5, code=1)
    await add_runtime(world, failures=1)
    await make(world)
    failed = await world.until_condition(TRAINJOBS, "tj", "Failed")
    assert fields.condition(failed, "Failed")["reason"] == "ReachedMaxRestarts"  # type: ignore[index]
    assert (await world.client.get(JOBSETS, "tj", NS))["status"]["restarts"] == 1


async def test_a_suspended_trainjob_runs_later_where_it_was_sent_meanwhile(world: World) -> None:
    world.act = lambda _pod: Act(run_s=None)
    body = runtime(kind="ClusterTrainingRuntime")
    await world.client.create("clustertrainingruntimes.trainer.kubeflow.org", body)
    await make(world, kind="ClusterTrainingRuntime", suspend=True)
    await world.until_condition(TRAINJOBS, "tj", "Suspended")
    await world.until_condition(JOBSETS, "tj", "Suspended")
    assert await world.pods() == []

    override = {"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": {"kubernetes.io/hostname": "n1"}}}
    change = {"spec": {"suspend": False, "podTemplateOverrides": [override]}}
    await world.client.patch(TRAINJOBS, "tj", change, NS)
    (pod,) = await pods_when(world, 1)
    assert pod["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "n1"}

    async def resumed() -> bool:
        found = fields.condition(await world.client.get(TRAINJOBS, "tj", NS), "Suspended")
        return found is not None and (found["status"], found["reason"]) == ("False", "Resumed")

    await world.until(resumed)
    refused: list[tuple[str, Any, str]] = [
        ("podTemplateOverrides", [], "suspended"),
        ("runtimeRef", {"name": "x"}, "immutable"),
    ]
    for field, value, why in refused:
        with pytest.raises(ApiError, match=why):
            await world.client.patch(TRAINJOBS, "tj", {"spec": {field: value}}, NS)

    await world.client.patch(TRAINJOBS, "tj", {"spec": {"suspend": True}}, NS)
    await world.until_condition(JOBSETS, "tj", "Suspended")

    async def stopped() -> bool:
        return await world.pods() == []

    await world.until(stopped)


async def test_a_runtime_that_is_missing_is_told_and_waited_for_and_an_unknown_kind_is_the_end(world: World) -> None:
    world.act = lambda _pod: Act(run_s=None)
    await make(world)

    async def told() -> list[Object]:
        return await world.events("TrainJobResourcesCreationFailed")

    (event, *_) = await world.until(told)
    assert 'trainingruntimes.trainer.kubeflow.org "torch" not found' in event["message"]
    await add_runtime(world)
    await pods_when(world, 1)
    await world.client.delete(TRAINJOBS, "tj", NS)

    await make(world, kind="Elsewhere")
    failed = await world.until_condition(TRAINJOBS, "tj", "Failed")
    assert fields.condition(failed, "Failed")["reason"] == "TrainingRuntimeNotSupported"  # type: ignore[index]
