"""The JobSet stand-in: what it makes of a JobSet, and what becomes of that."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from simcluster.api.port import ApiError, Object
from simcluster.controllers import fields
from simcluster.operators.installed import Operators
from tests.simcluster.controllers.world import NS, Act, World, pod_spec

RESOURCE = "jobsets.jobset.x-k8s.io"
JOBS = "jobs.batch"
MARK = "jobset.sigs.k8s.io/"


def replicated(name: str = "node", *, pods: int = 2, replicas: int = 1, **more: Any) -> Object:
    """A replicated job of Indexed Jobs that fail with their first pod."""
    job: Object = {
        "backoffLimit": 0,
        "completions": pods,
        "parallelism": pods,
        "template": {"metadata": {"labels": {"app": "train"}}, "spec": pod_spec()},
    }
    return {"name": name, "replicas": replicas, "template": {"spec": job}, **more}


async def make(world: World, *jobs: Object, name: str = "js", **spec: Any) -> Object:
    """Create a JobSet."""
    obj: Object = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name}}
    return await world.client.create(RESOURCE, {**obj, "spec": {"replicatedJobs": [*jobs], **spec}}, NS)


def attempt_of(pod: Object) -> int:
    """Which attempt of its JobSet a pod belongs to."""
    return int(fields.labels(pod)[f"{MARK}restart-attempt"])


async def status_when(world: World, check: Callable[[Object], bool], name: str = "js") -> Object:
    """The JobSet's status once the check holds."""

    async def look() -> Object | None:
        status = fields.status(await world.client.get(RESOURCE, name, NS))
        return status if check(status) else None

    found: Object = await world.until(look)
    return found


def running(world: World, count: int) -> Callable[[], Awaitable[list[Object] | None]]:
    """A check: so many pods run."""

    async def look() -> list[Object] | None:
        pods = [pod for pod in await world.pods() if fields.phase(pod) == "Running" and not fields.deleting(pod)]
        return pods if len(pods) == count else None

    return look


async def test_a_jobset_becomes_named_and_marked_jobs_pods_with_names_and_an_end(world: World) -> None:
    world.act = lambda _pod: Act(run_s=20.0)
    made = await make(world, replicated("lead", pods=1), replicated("node", replicas=2))
    assert made["spec"]["network"] == {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    assert made["spec"]["successPolicy"] == {"operator": "All"}
    assert made["spec"]["replicatedJobs"][1]["template"]["spec"]["completionMode"] == "Indexed"
    pods = await world.until(running(world, 5))

    jobs = {fields.name(job): job for job in (await world.client.list(JOBS, NS)).items}
    assert sorted(jobs) == ["js-lead-0", "js-node-0", "js-node-1"]
    marks = {
        "jobset-name": "js",
        "replicatedjob-name": "node",
        "replicatedjob-replicas": "2",
        "restart-attempt": "0",
        "job-index": "1",
        "job-global-index": "2",
        "global-replicas": "3",
    }
    wanted = {f"{MARK}{name}": value for name, value in marks.items()}
    pod = next(pod for pod in pods if fields.name(pod).startswith("js-node-1-0-"))
    for obj in (jobs["js-node-1"], pod):
        assert wanted.items() <= fields.labels(obj).items()
        assert wanted.items() <= fields.notes(obj).items()
    owner = fields.controller_of(jobs["js-node-1"])
    assert owner is not None
    assert (owner["kind"], owner["uid"]) == ("JobSet", fields.uid(made))
    assert fields.labels(pod)["app"] == "train"
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("js-node-1-0", "js")

    service = await world.client.get("services", "js", NS)
    assert service["spec"]["clusterIP"] == "None"

    async def named() -> bool:
        found = await world.client.get("endpoints", "js", NS)
        names = [address.get("hostname") for part in found["subsets"] for address in part["addresses"]]
        return sorted(names) == ["js-lead-0-0", "js-node-0-0", "js-node-0-1", "js-node-1-0", "js-node-1-1"]

    await world.until(named)
    status = await status_when(world, lambda status: "terminalState" in status)
    assert status["terminalState"] == "Completed"
    assert [(each["type"], each["reason"]) for each in status["conditions"]] == [("Completed", "AllJobsCompleted")]
    assert {each["name"]: each["succeeded"] for each in status["replicatedJobsStatus"]} == {"lead": 1, "node": 2}


async def test_one_failed_job_restarts_all_until_the_most_restarts_are_reached(world: World) -> None:
    def act(pod: Object) -> Act:
        failing = fields.name(pod).startswith("js-node-0-1-")
        return Act(run_s=3.0, code=1) if failing else Act(run_s=None)

    world.act = act
    most: dict[int, set[str]] = {}

    async def watch() -> None:
        listed = await world.client.list("pods", NS)
        async for event in world.client.watch("pods", NS, resource_version=listed.resource_version):
            most.setdefault(attempt_of(event.object), set()).add(event.object["spec"].get("hostname", ""))

    watching = asyncio.create_task(watch())
    await make(world, replicated("lead", pods=1), replicated("node"), failurePolicy={"maxRestarts": 1})
    status = await status_when(world, lambda status: "terminalState" in status)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)

    assert most == {attempt: {"js-lead-0-0", "js-node-0-0", "js-node-0-1"} for attempt in (0, 1)}
    assert (status["terminalState"], status["restarts"], status["restartsCountTowardsMax"]) == ("Failed", 1, 1)
    (failed,) = status["conditions"]
    assert (failed["type"], failed["reason"]) == ("Failed", "ReachedMaxRestarts")
    assert "first failed job: js-node-0" in failed["message"]
    assert len(await world.events("RestartJobSetFailurePolicyAction")) == 1

    async def left() -> bool:
        names = [fields.name(job) for job in (await world.client.list(JOBS, NS)).items]
        return names == ["js-node-0"]

    await world.until(left)  # what still ran is deleted, what failed stays to be looked at


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (None, "FailedJobs"),
        ({"maxRestarts": 3, "rules": [{"action": "FailJobSet"}]}, "FailJobSetFailurePolicyAction"),
        (
            {
                "maxRestarts": 0,
                "rules": [{"action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}],
            },
            "ReachedMaxRestarts",
        ),
    ],
)
async def test_a_policy_says_what_ends_a_jobset(world: World, policy: Object | None, reason: str) -> None:
    world.act = lambda _pod: Act(run_s=0.5, code=1)
    if policy is None:
        await make(world, replicated())
    else:
        await make(world, replicated(), failurePolicy=policy)
    status = await status_when(world, lambda status: "terminalState" in status)
    assert [(each["type"], each["reason"]) for each in status["conditions"]] == [("Failed", reason)]
    assert status["restarts"] == 0


class TestAnOperatorThatNeverRestarts:
    @pytest.fixture
    def operators(self) -> Operators:
        return Operators(["jobset"], {"jobset": "never-restarts"})

    async def test_it_gives_up_at_the_first_failure(self, world: World) -> None:
        world.act = lambda _pod: Act(run_s=0.5, code=1)
        await make(world, replicated(), failurePolicy={"maxRestarts": 5})
        status = await status_when(world, lambda status: "terminalState" in status)
        assert (status["terminalState"], status["restarts"]) == ("Failed", 0)


async def test_suspended_jobs_have_no_pods_and_run_where_they_are_sent_meanwhile(world: World) -> None:
    world.act = lambda _pod: Act(run_s=None)
    await make(world, replicated(), suspend=True)
    await world.until_condition(RESOURCE, "js", "Suspended")
    job = await world.client.get(JOBS, "js-node-0", NS)
    assert job["spec"]["suspend"] is True
    assert await world.pods() == []

    jobset = copy.deepcopy(await world.client.get(RESOURCE, "js", NS))
    jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["nodeSelector"] = {
        "kubernetes.io/hostname": "n1"
    }
    await world.client.update(RESOURCE, {**jobset, "spec": {**jobset["spec"], "suspend": False}})
    pods = await world.until(running(world, 2))
    assert {pod["spec"]["nodeSelector"]["kubernetes.io/hostname"] for pod in pods} == {"n1"}
    status = await status_when(world, lambda status: status["conditions"][0]["status"] == "False")
    assert status["conditions"][0]["reason"] == "ResumeJobs"

    await world.client.patch(RESOURCE, "js", {"spec": {"suspend": True}}, NS)
    await world.until_condition(RESOURCE, "js", "Suspended")

    async def stopped() -> bool:
        return await world.pods() == []

    await world.until(stopped)


async def test_what_depends_waits_and_what_is_deleted_or_too_old_goes_with_all_it_made(world: World) -> None:
    world.act = lambda pod: Act(run_s=5.0 if "lead" in fields.name(pod) else None)
    depends = [{"name": "lead", "status": "Complete"}]
    await make(world, replicated("lead", pods=1), replicated("node", dependsOn=depends))
    await world.until(running(world, 1))
    assert await world.gone(JOBS, "js-node-0")
    await world.until(running(world, 2))
    assert not await world.gone(JOBS, "js-node-0")
    await world.client.delete(RESOURCE, "js", NS, propagation="Background")

    world.act = lambda _pod: Act(run_s=0.5)
    await make(world, replicated(), name="old", ttlSecondsAfterFinished=0)

    async def nothing() -> bool:
        counts = [len((await world.client.list(kind, NS)).items) for kind in (RESOURCE, JOBS, "pods", "services")]
        return sum(counts) == 0

    await world.until(nothing)


REFUSED: list[tuple[list[Object], Object, str]] = [
    ([replicated()], {"failurePolicy": {"maxRestarts": "3"}}, "must be of type integer"),
    ([replicated()], {"successPolicy": {"operator": "Most"}}, "supported values"),
    ([replicated(), replicated()], {}, "Duplicate value"),
    ([{"name": "node"}], {}, "replicatedJobs[0].template: Required value"),
    ([replicated("n" * 60)], {}, "names of its Jobs"),
    ([replicated("n" * 54)], {}, "names of its pods"),
    ([replicated()], {"network": {"subdomain": "9"}}, "DNS-1035"),
    ([replicated(dependsOn=[{"name": "x", "status": "Ready"}])], {}, "cannot depend"),
    ([replicated()], {"coordinator": {"replicatedJob": "node", "podIndex": 2}}, "pod index 2"),
    ([replicated()], {"failurePolicy": {"rules": [{"action": "FailJobSet", "name": "1"}]}}, "invalid rule name"),
]


async def test_what_cannot_work_is_refused(world: World) -> None:
    for jobs, spec, told in REFUSED:
        with pytest.raises(ApiError) as refused:
            await make(world, *jobs, **spec)
        assert told in refused.value.message


async def test_what_runs_cannot_be_changed_and_what_is_unknown_is_left_out(world: World) -> None:
    world.act = lambda _pod: Act(run_s=None)
    job = replicated()
    job["template"]["spec"]["template"]["spec"]["unheard"] = 1
    made = await make(world, job, failurePolicy={"maxRestarts": 1}, maxRestarts=7)
    assert "maxRestarts" not in made["spec"]
    assert "unheard" not in made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    for change in (
        {"failurePolicy": {"maxRestarts": 2}},
        {"replicatedJobs": [replicated(pods=3)]},
    ):
        with pytest.raises(ApiError, match="immutable"):
            await world.client.patch(RESOURCE, "js", {"spec": change}, NS)
