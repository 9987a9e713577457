"""Keeps the status of PodDisruptionBudgets: how many pods are healthy, and how many may be evicted now.

Owns that status; the eviction itself is the API server's business.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from simcluster.api.port import ApiError, Client, Object
from simcluster.controllers import clock, fields
from simcluster.controllers.events import EventRecorder
from simcluster.controllers.informers import Informers
from simcluster.controllers.kinds import OWNED
from simcluster.controllers.matching import labels_match
from simcluster.controllers.requests import merge_conditions
from simcluster.controllers.workqueue import TryAgainError, WorkQueue
from simcluster.timing import Timing

BUDGETS = "poddisruptionbudgets.policy"
COMPONENT = "controllermanager"
SCALABLE = {"ReplicaSet", "ReplicationController", "StatefulSet", "Deployment"}
EVICTED_PATIENCE_S = 120.0
Key = tuple[str, str]


class _NoScaleError(Exception):
    """The pods' controller has no replica count."""


class DisruptionController:
    """Counts the pods of a budget shortly after one of them changed."""

    def __init__(self, client: Client, timing: Timing, informers: Informers, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder
        self._timing = timing
        self._budgets = informers.of(BUDGETS)
        self._pods_in: dict[str, dict[str, Object]] = {}
        self._queue: WorkQueue[Key] = WorkQueue(
            self._sync, title="disruption", retry_first_s=timing.s(0.5), retry_max_s=timing.s(30.0)
        )
        self._budgets.on_change(self._on_budget)
        informers.of("pods").on_change(self._on_pod)

    def start(self) -> None:
        """Start after the informers."""
        self._queue.start()

    async def stop(self) -> None:
        """Stop counting."""
        await self._queue.stop()

    def _on_budget(self, _old: Object | None, new: Object | None) -> None:
        if new is not None:
            self._queue.add(fields.key(new))

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        if obj is None:
            return
        pods = self._pods_in.setdefault(fields.namespace(obj), {})
        if new is None:
            pods.pop(fields.name(obj), None)
        else:
            pods[fields.name(obj)] = new
        if old is not None and new is not None and _facts(old) == _facts(new):
            return
        for key, budget in self._budgets.items.items():
            if key[0] == fields.namespace(obj) and labels_match(
                fields.spec(budget).get("selector"), fields.labels(obj)
            ):
                self._queue.add_after(key, self._timing.s(0.05))

    async def _sync(self, key: Key) -> None:
        budget = self._budgets.items.get(key)
        if budget is None:
            return
        selector = fields.spec(budget).get("selector")
        all_pods = self._pods_in.get(key[0], {})
        pods = [pod for pod in all_pods.values() if labels_match(selector, fields.labels(pod))]
        if not pods:
            self._recorder.record(COMPONENT, budget, "Normal", "NoPods", "No matching pods found")
        try:
            expected, desired = await self._expectation(budget, pods)
        except _NoScaleError as error:
            message = f"Failed to calculate the number of expected pods: {error}"
            self._recorder.record(COMPONENT, budget, "Warning", "CalculateExpectedPodCountFailed", message)
            await self._write(budget, _failed(budget, str(error)))
            raise TryAgainError from error
        evicted, wait_s = _still_evicted(budget, all_pods)
        healthy = sum(
            fields.ready(pod) and not fields.deleting(pod) and fields.name(pod) not in evicted for pod in pods
        )
        await self._write(budget, _status(budget, expected, desired, healthy, evicted))
        if evicted:
            self._queue.add_after(key, wait_s)

    async def _expectation(self, budget: Object, pods: Sequence[Object]) -> tuple[int, int]:
        """(expected pods, pods that must stay healthy). Raises _NoScaleError."""
        spec = fields.spec(budget)
        if "maxUnavailable" in spec:
            expected = await self._scale(pods)
            return expected, max(0, expected - _count(spec["maxUnavailable"], expected))
        minimum = spec.get("minAvailable", 1)
        if isinstance(minimum, int):
            return len(pods), minimum
        expected = await self._scale(pods)
        return expected, _count(minimum, expected)

    async def _scale(self, pods: Sequence[Object]) -> int:
        owners = {ref["uid"]: (ref, pod) for pod in pods if (ref := fields.controller_of(pod)) is not None}
        total = 0
        for ref, pod in owners.values():
            resource = OWNED.get((ref["apiVersion"], ref["kind"]))
            if ref["kind"] not in SCALABLE or resource is None:
                message = f"{resource or ref['kind']} does not implement the scale subresource"
                raise _NoScaleError(message)
            try:
                owner = await self._client.get(resource, ref["name"], fields.namespace(pod))
            except ApiError as error:
                if error.code != 404:
                    raise
                continue
            total += int(fields.spec(owner).get("replicas", 1))
        return total

    async def _write(self, budget: Object, status: Object) -> None:
        if status == fields.status(budget):
            return
        await self._client.update(BUDGETS, {**budget, "status": status}, subresource="status")


def _facts(pod: Object) -> tuple[object, ...]:
    return fields.ready(pod), fields.deleting(pod), fields.terminal(pod), fields.labels(pod)


def _count(value: int | str, of: int) -> int:
    return value if isinstance(value, int) else math.ceil(int(value.rstrip("%")) * of / 100)


def _still_evicted(budget: Object, pods: dict[str, Object]) -> tuple[dict[str, str], float]:
    """Pods that an eviction counts as gone although their deletion was not seen yet, and seconds until one expires."""
    evicted: dict[str, str] = {}
    now, wait_s = clock.wall_s(), EVICTED_PATIENCE_S
    for name, stamp in (fields.status(budget).get("disruptedPods") or {}).items():
        pod = pods.get(name)
        left_s = clock.epoch_s(stamp) + EVICTED_PATIENCE_S - now
        if pod is not None and not fields.deleting(pod) and left_s > 0:
            evicted[name] = stamp
            wait_s = min(wait_s, left_s)
    return evicted, wait_s


def _status(budget: Object, expected: int, desired: int, healthy: int, evicted: dict[str, str]) -> Object:
    allowed = max(0, healthy - desired) if expected > 0 else 0
    reason = "SufficientPods" if allowed else "InsufficientPods"
    return _with_condition(
        budget,
        {"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired, "expectedPods": expected},
        ("True" if allowed else "False", reason, ""),
        evicted,
    )


def _failed(budget: Object, message: str) -> Object:
    counts = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    before = {name: fields.status(budget).get(name, 0) for name in counts}
    return _with_condition(budget, {**before, "disruptionsAllowed": 0}, ("False", "SyncFailed", message), {})


def _with_condition(
    budget: Object, counts: dict[str, int], said: tuple[str, str, str], evicted: dict[str, str]
) -> Object:
    generation = fields.meta(budget).get("generation", 1)
    value, reason, message = said
    wanted = {
        "type": "DisruptionAllowed",
        "status": value,
        "observedGeneration": generation,
        "lastTransitionTime": clock.stamp(),
        "reason": reason,
        "message": message,
    }
    conditions = merge_conditions(fields.status(budget).get("conditions") or [], [wanted])
    status: Object = {"observedGeneration": generation, **counts, "conditions": conditions}
    if evicted:
        status["disruptedPods"] = evicted
    return status
