"""PodGroups and Queues: a group may have its pods once its queue is open and the cluster has room; both are counted.

Owns their statuses; must not know Jobs, nor where a pod is placed.
"""

from __future__ import annotations

from collections import Counter

from simcluster.api.port import ApiError, Object
from simcluster.controllers import clock, fields
from simcluster.controllers.quantity import amount
from simcluster.controllers.scheduler.podinfo import requests_of
from simcluster.controllers.workloads.children import write_status
from simcluster.controllers.workqueue import WorkQueue
from simcluster.operators.operator import Setting
from simcluster.operators.volcano import words

ALL = "all"
OVERCOMMIT = 1.2
"""So many times what the nodes have is let in: the default of Volcano's plugin of that name."""


class GroupController:
    """Looks at all groups and queues shortly after a change."""

    def __init__(self, setting: Setting) -> None:
        self._client, self._recorder = setting.client, setting.recorder
        timing, informers = setting.timing, setting.informers
        self._settle_s = timing.s(0.2)
        self._queue: WorkQueue[str] = WorkQueue(
            self._look, title="volcano-groups", retry_first_s=timing.s(0.5), retry_max_s=timing.s(10.0)
        )
        self._groups, self._queues = informers.of(words.GROUPS), informers.of(words.QUEUES)
        self._pods, self._nodes = informers.of("pods"), informers.of("nodes")
        for informer in (self._groups, self._queues, self._nodes):
            informer.on_change(lambda _old, _new: self._wake())
        self._pods.on_change(self._on_pod)

    def start(self) -> None:
        """Start after the informers."""
        self._queue.start()
        self._wake()

    async def stop(self) -> None:
        """Stop looking."""
        await self._queue.stop()

    def _wake(self) -> None:
        self._queue.add_after(ALL, self._settle_s)

    def _on_pod(self, old: Object | None, new: Object | None) -> None:
        if self._groups.items and (old is None or new is None or fields.phase(old) != fields.phase(new)):
            self._wake()

    async def _look(self, _key: str) -> None:
        if ("", words.DEFAULT_QUEUE) not in self._queues.items:
            await self._make_default_queue()
        members = self._members()
        free = self._free()
        for key, group in self._groups.items.items():
            let_in = fields.status(group).get("phase") == "Inqueue"
            if let_in and not any(map(fields.node_of, members.get(key, []))):
                free.subtract(_needed(group))
        for key, group in sorted(self._groups.items.items(), key=lambda item: fields.version(item[1])):
            status = self._status_of(group, members.get(key, []), free)
            await write_status(self._client, words.GROUPS, group, status)
        for queue in list(self._queues.items.values()):
            await write_status(self._client, words.QUEUES, queue, self._queue_status(queue))

    async def _make_default_queue(self) -> None:
        queue = {
            "apiVersion": words.SCHEDULING_VERSION,
            "kind": "Queue",
            "metadata": {"name": words.DEFAULT_QUEUE},
            "spec": {"weight": 1},
        }
        try:
            await self._client.create(words.QUEUES, queue)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    def _members(self) -> dict[tuple[str, str], list[Object]]:
        found: dict[tuple[str, str], list[Object]] = {}
        for pod in self._pods.items.values():
            name = fields.notes(pod).get(words.GROUP_KEY)
            if name:
                found.setdefault((fields.namespace(pod), name), []).append(pod)
        return found

    def _free(self) -> Counter[str]:
        free: Counter[str] = Counter()
        for node in self._nodes.items.values():
            if fields.spec(node).get("unschedulable") or not fields.ready(node):
                continue
            for resource, text in (fields.status(node).get("allocatable") or {}).items():
                free[resource] += int(amount(resource, text) * OVERCOMMIT)
        for pod in self._pods.items.values():
            if fields.node_of(pod) and not fields.terminal(pod):
                free.subtract(requests_of(fields.spec(pod)))
        return free

    def _status_of(self, group: Object, members: list[Object], free: Counter[str]) -> Object:
        status = fields.status(group)
        phases = Counter(fields.phase(pod) for pod in members if not fields.deleting(pod))
        counted = {name: phases[name.capitalize()] for name in ("running", "succeeded", "failed")}
        phase = status.get("phase", "Pending")
        least = int(fields.spec(group).get("minMember") or 0)
        conditions = status.get("conditions") or []
        if phase == "Pending":
            short = self._short(group, free)
            phase = "Pending" if short else "Inqueue"
            conditions = [_condition("Unschedulable", "NotEnoughResources", short, conditions)] if short else conditions
        elif phase == "Inqueue" and counted["running"] + counted["succeeded"] >= least:
            phase = "Running"
            conditions = [_condition("Scheduled", "tasks in gang are ready to be scheduled", "", [])]
        kept = {name: value for name, value in counted.items() if value}
        return {"phase": phase, **({"conditions": conditions} if conditions else {}), **kept}

    def _short(self, group: Object, free: Counter[str]) -> str:
        """Why the group cannot have its pods yet; else what it needs is counted as taken."""
        name = fields.spec(group).get("queue", words.DEFAULT_QUEUE)
        queue = self._queues.items.get(("", name))
        if queue is None or fields.status(queue).get("state") != "Open":
            return f"queue {name} is not open"
        needed = _needed(group)
        missing = sorted(resource for resource, value in needed.items() if value > free[resource])
        if missing:
            return f"resource in cluster is overused: {', '.join(missing)}"
        free.subtract(needed)
        return ""

    def _queue_status(self, queue: Object) -> Object:
        name = fields.name(queue)
        groups = [each for each in self._groups.items.values() if fields.spec(each).get("queue") == name]
        phases = Counter(fields.status(group).get("phase", "Pending") for group in groups)
        counts = {word: phases[word.capitalize()] for word in ("pending", "inqueue", "running", "unknown")}
        return {"state": fields.status(queue).get("state") or "Open", **counts}


def _needed(group: Object) -> dict[str, int]:
    return {
        resource: amount(resource, text) for resource, text in (fields.spec(group).get("minResources") or {}).items()
    }


def _condition(kind: str, reason: str, message: str, before: list[Object]) -> Object:
    old = next((each for each in before if each.get("type") == kind), {})
    since = old.get("lastTransitionTime") or clock.stamp()
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since}
