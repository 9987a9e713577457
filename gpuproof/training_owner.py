"""Who owns the pods of a training and makes new ones for those that are lost: what to create, to watch and to believe.

Owns the four kinds of owners and what each calls these things. It must not know a profile, a limit or why a pod was
lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuproof.cluster import raw
from gpuproof.cluster.port import (
    JOB_SETS,
    JOBS,
    SERVICES,
    TRAIN_JOBS,
    TRAINING_RUNTIMES,
    VOLCANO_JOBS,
    Resource,
)

_JOB_INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True)
class TrainingOwner:
    """A kind of owner. What a training is made of is one template in manifests/; all of it has the training's name."""

    word: str
    """The profile's word for it."""
    project: str
    """What a cluster needs that is to serve it."""
    template: str
    """Renders an object a key; the keys and kinds are those of `makes`."""
    makes: tuple[tuple[str, Resource], ...]
    """What is created, in this order; the last one is the owner itself, the rest goes after it."""
    first_pod: str
    """The name by which pods find the first of them; `{name}` is the training's."""
    given_up: Callable[[raw.Raw], str]
    """Why the owner makes no more pods, in its controller's words; "" while it does."""
    held_up: Callable[[raw.Raw], str]
    """Why it makes no pods for the time being, in its controller's words; "" where nothing holds it up."""
    index_annotation: str = _JOB_INDEX
    """Where a pod says which of the training's pods it is."""
    names_pods: bool = True
    """Whether its controller puts the pods into the Service by which they have names."""
    tells_index: bool = True
    """Whether a container finds the index in its environment, as those of Indexed Jobs do."""
    replaces_all: bool = True
    """Whether every pod is made anew where one is lost."""

    @property
    def owns(self) -> Resource:
        """The kind of the owner itself: watched, and deleted first."""
        return self.makes[-1][1]

    def address(self, name: str) -> str:
        """Where rank 0 of this training is met."""
        return self.first_pod.format(name=name)

    def index_of(self, pod: raw.Raw) -> int | None:
        """Which of the training's pods this is; None where it does not say so yet."""
        said = raw.words(pod, "metadata", "annotations").get(self.index_annotation, "")
        return int(said) if said.isdigit() else None


def _job_given_up(job: raw.Raw) -> str:
    failed = raw.text(job, "status", "failedIndexes")
    said = raw.said_where_true(job, "Failed") or raw.said_where_true(job, "FailureTarget")
    return said or (f"the Job does not replace the pod of index {failed}" if failed else "")


def _suspended(owner: raw.Raw) -> str:
    return raw.said_where_true(owner, "Suspended")


def _failed(owner: raw.Raw) -> str:
    return raw.said_where_true(owner, "Failed")


def _volcano_given_up(job: raw.Raw) -> str:
    """Phases that a Volcano Job does not leave by itself. Source: Volcano's API, batch.volcano.sh/v1alpha1."""
    state = raw.mapping(job, "status", "state")
    phase = raw.text(state, "phase")
    return _volcano_text(state) if phase in ("Failed", "Aborting", "Aborted", "Terminating", "Terminated") else ""


def _volcano_held_up(job: raw.Raw) -> str:
    state = raw.mapping(job, "status", "state")
    return _volcano_text(state) if raw.text(state, "phase") in ("Pending", "Restarting") else ""


def _volcano_text(state: raw.Raw) -> str:
    said = [raw.text(state, "reason"), raw.text(state, "message")]
    return ": ".join([f"the Volcano Job is {raw.text(state, 'phase')}", *(word for word in said if word)])


INDEXED_JOB = TrainingOwner(
    word="Job",
    project="Kubernetes",
    template="training_job.yaml.j2",
    makes=(("service", SERVICES), ("job", JOBS)),
    first_pod="{name}-0.{name}",
    given_up=_job_given_up,
    held_up=_suspended,
    names_pods=False,
    replaces_all=False,
)
"""One Indexed Job: it replaces each pod by itself, and leaves the others alone."""

JOB_SET = TrainingOwner(
    word="JobSet",
    project="JobSet (jobset.sigs.k8s.io)",
    template="training_jobset.yaml.j2",
    makes=(("jobset", JOB_SETS),),
    first_pod="{name}-node-0-0.{name}",
    given_up=_failed,
    held_up=_suspended,
)
"""A JobSet of one Indexed Job that fails with its first pod and is then made anew as a whole."""

TRAIN_JOB = TrainingOwner(
    word="TrainJob",
    project="Kubeflow Trainer (v2) with JobSet",
    template="training_trainjob.yaml.j2",
    makes=(("runtime", TRAINING_RUNTIMES), ("trainjob", TRAIN_JOBS)),
    first_pod="{name}-node-0-0.{name}",
    given_up=_failed,
    held_up=_suspended,
)
"""A TrainJob with a runtime of its own, whose JobSet does the work."""

VOLCANO_JOB = TrainingOwner(
    word="VolcanoJob",
    project="Volcano",
    template="training_volcano.yaml.j2",
    makes=(("volcanojob", VOLCANO_JOBS),),
    first_pod="{name}-node-0.{name}",
    given_up=_volcano_given_up,
    held_up=_volcano_held_up,
    index_annotation="volcano.sh/task-index",
    tells_index=False,
)
"""A Volcano Job of one task whose policies restart the whole Job; a pod that is made anew has the same name."""

OWNERS = {owner.word: owner for owner in (INDEXED_JOB, JOB_SET, TRAIN_JOB, VOLCANO_JOB)}
"""By the profile's word."""
