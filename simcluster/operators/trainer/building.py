"""The JobSet that a TrainJob becomes: its runtime's template with what the TrainJob asks for.

Owns that merging. Pure.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from simcluster.api.patches import strategic_patch
from simcluster.api.port import Object
from simcluster.api.quantities import parse
from simcluster.controllers import fields
from simcluster.operators.jobset import words as jobset_words
from simcluster.operators.trainer import words


def jobset(trainjob: Object, runtime: Object) -> Object:
    """A new JobSet of the TrainJob's name."""
    wanted, made = fields.spec(trainjob), fields.spec(runtime)
    template = made.get("template") or {}
    given = template.get("metadata") or {}
    spec = copy.deepcopy(template.get("spec") or {})
    for replicated in spec.get("replicatedJobs") or ():
        _override(replicated, wanted.get("podTemplateOverrides") or ())
        _fill(trainjob, replicated, made.get("mlPolicy"), spec.get("network") or {})
    marks = {
        name: {**(given.get(name) or {}), **(wanted.get(name) or {})}
        for name in ("labels", "annotations")
        if given.get(name) or wanted.get(name)
    }
    return {
        "apiVersion": jobset_words.API_VERSION,
        "kind": jobset_words.KIND,
        "metadata": {
            **marks,
            "name": fields.name(trainjob),
            "namespace": fields.namespace(trainjob),
            "ownerReferences": [
                {
                    "apiVersion": words.API_VERSION,
                    "kind": words.KIND,
                    "name": fields.name(trainjob),
                    "uid": fields.uid(trainjob),
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {**spec, "suspend": bool(wanted.get("suspend"))},
    }


def _override(replicated: dict[str, Any], overrides: Iterable[Mapping[str, Any]]) -> None:
    job_spec = replicated["template"]["spec"]
    for override in overrides:
        if replicated["name"] in [target["name"] for target in override["targetJobs"]]:
            change = {name: override[name] for name in ("metadata", "spec") if name in override}
            job_spec["template"] = strategic_patch(job_spec["template"], change)


def _fill(
    trainjob: Object, replicated: dict[str, Any], policy: Mapping[str, Any] | None, network: Mapping[str, Any]
) -> None:
    template, trainer = replicated["template"], fields.spec(trainjob).get("trainer") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    trains = labels.get(words.STEP) == words.TRAINER
    count = template["spec"].get("parallelism", 1)
    if trains:
        replicated["replicas"] = 1
        count = trainer.get("numNodes") or (count if policy is None else policy.get("numNodes") or 1)
    template["spec"] |= {"parallelism": count, "completions": count}
    for container in template["spec"]["template"]["spec"]["containers"]:
        if container["name"] != words.NODE:
            continue
        container |= {name: trainer[name] for name in ("image", "command", "args") if name in trainer}
        if trainer.get("resourcesPerNode"):
            container["resources"] = trainer["resourcesPerNode"]
        _set_env(container, trainer.get("env") or ())
        torch = (policy or {}).get("torch")
        if trains and torch is not None:
            subdomain = network.get("subdomain") or fields.name(trainjob)
            leader = f"{fields.name(trainjob)}-{replicated['name']}-0-0.{subdomain}"
            _set_env(container, _torch_env(count, leader, _processes(trainer, torch)))
            ports = container.setdefault("ports", [])
            if words.PORT not in [port["containerPort"] for port in ports]:
                ports.append({"containerPort": words.PORT})


def _torch_env(nodes: int, leader: str, processes: str) -> list[Object]:
    """What torchrun reads in place of its arguments."""
    return [
        {"name": "PET_NNODES", "value": str(nodes)},
        {"name": "PET_NPROC_PER_NODE", "value": processes},
        {"name": "PET_NODE_RANK", "valueFrom": {"fieldRef": {"fieldPath": words.RANK_PATH}}},
        {"name": "PET_MASTER_ADDR", "value": leader},
        {"name": "PET_MASTER_PORT", "value": str(words.PORT)},
    ]


def _processes(trainer: Mapping[str, Any], torch: Mapping[str, Any]) -> str:
    """Processes a node: as asked for; where that is left to the node and it has no GPU, one for each of its CPUs."""
    asked = str(trainer.get("numProcPerNode", torch.get("numProcPerNode", "auto")))
    resources = trainer.get("resourcesPerNode") or {}
    granted = resources.get("limits") or resources.get("requests") or {}
    if asked not in ("auto", "cpu") or "cpu" not in granted:
        return asked
    if asked == "auto" and any("gpu" in name.lower() for name in granted):
        return asked
    return str(max(1, int(parse(str(granted["cpu"])))))


def _set_env(container: dict[str, Any], variables: Iterable[Object]) -> None:
    """A variable that is there already gets its new value where it stands."""
    env: list[Object] = container.setdefault("env", [])
    for variable in variables:
        at = next((at for at, known in enumerate(env) if known["name"] == variable["name"]), None)
        if at is None:
            env.append(variable)
        else:
            env[at] = variable
    if not env:
        del container["env"]
