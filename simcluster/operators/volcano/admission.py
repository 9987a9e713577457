"""What Volcano's webhooks do to a Job on its way in: fill in defaults, refuse what cannot work or has no open queue.

Owns these rules and their words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from simcluster.api.port import ApiError, Object
from simcluster.api.resources import Request, Resources
from simcluster.controllers import fields
from simcluster.operators.volcano import spec, words

KNOWN_PLUGINS = frozenset({"env", "svc"})


def fill_in(request: Request) -> Object:
    """A Job with the defaults that no schema can give; anything else as it is."""
    if request.kind.name != words.JOBS or request.operation != "CREATE":
        return request.obj
    tasks = [_task(task, position) for position, task in enumerate(spec.tasks(request.obj))]
    filled: dict[str, Any] = {**fields.spec(request.obj), "tasks": tasks}
    filled["minAvailable"] = filled.get("minAvailable") or sum(task["minAvailable"] for task in tasks)
    return {**request.obj, "spec": filled}


def _task(task: dict[str, Any], position: int) -> dict[str, Any]:
    replicas = task.get("replicas", 1)
    return {"name": f"default{position}", "replicas": replicas, "minAvailable": replicas, **task}


class Checks:
    """Refuses Jobs; looks queues up."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources

    def __call__(self, request: Request) -> Object:
        """The Job as it is. Raises ApiError 403."""
        if request.kind.name == words.JOBS and not request.subresource:
            wrong = [*_wrong(request.obj)]
            if request.operation == "CREATE":
                wrong += self._wrong_queue(str(fields.spec(request.obj).get("queue")))
            if wrong:
                text = 'admission webhook "validatejob.volcano.sh" denied the request: ' + " ".join(wrong)
                raise ApiError(403, "Forbidden", text, {})
        return request.obj

    def _wrong_queue(self, name: str) -> Iterator[str]:
        kind = self._resources.kinds.named(words.QUEUES)
        entry = self._resources.collection(kind).get("", name) if kind is not None else None
        if entry is None:
            yield f'unable to find job queue: queues.scheduling.volcano.sh "{name}" not found;'
            return
        state = fields.status(entry.obj).get("state", "")
        if state != "Open":
            yield f"can only submit job to queue with state `Open`, queue `{name}` status is `{state}`;"


def _wrong(job: Object) -> Iterator[str]:
    names = Counter(task["name"] for task in spec.tasks(job))
    if not names:
        yield "No task specified in job spec;"
    for name, count in names.items():
        if count > 1:
            yield f"duplicated task name {name};"
    if spec.min_available(job) > spec.replicas(job):
        yield "job 'minAvailable' should not be greater than total replicas in tasks;"
    for name in spec.plugins(job):
        if name not in KNOWN_PLUGINS:
            yield f"unable to find job plugin: {name};"
    for policies in (fields.spec(job).get("policies"), *(task.get("policies") for task in spec.tasks(job))):
        yield from _wrong_policies(policies or [])


def _wrong_policies(policies: list[dict[str, Any]]) -> Iterator[str]:
    seen: Counter[str] = Counter()
    for policy in policies:
        events = [*(policy.get("events") or ()), *([policy["event"]] if policy.get("event") else [])]
        if bool(events) == ("exitCode" in policy):
            yield "must specify either event or exitCode in policy;"
        if policy.get("exitCode") == 0:
            yield "0 is not a valid error code;"
        seen.update(events)
    for event, count in seen.items():
        if count > 1:
            yield f"duplicate event {event} across different policy;"
    if words.ANY in seen and len(seen) > 1:
        yield "if there's * here, no other policy should be here;"
