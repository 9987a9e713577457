"""The Job controller beyond the recorded sequences: shapes of pods, refusals, deadlines, scale, odd Jobs."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.api.port import ApiError, Object
from simcluster.controllers import fields
from simcluster.controllers.job import indexes
from tests.simcluster.controllers.world import NS, Act, World

JOB = "jobs.batch"


@pytest.fixture
async def one(world: World) -> World:
    """One large node."""
    await world.node("node-1", gpus=64, pods=4000)
    return world


async def pods_when(world: World, count: int, selector: str = "") -> list[Object]:
    async def check() -> list[Object] | None:
        pods = await world.pods(selector=selector)
        return pods if len(pods) == count else None

    found: list[Object] = await world.until(check)
    return found


async def test_an_indexed_pod_carries_its_index_everywhere(one: World) -> None:
    one.act = lambda _pod: Act(run_s=None)
    job = await one.job(completions=2, parallelism=2, completionMode="Indexed")
    pods = sorted(await pods_when(one, 2), key=fields.name)
    key = "batch.kubernetes.io/job-completion-index"
    for index, pod in enumerate(pods):
        assert fields.name(pod).startswith(f"j-{index}-")
        assert fields.meta(pod)["generateName"] == f"j-{index}-"
        assert fields.spec(pod)["hostname"] == f"j-{index}"
        assert fields.labels(pod)[key] == fields.notes(pod)[key] == str(index)
        assert fields.labels(pod)["job-name"] == "j"
        assert fields.labels(pod)["batch.kubernetes.io/controller-uid"] == fields.uid(job)
        assert fields.finalizers(pod) == ["batch.kubernetes.io/job-tracking"]
        (owner,) = fields.owners(pod)
        assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (fields.uid(job), True, True)
        (variable,) = fields.spec(pod)["containers"][0]["env"]
        assert variable["name"] == "JOB_COMPLETION_INDEX"
        assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{key}']"


async def test_a_non_indexed_job_names_no_index(one: World) -> None:
    await one.job(completions=3, parallelism=2)
    job = await one.until_condition(JOB, "j", "Complete")
    assert fields.status(job)["succeeded"] == 3
    assert "completedIndexes" not in fields.status(job)
    for pod in await one.pods():
        assert fields.name(pod).count("-") == 1
        assert "env" not in fields.spec(pod)["containers"][0]
        assert fields.finalizers(pod) == []


async def test_zero_completions_complete_and_zero_parallelism_waits(one: World) -> None:
    await one.job("zero", completions=0)
    await one.job("par0", parallelism=0, completions=1)
    await one.until_condition(JOB, "zero", "Complete")

    async def seen() -> Object:
        return fields.status(await one.client.get(JOB, "par0", NS))

    status = await one.until(seen)
    assert "active" not in status
    assert "conditions" not in status
    assert await one.pods() == []


async def test_parallelism_bounds_what_runs_at_once(one: World) -> None:
    await one.job(completions=6, parallelism=2, completionMode="Indexed")
    job = await one.until_condition(JOB, "j", "Complete")
    assert max(status.get("active", 0) for status in one.history("j")) == 2
    assert fields.status(job)["completedIndexes"] == "0-5"


async def test_less_parallelism_takes_pods_away(one: World) -> None:
    one.act = lambda _pod: Act(run_s=None)
    await one.job(completions=4, parallelism=4, completionMode="Indexed")
    await pods_when(one, 4)
    await one.client.patch(JOB, "j", {"spec": {"parallelism": 1}}, NS)

    async def left() -> bool:
        return sum(not fields.deleting(pod) for pod in await one.pods()) == 1

    await one.until(left)
    assert len(await one.until(lambda: one.events("SuccessfulDelete"))) == 3

    async def settled() -> Object | None:
        status = fields.status(await one.client.get(JOB, "j", NS))
        return status if status.get("active") == 1 and not status["terminating"] else None

    assert "failed" not in await one.until(settled)


async def test_a_refused_pod_is_tried_again_with_growing_delay_and_told_by_events_only(one: World) -> None:
    text = 'pods "j-0-xxxxx" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0'
    one.gate.closed = ApiError(403, "Forbidden", text)
    await one.job(completions=4, parallelism=4, completionMode="Indexed")

    async def often() -> bool:
        return len(one.gate.refused) >= 4

    await one.until(often)
    # One refusal a round, however many pods are wanted.
    gaps = [later - earlier for earlier, later in pairwise(one.gate.refused)]
    # Lower bounds only: a busy machine may make any round later, never earlier.
    assert gaps[0] >= 0.9 * one.timing.s(1.0)
    assert gaps[2] >= 3.6 * one.timing.s(1.0)
    event = (await one.until(lambda: one.events("FailedCreate")))[0]
    assert (event["type"], event["message"]) == ("Warning", f"Error creating: {text}")
    status = fields.status(await one.client.get(JOB, "j", NS))
    assert "active" not in status
    assert "conditions" not in status
    assert (status["ready"], status["terminating"]) == (0, 0)
    one.gate.closed = None
    await one.until_condition(JOB, "j", "Complete")


async def test_a_deadline_counts_real_seconds_and_ends_the_job(one: World) -> None:
    one.act = lambda _pod: Act(run_s=None, term_code=0)
    await one.job(completions=2, parallelism=2, completionMode="Indexed", activeDeadlineSeconds=1)
    began = asyncio.get_running_loop().time()
    job = await one.until_condition(JOB, "j", "Failed")
    assert asyncio.get_running_loop().time() - began > 0.9
    condition = fields.condition(job, "FailureTarget") or {}
    message = "Job was active longer than specified deadline"
    assert (condition["reason"], condition["message"]) == ("DeadlineExceeded", message)
    assert fields.status(job)["failed"] == 2
    assert [e["message"] for e in await one.until(lambda: one.events("DeadlineExceeded"))] == [message]


async def test_a_rejected_pod_counts_as_failed_and_is_replaced_after_the_backoff(one: World) -> None:
    seen: list[str] = []

    def act(pod: Object) -> Act:
        seen.append(fields.name(pod))
        return Act(rejected="OutOfnvidia.com/gpu") if len(seen) == 1 else Act()

    one.act = act
    await one.job(completions=1, parallelism=1, completionMode="Indexed")
    began = asyncio.get_running_loop().time()
    job = await one.until_condition(JOB, "j", "Complete")
    assert asyncio.get_running_loop().time() - began > one.timing.job_backoff_s
    assert (fields.status(job)["failed"], fields.status(job)["succeeded"]) == (1, 1)


async def test_every_index_may_retry_on_its_own(one: World) -> None:
    async def counts() -> dict[str, list[str]] | None:
        found: dict[str, list[str]] = {}
        for pod in await one.pods():
            notes = fields.notes(pod)
            index = notes["batch.kubernetes.io/job-completion-index"]
            found.setdefault(index, []).append(notes["batch.kubernetes.io/job-index-failure-count"])
        return found if all(len(each) == 2 for each in found.values()) and len(found) == 2 else None

    one.act = lambda _pod: Act(code=1)
    await one.job(completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=1)
    found = await one.until(counts)
    assert {index: sorted(each) for index, each in found.items()} == {"0": ["0", "1"], "1": ["0", "1"]}
    job = await one.until_condition(JOB, "j", "Failed")
    assert (fields.status(job)["failedIndexes"], fields.status(job)["failed"]) == ("0,1", 4)


async def test_an_ignored_failure_by_exit_code_does_not_use_up_the_limit(one: World) -> None:
    seen: list[str] = []

    def act(pod: Object) -> Act:
        seen.append(fields.name(pod))
        return Act(code=42) if len(seen) < 3 else Act()

    one.act = act
    rules = [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}}]
    await one.job(completions=1, parallelism=1, backoffLimit=0, podFailurePolicy={"rules": rules})
    job = await one.until_condition(JOB, "j", "Complete")
    assert "failed" not in fields.status(job)


async def test_a_job_deleted_and_made_again_under_its_name_starts_afresh(one: World) -> None:
    one.act = lambda _pod: Act(run_s=None)
    first = await one.job(completions=1, parallelism=1, completionMode="Indexed")
    await pods_when(one, 1)
    await one.client.delete(JOB, "j", NS, propagation="Background")
    one.act = lambda _pod: Act()
    second = await one.job(completions=1, parallelism=1, completionMode="Indexed")
    await one.until_condition(JOB, "j", "Complete")
    uids = {(fields.controller_of(pod) or {})["uid"] for pod in await one.pods()}
    assert fields.uid(first) != fields.uid(second)
    assert fields.uid(second) in uids


async def test_512_indexes_are_created_and_completed(one: World) -> None:
    one.act = lambda _pod: Act(run_s=2.0)
    spec: dict[str, Any] = {"completions": 512, "parallelism": 512, "completionMode": "Indexed"}
    await one.job(**spec)
    await pods_when(one, 512)
    job = await one.until_condition(JOB, "j", "Complete", patience_s=90.0)
    assert fields.status(job)["completedIndexes"] == "0-511"
    assert fields.status(job)["uncountedTerminatedPods"] == {}


@given(st.sets(st.integers(min_value=0, max_value=200)))
def test_index_lists_read_back_as_written(found: set[int]) -> None:
    assert indexes.parse(indexes.text_of(found), 201) == found


def test_index_lists_are_written_as_kubernetes_does() -> None:
    assert indexes.text_of([3, 0, 1, 5, 6, 7]) == "0,1,3,5-7"
    assert indexes.parse("0-3,9", 3) == {0, 1, 2}
