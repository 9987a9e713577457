"""Whose a training's pods are and in which queue they wait, as the profile says, and whether the cluster knows them.

Owns these words of the profile. It must not know a pod, a limit or a verdict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuproof.admission import KUEUE, VOLCANO, Queue
from gpuproof.cluster.port import Cluster, ClusterError, Resource
from gpuproof.failure import Reason
from gpuproof.training_owner import INDEXED_JOB, OWNERS, VOLCANO_JOB, TrainingOwner

PARAMETERS = ("controller", "queue", "admitted_within_s")
"""What the profile says of it, in `[workload.checkpoint_killed_pod]`."""
_OBJECT_NAME = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_BUILT_IN = ("api/", "apis/batch/v1")


class ChoiceError(ValueError):
    """The profile's words cannot be used: which key, what belongs there, what was found, and what to do."""

    def __init__(self, key: str, expected: str, found: str, next_step: str) -> None:
        super().__init__(f"{key}: expected {expected}, found {found}; {next_step}")
        self.key, self.expected, self.found, self.next_step = key, expected, found, next_step


@dataclass(frozen=True)
class Choice:
    """The kind of owner, and the queue where there is one."""

    owner: TrainingOwner = INDEXED_JOB
    queue: Queue | None = None

    @property
    def text(self) -> str:
        """For a person who reads what a run would do."""
        if self.queue is None:
            return f"{self.owner.word}, not queued"
        place = f"{self.queue.kind.project} {self.queue.kind.calls_it} {self.queue.name}"
        return f"{self.owner.word}, queued in the {place}, for at most {self.queue.within_s:g} s"


PLAIN = Choice()
"""An Indexed Job that is not queued: where a profile names nothing."""


def read_choice(given: Mapping[str, Any], within_s: float) -> Choice:
    """What `[workload.checkpoint_killed_pod]` says; `within_s` where it names a queue and no time for it.

    Raises `ChoiceError`.
    """
    word = given.get("controller", INDEXED_JOB.word)
    if not isinstance(word, str) or word not in OWNERS:
        words = ", ".join(f'"{one}"' for one in OWNERS)
        raise ChoiceError("controller", f"one of {words}", repr(word), "name the kind by which your team trains")
    name, limit_s = given.get("queue"), given.get("admitted_within_s", within_s)
    if name is None:
        if "admitted_within_s" in given:
            raise ChoiceError("admitted_within_s", "a queue beside it", "none", "name the queue, or delete it")
        return Choice(OWNERS[word])
    if not isinstance(name, str) or not re.fullmatch(_OBJECT_NAME, name):
        found = repr(name)
        raise ChoiceError("queue", "the name of a ClusterQueue, or of Volcano's Queue", found, "correct or delete it")
    if isinstance(limit_s, bool) or not isinstance(limit_s, int | float) or limit_s <= 0:
        raise ChoiceError("admitted_within_s", "seconds, more than 0", repr(limit_s), "correct or delete it")
    kind = VOLCANO if OWNERS[word] is VOLCANO_JOB else KUEUE
    return Choice(OWNERS[word], Queue(name, float(limit_s), kind))


def refuse_unserved(cluster: Cluster, namespace: str, choice: Choice) -> None:
    """Raise `ClusterError` where the cluster does not know a kind that the choice needs: before any pod is made."""
    for _, resource in choice.owner.makes:
        _ask_for(cluster, namespace, resource, f'controller = "{choice.owner.word}"', choice.owner.project)
    queue = choice.queue
    if queue is not None:
        for resource in queue.kind.needs:
            _ask_for(cluster, namespace, resource, f'queue = "{queue.name}"', queue.kind.project)


def _ask_for(cluster: Cluster, namespace: str, resource: Resource, said: str, project: str) -> None:
    if resource.prefix.startswith(_BUILT_IN):
        return
    try:
        cluster.list_objects(resource, namespace=namespace)
    except ClusterError as error:
        if error.status != 404:
            raise
        group = resource.prefix.removeprefix("apis/")
        text = (
            f"the cluster does not serve {resource.plural} of {group}, which [workload.checkpoint_killed_pod] {said} "
            f"needs: install {project}, or take that key out of the profile"
        )
        raise ClusterError(Reason.HARNESS_ERROR, text, error.status) from error
