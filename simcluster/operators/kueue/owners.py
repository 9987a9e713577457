"""The kinds whose objects Kueue queues: where each has its pods' templates, its suspension and its end.

Pure: owns these differences; must not know a client or a queue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from simcluster.api.port import Object
from simcluster.controllers import fields
from simcluster.operators.kueue import words
from simcluster.operators.kueue.workload import PodSet

Template = Callable[[str, Object], Object]
"""A pod set's name and template to the template to take instead."""


@dataclass(frozen=True)
class OwnerKind:
    """One kind. `operator` is the one that must be there for it; `ends` are conditions and the reason they stand for.

    `sets` reads the pod sets (from the object of the same name of the resource `sets_from`, where that is given),
    `templated` exchanges the templates of the named pod sets, `active` tells whether pods are still there.
    """

    resource: str
    api_version: str
    kind: str
    operator: str
    ends: Mapping[str, str]
    sets: Callable[[Object], list[PodSet]]
    templated: Callable[[Object, Template, Sequence[str]], Object]
    active: Callable[[Object], bool]
    sets_from: str = ""

    @property
    def component(self) -> str:
        """Who speaks in events about such an object."""
        return f"{self.api_version.partition('/')[0]}/{self.kind.lower()}-kueue-controller"

    def end(self, owner: Object) -> tuple[str, str] | None:
        """Reason and message of its end."""
        for condition, reason in self.ends.items():
            if fields.condition_true(owner, condition):
                return reason, str((fields.condition(owner, condition) or {}).get("message", ""))
        return None


def suspended(owner: Object) -> bool:
    """It makes no pods."""
    return bool(fields.spec(owner).get("suspend"))


def with_suspend(owner: Object, value: bool) -> Object:
    """A changed copy."""
    return {**owner, "spec": {**owner["spec"], "suspend": value}}


def _count(job_spec: Object) -> int:
    parallelism, completions = job_spec.get("parallelism"), job_spec.get("completions")
    count = int(parallelism if parallelism is not None else 1)
    return count if completions is None else min(count, int(completions))


def _job_sets(job: Object) -> list[PodSet]:
    return [PodSet("main", _count(job["spec"]), job["spec"]["template"])]


def _job_templated(job: Object, change: Template, _names: Sequence[str]) -> Object:
    return {**job, "spec": {**job["spec"], "template": change("main", job["spec"]["template"])}}


def _job_set_sets(job_set: Object) -> list[PodSet]:
    found = []
    for each in job_set["spec"].get("replicatedJobs") or ():
        inner = each["template"]["spec"]
        replicas = each.get("replicas")
        count = int(replicas if replicas is not None else 1) * _count(inner)
        found.append(PodSet(each["name"], count, inner["template"]))
    return found


def _job_set_templated(job_set: Object, change: Template, _names: Sequence[str]) -> Object:
    changed = []
    for each in job_set["spec"].get("replicatedJobs") or ():
        inner = each["template"]["spec"]
        spec = {**inner, "template": change(each["name"], inner["template"])}
        changed.append({**each, "template": {**each["template"], "spec": spec}})
    return {**job_set, "spec": {**job_set["spec"], "replicatedJobs": changed}}


def _train_job_templated(train_job: Object, change: Template, names: Sequence[str]) -> Object:
    """What is asked of a template beside others goes into overrides, the only place that a TrainJob has for it."""
    spec = dict(train_job["spec"])
    overrides = [each for each in spec.pop("podTemplateOverrides", ()) if each.get("manager") != words.MANAGER]
    for name in names:
        changed = change(name, {"spec": {}})["spec"]
        asked = {key: changed[key] for key in ("nodeSelector", "tolerations") if changed.get(key)}
        if asked:
            overrides.append({"manager": words.MANAGER, "targetJobs": [{"name": name}], "spec": asked})
    return {**train_job, "spec": {**spec, **({"podTemplateOverrides": overrides} if overrides else {})}}


def _job_active(job: Object) -> bool:
    return bool(fields.status(job).get("active"))


def _job_set_active(job_set: Object) -> bool:
    return any(each.get("active") for each in fields.status(job_set).get("replicatedJobsStatus") or ())


def _train_job_active(train_job: Object) -> bool:
    return any(each.get("active") for each in fields.status(train_job).get("jobsStatus") or ())


JOB_SETS = "jobsets.jobset.x-k8s.io"
JOB = OwnerKind(
    resource="jobs.batch",
    api_version="batch/v1",
    kind="Job",
    operator="",
    ends={"Complete": "Succeeded", "Failed": "Failed"},
    sets=_job_sets,
    templated=_job_templated,
    active=_job_active,
)
JOB_SET = OwnerKind(
    resource=JOB_SETS,
    api_version="jobset.x-k8s.io/v1alpha2",
    kind="JobSet",
    operator="jobset",
    ends={"Completed": "Succeeded", "Failed": "Failed"},
    sets=_job_set_sets,
    templated=_job_set_templated,
    active=_job_set_active,
)
TRAIN_JOB = OwnerKind(
    resource="trainjobs.trainer.kubeflow.org",
    api_version="trainer.kubeflow.org/v1alpha1",
    kind="TrainJob",
    operator="trainer",
    ends={"Complete": "Succeeded", "Failed": "Failed"},
    sets=_job_set_sets,
    templated=_train_job_templated,
    active=_train_job_active,
    sets_from=JOB_SETS,
)
KINDS = (JOB, JOB_SET, TRAIN_JOB)
MANAGERS = frozenset({(JOB_SET.api_version, JOB_SET.kind), (TRAIN_JOB.api_version, TRAIN_JOB.kind)})
"""Owners of owners: what one of these made is queued with it, not once more by itself."""


def made_by_another(owner: Object) -> bool:
    """Its controller is of a kind that is queued itself."""
    ref = fields.controller_of(owner)
    return ref is not None and (ref.get("apiVersion"), ref.get("kind")) in MANAGERS
