"""Jobs replayed against recordings of a real Kubernetes 1.36: the same statuses in the same order, the same events.

All scenarios run at once, each in a namespace of its own, with the recorded times scaled.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from simcluster.api.port import KubeletRegistry, Object
from simcluster.api.server import ApiServer
from simcluster.controllers import fields
from simcluster.controllers.manager import ControllerManager
from simcluster.controllers.requests import pod_condition, set_pod_status
from simcluster.timing import Timing
from tests.simcluster.controllers.sequences import collapsed, summary
from tests.simcluster.controllers.world import Act, World

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden" / "jobs.json").read_text(encoding="utf-8"))
SCALES = (0.1, 0.15, 0.3)
INDEX = "batch.kubernetes.io/job-completion-index"
Step = Callable[[World, str], Awaitable[None]]


@dataclass(frozen=True)
class Scenario:
    """How the pods of a recording behaved, what the client did, and which condition ends it."""

    acts: Callable[[int], Act]
    step: Step | None = None
    end: str = "Complete"
    before: Step | None = None


async def _pod_of(world: World, namespace: str, index: int) -> Object:
    async def running() -> Object | None:
        for pod in await world.pods(namespace, f"{INDEX}={index}"):
            if fields.phase(pod) == "Running":
                return pod
        return None

    found: Object = await world.until(running)
    await _told(world, namespace, lambda status: 0 < status.get("active", 0) == status.get("ready"))
    return found


async def _told(world: World, namespace: str, so: Callable[[Object], bool]) -> None:
    """Until the Job itself says so: the recorded client acted on what it had been told."""

    async def said() -> bool:
        history = world.history("j", namespace)
        return bool(history) and so(history[-1])

    await world.until(said)


def _suspended(status: Object) -> bool:
    conditions = status.get("conditions") or ()
    return any(each["type"] == "Suspended" and each["status"] == "True" for each in conditions)


def _delete(grace_s: int) -> Step:
    async def step(world: World, namespace: str) -> None:
        pod = await _pod_of(world, namespace, 0)
        await world.client.delete("pods", fields.name(pod), namespace, grace_period_s=grace_s)

    return step


async def _evict(world: World, namespace: str) -> None:
    pod = await _pod_of(world, namespace, 0)
    target = pod_condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting")
    await set_pod_status(world.client, pod, {"conditions": [target]})
    await world.client.delete("pods", fields.name(pod), namespace)


async def _limit_pods(world: World, namespace: str) -> None:
    quota: Object = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
    await world.client.create("resourcequotas", {**quota, "spec": {"hard": {"pods": "2"}}}, namespace)


async def _suspend_and_resume(world: World, namespace: str) -> None:
    def settled(status: Object) -> bool:
        return _suspended(status) and not any(status.get(key) for key in ("active", "ready", "terminating"))

    await _told(world, namespace, _suspended)
    await world.client.patch("jobs.batch", "j", {"spec": {"suspend": False}}, namespace)
    await _told(world, namespace, lambda status: 0 < status.get("active", 0) == status.get("ready"))
    await world.client.patch("jobs.batch", "j", {"spec": {"suspend": True}}, namespace)
    await _told(world, namespace, settled)
    await world.client.patch("jobs.batch", "j", {"spec": {"suspend": False}}, namespace)


def _one(index: int, special: Act, others: Act) -> Callable[[int], Act]:
    return lambda i: special if i == index else others


POLITE = Act(run_s=None, term_code=0, term_s=0.2)
STUBBORN = Act(run_s=16.0, term_code=None)
SCENARIOS: dict[str, Scenario] = {
    "01b-indexed-success-quiet": Scenario(lambda _i: Act(run_s=3.0)),
    "02-backofflimit-0": Scenario(_one(2, Act(run_s=2.0, code=3), POLITE), end="Failed"),
    "03a-backofflimitperindex-0": Scenario(
        lambda i: (Act(run_s=4.0), Act(run_s=2.0, code=3), Act(run_s=5.5))[i % 3], end="Failed"
    ),
    "03b-perindex-0-maxfailedindexes-1": Scenario(
        lambda i: Act(run_s=1.0 + 2.0 * i, code=3) if i < 2 else POLITE, end="Failed"
    ),
    "03c-perindex-1-retry": Scenario(_one(1, Act(run_s=1.6, code=3), Act(run_s=1.5)), end="Failed"),
    "03d-backofflimit-2-retries": Scenario(_one(1, Act(run_s=1.5, code=3), Act(run_s=1.65)), end="Failed"),
    "04a-podfailurepolicy-failindex-42": Scenario(
        lambda i: Act(run_s=1.0, code=42) if i == 1 else Act(run_s=4.0 if i == 0 else 5.5), end="Failed"
    ),
    "04b-podfailurepolicy-ignore-disruption": Scenario(lambda _i: Act(run_s=9.6, term_code=1, term_s=1.0), _evict),
    "04c-podfailurepolicy-failjob": Scenario(_one(1, Act(run_s=1.0, code=7), POLITE), end="Failed"),
    "05a-delete-pod-grace-0": Scenario(lambda _i: STUBBORN, _delete(0)),
    "05b-delete-pod-grace-5-ignores-term": Scenario(lambda _i: STUBBORN, _delete(5)),
    "05c-delete-pod-grace-5-replacement-failed": Scenario(lambda _i: STUBBORN, _delete(5)),
    "05d-delete-pod-backofflimit-0": Scenario(lambda _i: STUBBORN, _delete(1), end="Failed"),
    "05e-delete-pod-perindex-0": Scenario(lambda _i: STUBBORN, _delete(1), end="Failed"),
    "06a-evict-job-pod": Scenario(lambda _i: Act(run_s=12.6, term_code=143), _evict),
    "07a-activedeadline-job": Scenario(lambda _i: POLITE, end="Failed"),
    "08-ttl-after-finished": Scenario(lambda _i: Act(run_s=1.3)),
    "15a-quota": Scenario(lambda i: Act(run_s=9.3 if i < 2 else 9.0), before=_limit_pods),
    "09-suspend-resume": Scenario(lambda _i: Act(run_s=8.0, term_code=0, term_s=0.5), _suspend_and_resume),
}


@dataclass(frozen=True)
class Outcome:
    """What a watcher saw of a scenario's Job."""

    statuses: list[dict[str, Any]]
    events: Counter[str]


def _namespace(title: str) -> str:
    return f"s{title.partition('-')[0]}"


async def _replay(world: World, title: str, scenario: Scenario) -> Outcome:
    namespace = _namespace(title)
    await world.client.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    if scenario.before is not None:
        await scenario.before(world, namespace)
    await world.job("j", namespace=namespace, **GOLDEN[title]["spec"])
    if scenario.step is not None:
        await scenario.step(world, namespace)
    kind = scenario.end

    async def ended() -> bool:
        history = world.history("j", namespace)
        return bool(history) and any(c["type"] == kind for c in history[-1].get("conditions") or ())

    await world.until(ended, patience_s=20.0)
    statuses = collapsed(summary(status) for status in world.history("j", namespace))
    recorded = Counter(GOLDEN[title]["events"])

    async def all_there() -> bool:
        return await _events(world, namespace) >= recorded

    with contextlib.suppress(AssertionError):  # what is missing then shows in the comparison
        await world.until(all_there, patience_s=3.0)
    return Outcome(statuses, await _events(world, namespace))


async def _events(world: World, namespace: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for event in (await world.client.list("events", namespace)).items:
        if event["involvedObject"]["kind"] == "Job":
            counts[event["reason"]] += event["count"]
    if "FailedCreate" in counts:
        # How often a refusal was met depends on when the quota had room again.
        counts["FailedCreate"] = 1
    return counts


def _as_recorded(title: str, outcome: Outcome) -> bool:
    recorded = Outcome(GOLDEN[title]["statuses"], Counter(GOLDEN[title]["events"]))
    return outcome == recorded


async def _replay_all(titles: Sequence[str], scale: float) -> dict[str, Outcome]:
    server = ApiServer(registry=KubeletRegistry())
    timing = Timing(scale=scale)
    manager = ControllerManager(server.client, timing)

    def act(pod: Object) -> Act:
        title = next(title for title in SCENARIOS if fields.namespace(pod) == _namespace(title))
        return SCENARIOS[title].acts(int(fields.notes(pod).get(INDEX, "0")))

    world = World(server.client, timing, act)
    await manager.start()
    await world.start()
    for number in range(4):
        await world.node(f"node-{number + 1}")
    found = await asyncio.gather(*(_replay(world, title, SCENARIOS[title]) for title in titles))
    await world.stop()
    await manager.stop()
    await server.close()
    return dict(zip(titles, found, strict=True))


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    """All scenarios, replayed once for all tests here.

    Two pods that end almost together may fall into one batch or into two on a busy machine: what differs is replayed
    more slowly before it counts as different.
    """
    found: dict[str, Outcome] = {}
    for scale in SCALES:
        titles = [title for title in SCENARIOS if title not in found or not _as_recorded(title, found[title])]
        if titles:
            found |= asyncio.run(_replay_all(titles, scale))
    return found


@pytest.mark.parametrize("title", SCENARIOS)
def test_statuses_come_in_the_recorded_order(outcomes: dict[str, Outcome], title: str) -> None:
    assert outcomes[title].statuses == GOLDEN[title]["statuses"]


@pytest.mark.parametrize("title", SCENARIOS)
def test_events_are_the_recorded_ones(outcomes: dict[str, Outcome], title: str) -> None:
    assert outcomes[title].events == GOLDEN[title]["events"]
