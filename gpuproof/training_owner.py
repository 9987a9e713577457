"""Who owns the pods of a training and makes new ones for those that are lost: what to create, to watch and to believe.

Owns what one kind of owner calls these things. It must not know a profile, a limit or why a pod was lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuproof.cluster import raw
from gpuproof.cluster.port import JOBS, SERVICES, Resource


@dataclass(frozen=True)
class TrainingOwner:
    """A kind of owner. What a training is made of is one template in manifests/; all of it has the training's name."""

    word: str
    """The profile's word for it, and its kind for a reader."""
    template: str
    """Renders an object a key; the keys and kinds are those of `makes`."""
    makes: tuple[tuple[str, Resource], ...]
    """What is created, in this order; the last one is the owner itself, the rest goes after it."""
    index_annotation: str
    """Where a pod says which of the training's pods it is."""
    first_pod: str
    """The name by which pods find the first of them; `{name}` is the training's."""
    given_up: Callable[[raw.Raw], str]
    """Why the owner makes no more pods, in its controller's words; "" while it does."""

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
    for kind in ("Failed", "FailureTarget"):
        said = condition_text(job, kind)
        if said:
            return said
    failed = raw.text(job, "status", "failedIndexes")
    return f"the Job does not replace the pod of index {failed}" if failed else ""


def condition_text(obj: raw.Raw, kind: str) -> str:
    """Reason and message of a condition that is true; "" where it is not."""
    found = raw.condition(obj, kind)
    if raw.text(found, "status") != "True":
        return ""
    return f"{raw.text(found, 'reason')}: {raw.text(found, 'message')}"


INDEXED_JOB = TrainingOwner(
    word="Job",
    template="training_job.yaml.j2",
    makes=(("service", SERVICES), ("job", JOBS)),
    index_annotation="batch.kubernetes.io/job-completion-index",
    first_pod="{name}-0.{name}",
    given_up=_job_given_up,
)
"""One Indexed Job: it replaces each pod by itself, and leaves the others alone."""
