"""Renders the Kubernetes objects of a run from manifests/: values go in as JSON, the profile's pod patch comes last.

The only importer of jinja2. It must not know a cluster, a verdict or a limit.
"""

from __future__ import annotations

import ast
import base64
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import yaml

from gpuproof import rdma_attachment
from gpuproof.admission import KUEUE, LOCAL_QUEUE, QUEUE_LABEL, Queue
from gpuproof.expectation import Rdma, Storage
from gpuproof.pod_shape import WHOLE_NODE, PodShape, parsed
from gpuproof.podguard import OWN_ENV, touched
from gpuproof.podpatch import PatchError, patch_template
from gpuproof.training_owner import INDEXED_JOB, TrainingOwner

MANAGED_BY = "app.kubernetes.io/managed-by"
RUN_LABEL = "gpuproof.dev/run"
CHECK_LABEL = "gpuproof.dev/check"
SWEEP_LABEL = "gpuproof.dev/sweep"
JOB_LABEL = "gpuproof.dev/job"
GANG_LABEL = "gpuproof.dev/gang"
ORDER_ANNOTATION = "gpuproof.dev/order"
SEAT_LABEL = "gpuproof.dev/seat"
KEPT_SEAT, SECOND_SEAT = "kept", "second"
MEASURE = "measure"
DATASET = "gpuproof-dataset"
"""The Secret, and the volume, with what to stage."""
TTL_AFTER_FINISHED_S = 300

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The safe loader; the one in C where it was built, for a sweep may name hundreds of nodes."""

_START = "import runpy, sys; sys.path.insert(0, '/gpuproof'); runpy.run_module('{module}', run_name='__main__')"
_START_WITHOUT_GC = f"import gc; gc.disable(); {_START}"
"""A seventh of torch's import is looking for garbage; the program turns it on again."""
_ROOT = Path(__file__).resolve().parent.parent
_TEMPLATES = _ROOT / "manifests"
WORKLOADS = _ROOT / "workloads"


class ManifestError(ValueError):
    """A manifest that cannot be rendered; the message says which value is wrong and what would be right."""


@dataclass(frozen=True)
class PodSettings:
    """What the profile's `[pod]` says about every workload pod.

    `patch` is a strategic-merge patch over the pod's spec, or over the whole template when it has `spec` or `metadata`.
    """

    image: str
    python: str = "python3"
    env: Mapping[str, str] = field(default_factory=dict)
    patch: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_mapping(cls, pod: Mapping[str, Any]) -> PodSettings:
        """From `[pod]`: the keys image, python, env and patch; each other key belongs to the patch (shorthand)."""
        if not isinstance(pod.get("image"), str):
            raise ManifestError('[pod] image: expected a reference such as "registry.example/team/train@sha256:…"')
        patch = dict(pod.get("patch") or {})
        patch.update({key: value for key, value in pod.items() if key not in ("image", "python", "env", "patch")})
        env = {str(key): str(value) for key, value in (pod.get("env") or {}).items()}
        for key in env:
            if key.startswith(OWN_ENV):
                said = "gpuproof tells the workload by these what to measure, and as whom; take it out"
                raise ManifestError(f"[pod.env] {key}: {said}")
        return cls(pod["image"], str(pod.get("python", "python3")), env, patch)


@dataclass(frozen=True)
class SweepJob:
    """One Indexed Job of a sweep: `pods` pods on as many nodes of the pool.

    `only` or `exclude` are values of `kubernetes.io/hostname`; give the shorter one, the other empty.
    """

    name: str
    sweep: str
    check: str
    workload: str
    pods: int
    gpus: int
    world_size: int
    active_deadline_s: int
    params: Mapping[str, Any] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    shape: PodShape = WHOLE_NODE


@dataclass(frozen=True)
class TrainingJob:
    """Pods that are replaced when they are lost, by their `owner`, and keep their names meanwhile.

    `excluded` are values of `kubernetes.io/hostname`; `restarts` is how often a rank's pod may be replaced.
    """

    name: str
    check: str
    workload: str
    pods: int
    gpus: int
    restarts: int
    grace_s: int
    active_deadline_s: int
    params: Mapping[str, Any] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()
    shape: PodShape = WHOLE_NODE
    owner: TrainingOwner = INDEXED_JOB
    queue: Queue | None = None


@dataclass(frozen=True)
class Renderer:
    """Renders for one run in one namespace; `pool` is the label selector of the profile's scope."""

    run_id: str
    namespace: str
    pool: Mapping[str, str]
    gpu_resource: str
    pod: PodSettings
    folders: tuple[Path, ...] = (WORKLOADS,)
    """Where programs are looked for, the project's own first."""
    rdma: Rdma | None = None
    """What a pod asks for whose shape says `rdma`: all that the profile expects of a node."""
    storage: Mapping[str, Storage] = field(default_factory=dict)
    """The profile's storages by name, of which a shape names those to mount."""

    def namespace_object(self) -> dict[str, Any]:
        """The run's namespace."""
        return _render("namespace.yaml.j2", namespace=self.namespace, labels=self._labels())

    def sources(self, workload: str) -> dict[str, Any]:
        """The ConfigMap with the workload's program and every module of `workloads` that it imports."""
        files = source_files(workload, self.folders)
        return _render("sources.yaml.j2", name=sources_name(workload), labels=self._labels(), files=files)

    def claim(self, name: str) -> dict[str, Any]:
        """The claim on a storage of the profile; raises `ManifestError` where the profile has none of that name."""
        if name not in self.storage:
            raise ManifestError(f"no [storage.{name}] in the profile: there is {', '.join(self.storage) or 'none'}")
        wanted = self.storage[name]
        return _render(
            "claim.yaml.j2",
            name=claim_name(name),
            labels=self._labels(),
            access_mode=wanted.access_mode,
            storage_class=wanted.storage_class,
            size=wanted.size,
        )

    def local_queue(self, cluster_queue: str) -> dict[str, Any]:
        """By which Kueue queues the trainings of the run's namespace."""
        return _render("training_queue.yaml.j2", name=LOCAL_QUEUE, labels=self._labels(), cluster_queue=cluster_queue)

    def dataset(self, objects: bytes) -> dict[str, Any]:
        """The Secret that tells pods what to stage; `objects` is what `gpuproof.dataset.handout` made."""
        packed = base64.b64encode(objects).decode()
        return _render("dataset.yaml.j2", name=DATASET, labels=self._labels(), objects=packed)

    def sweep(self, job: SweepJob) -> dict[str, Any]:
        """The Indexed Job, with the profile's patch merged into its pod template."""
        if job.only and job.exclude:
            raise ManifestError(f"job {job.name}: only and exclude are alternatives, got both")
        labels = {**self._labels(), CHECK_LABEL: job.check, SWEEP_LABEL: job.sweep, JOB_LABEL: job.name}
        seat = KEPT_SEAT if job.shape.kept else SECOND_SEAT if job.shape.beside else ""
        labels |= {SEAT_LABEL: seat} if seat else {}
        apart = {RUN_LABEL: self.run_id} | ({SEAT_LABEL: seat} if seat else {})
        if job.shape.stays:
            # Every other pod of the run keeps off nodes where one with its label is: these must not have it.
            apart = {SWEEP_LABEL: job.sweep}
        rendered = _render(
            "sweep.yaml.j2",
            name=job.name,
            labels=labels,
            pod_labels={key: value for key, value in labels.items() if not (job.shape.stays and key == RUN_LABEL)},
            apart=apart,
            told=ORDER_ANNOTATION if job.shape.stays else "",
            run_id=self.run_id,
            check=job.check,
            pods=job.pods,
            active_deadline_s=job.active_deadline_s,
            ttl_s=TTL_AFTER_FINISHED_S,
            pool=dict(self.pool),
            node_names=list(job.only or job.exclude),
            node_operator="In" if job.only else "NotIn",
            gpu_resource=self.gpu_resource,
            gpus=job.gpus,
            containers=list(job.shape.containers),
            tempted=job.shape.tempted,
            scratch=job.shape.scratch or job.shape.dataset,
            limits=self._limits(job),
            claims=[{"name": name, "claim": claim_name(name)} for name in job.shape.claims],
            dataset=DATASET if job.shape.dataset else "",
            image=str(job.params.get("image", self.pod.image)) if job.shape.image else self.pod.image,
            python=self.pod.python,
            start=escape(_START.format(module=f"workloads.{job.workload}")),
            world_size=job.world_size,
            params=escape(json.dumps(dict(job.params), sort_keys=True, separators=(",", ":"))),
            sources=sources_name(job.workload),
        )
        template = rendered["spec"]["template"]
        if job.shape.rdma and self.rdma is not None:
            template = patch_template(template, {"spec": {}, **rdma_attachment.pod_patch(self.rdma)})
        rendered["spec"]["template"] = self._patched(template)
        return rendered

    def training(self, job: TrainingJob) -> tuple[dict[str, Any], ...]:
        """What is created for a training, as its owner `makes` it, with the profile's patch merged into its pods."""
        labels = {**self._labels(), CHECK_LABEL: job.check, JOB_LABEL: job.name}
        template = _render(
            "training_pod.yaml.j2",
            name=job.name,
            labels=labels,
            run_id=self.run_id,
            check=job.check,
            pods=job.pods,
            master=job.owner.address(job.name),
            subdomain="" if job.owner.names_pods else job.name,
            index_annotation="" if job.owner.tells_index else job.owner.index_annotation,
            grace_s=job.grace_s,
            pool=dict(self.pool),
            excluded=list(job.excluded),
            gpu_resource=self.gpu_resource,
            limits=self._limits(job),
            claims=[{"name": name, "claim": claim_name(name)} for name in job.shape.claims],
            image=self.pod.image,
            python=self.pod.python,
            start=escape(_START_WITHOUT_GC.format(module=f"workloads.{job.workload}")),
            params=escape(json.dumps(dict(job.params), sort_keys=True, separators=(",", ":"))),
            sources=sources_name(job.workload),
        )
        door = {QUEUE_LABEL: LOCAL_QUEUE} if job.queue is not None and job.queue.kind is KUEUE else {}
        rendered = _render(
            job.owner.template,
            name=job.name,
            labels=labels,
            owner_labels={**labels, **door},
            suspended=bool(door),
            queue=job.queue.name if job.queue is not None else "",
            selector={JOB_LABEL: job.name},
            pods=job.pods,
            restarts=job.restarts,
            active_deadline_s=job.active_deadline_s,
            ttl_s=TTL_AFTER_FINISHED_S,
            pod_template=self._patched(template),
        )
        return tuple(rendered[key] for key, _ in job.owner.makes)

    def gang(self, job: SweepJob, secret: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """The Secret with the run's key, the headless Service that names the pods, and the Job, for a gang.

        The Job is a sweep's whose pods find each other, the key, and their orders (an annotation) as files.
        """
        made = _render(
            "gang.yaml.j2",
            name=job.name,
            labels={**self._labels(), JOB_LABEL: job.name},
            secret=base64.b64encode(secret.encode("ascii")).decode("ascii"),
            order=ORDER_ANNOTATION,
            gang_label=GANG_LABEL,
        )
        rendered = self.sweep(job)
        rendered["spec"]["template"] = patch_template(rendered["spec"]["template"], made["template"])
        return made["secret"], made["service"], rendered

    def _limits(self, job: SweepJob | TrainingJob) -> dict[str, str]:
        limits = {self.gpu_resource: str(job.gpus)} if job.gpus else {}
        if job.shape.rdma and self.rdma is not None:
            limits |= rdma_attachment.limits(self.rdma)
        return limits

    def _patched(self, template: Mapping[str, Any]) -> dict[str, Any]:
        env = [{"name": key, "value": escape(value)} for key, value in sorted(self.pod.env.items())]
        patched = dict(template)
        if env:
            patched = patch_template(patched, {"containers": [{"name": MEASURE, "env": env}]})
        try:
            patched = patch_template(patched, self.pod.patch)
        except (PatchError, AttributeError, TypeError) as error:
            raise ManifestError(f"[pod] {error}") from error
        wrong = touched(template, patched, self.gpu_resource)
        if wrong:
            raise ManifestError(f"[pod] patch must not change {wrong}; take it out of the profile's [pod]")
        return patched

    def _labels(self) -> dict[str, str]:
        return {MANAGED_BY: "gpuproof", RUN_LABEL: self.run_id}


def check_pod_settings(
    pod: Mapping[str, Any], *, pool: Mapping[str, str] | None = None, gpu_resource: str = "nvidia.com/gpu"
) -> None:
    """Raise `ManifestError`, naming the key, for a `[pod]` that cannot be merged or touches the measurement.

    Nothing is asked of a cluster. `pool` (`[scope]`) and `gpu_resource` (`[cluster]`) are the profile's.
    """
    renderer = Renderer("check", "check", pool or {}, gpu_resource, PodSettings.from_mapping(pod))
    # Values that no patch names by chance: what equals the sweep's own would not be seen as a change.
    params, number = {"check": "pod"}, 999_983
    renderer.sweep(SweepJob("check-1", "check-1", "check", "check", 1, number, number, 1, params, only=("check",)))


def claim_name(storage: str) -> str:
    """The PersistentVolumeClaim's name for a storage of the profile, in the run's namespace."""
    return f"claim-{storage}"


def sources_name(workload: str) -> str:
    """The ConfigMap's name for a workload."""
    return "sources-" + workload.replace("_", "-")


def escape(value: str) -> str:
    """An env value that arrives as it is: Kubernetes expands $(NAME) and turns $$ into $."""
    return value.replace("$", "$$")


def source_files(workload: str, folders: Sequence[Path] = (WORKLOADS,)) -> dict[str, str]:
    """File name to text: the workload, the package's `__init__` and what they import from `workloads`, sorted."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", workload) or _find(f"{workload}.py", folders) is None:
        places = ", ".join(map(str, folders))
        raise ManifestError(f"no workload {workload!r} in {places}: expected a file {workload}.py")
    found: dict[str, str] = {}
    wanted = ["__init__", workload]
    while wanted:
        name = f"{wanted.pop()}.py"
        file = _find(name, folders)
        if name in found or file is None:
            continue
        found[name] = file.read_text(encoding="utf-8")
        wanted += _imported_modules(found[name])
    return dict(sorted(found.items()))


def _find(name: str, folders: Sequence[Path]) -> Path | None:
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def shorter_selection(pool: Collection[str], wanted: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(only, exclude) that select `wanted` out of `pool`: whichever names fewer nodes; both empty means all of it."""
    exclude = tuple(sorted(set(pool) - set(wanted)))
    return ((), exclude) if len(exclude) < len(wanted) else (tuple(sorted(wanted)), ())


def _imported_modules(text: str) -> list[str]:
    names: list[str] = []
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.ImportFrom) and node.module == "workloads":
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("workloads."):
            names.append((node.module or "").split(".")[1])
        elif isinstance(node, ast.Import):
            names += [alias.name.split(".")[1] for alias in node.names if alias.name.startswith("workloads.")]
    return names


def _render(template: str, **values: Any) -> dict[str, Any]:
    # Not HTML: the output is YAML, and every value passes through tojson, which quotes it.
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES), undefined=jinja2.StrictUndefined, autoescape=False
    )
    environment.policies["json.dumps_function"] = _json_for_yaml
    environment.policies["json.dumps_kwargs"] = {}  # not sorted: a pod's template reads as it was written
    try:
        rendered = yaml.load(environment.get_template(template).render(values), Loader=_LOADER)
    except (jinja2.TemplateError, yaml.YAMLError, TypeError) as error:
        raise ManifestError(f"manifests/{template}: {error}") from error
    if not isinstance(rendered, dict):
        raise ManifestError(f"manifests/{template}: rendered to {type(rendered).__name__}, expected an object")
    return rendered


def _json_for_yaml(value: Any, **options: Any) -> str:
    """JSON that YAML reads the same: JSON writes characters beyond 16 bits as two escapes, YAML wants one."""

    def joined(found: re.Match[str]) -> str:
        text = found.group()
        if text == "\\\\":
            return text
        character: str = json.loads(f'"{text}"')
        return f"\\U{ord(character):08x}"

    return re.sub(r"\\\\|\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}", joined, json.dumps(value, **options))
