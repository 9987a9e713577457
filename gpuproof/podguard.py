"""What of a rendered pod template a profile must not change: the measurement itself, and where its pods may run.

Compares the template before and after the profile's `[pod]`. It must not know a cluster, a verdict or how it merges.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from gpuproof.cluster import raw
from gpuproof.cluster.raw import Raw

OWN_ENV = "GPUPROOF_"
_OWN_MOUNTS = ("/gpuproof", "/dev/termination-log")
_OWN_VOLUMES = ("gpuproof-", "claim-")
_PROGRAM = ("command", "args", "terminationMessagePath", "terminationMessagePolicy")
_POD = ("nodeName", "restartPolicy")


def touched(before: Mapping[str, Any], after: Mapping[str, Any], gpu_resource: str) -> str:
    """Key and why, for the first thing that a patch must not touch and did; '' when it kept to what is allowed."""
    for key, why, old, new in _kept(before, after, gpu_resource):
        if old != new:
            return f"{key}: {why}"
    return ""


def _kept(before: Raw, after: Raw, gpu_resource: str) -> Iterator[tuple[str, str, object, object]]:
    old, new = raw.mapping(before, "spec"), raw.mapping(after, "spec")
    for name in (raw.text(entry, "name") for entry in raw.objects(old, "containers")):
        if name != "hold":
            yield from _program_kept(name, _named(old, name), _named(new, name), gpu_resource)
    for key in ("command", "args"):
        pair = (raw.at(_named(old, "hold"), key), raw.at(_named(new, "hold"), key))
        yield f"containers[hold].{key}", "this container keeps the node until the sweep is over", *pair
    for name in dict.fromkeys(name for spec in (old, new) for name in _own_volumes(spec)):
        own = [_own(spec, "volumes", lambda entry, name=name: raw.text(entry, "name") == name) for spec in (old, new)]
        yield f"volumes[{name}]", "the program, or the storage that is measured", own[0], own[1]
    yield from _placement_kept(before, after)


def _program_kept(name: str, old: Raw, new: Raw, gpu_resource: str) -> Iterator[tuple[str, str, object, object]]:
    where = f"containers[{name}]"
    for key in _PROGRAM:
        yield f"{where}.{key}", "it is the measurement", raw.at(old, key), raw.at(new, key)
    given = {raw.text(entry, "name") for entry in raw.objects(old, "env")}
    env = [
        _own(spec, "env", lambda entry: raw.text(entry, "name").startswith(OWN_ENV) or raw.text(entry, "name") in given)
        for spec in (old, new)
    ]
    why = "gpuproof tells the workload by these what to measure, and as whom"
    yield f"{where}.env {', '.join([f'{OWN_ENV}*', *_others(given)])}", why, env[0], env[1]
    mounts = [_own(spec, "volumeMounts", _is_own_mount) for spec in (old, new)]
    yield (
        f"{where}.volumeMounts {' and '.join(_OWN_MOUNTS)}",
        "the workload's program and its answer",
        mounts[0],
        mounts[1],
    )
    for kind in ("limits", "requests"):
        for resource in dict.fromkeys([gpu_resource, *raw.mapping(old, "resources", kind)]):
            why = f"[cluster] says how many {'GPUs' if resource == gpu_resource else resource} a pod gets"
            pair = [raw.at(spec, "resources", kind, resource) for spec in (old, new)]
            yield f"{where}.resources.{kind}.{resource}", why, pair[0], pair[1]


def _placement_kept(before: Raw, after: Raw) -> Iterator[tuple[str, str, object, object]]:
    labels = [raw.mapping(template, "metadata", "labels") for template in (before, after)]
    for key, value in labels[0].items():
        yield f"metadata.labels {key}", "the run finds its pods by it", value, labels[1].get(key)
    old, new = raw.mapping(before, "spec"), raw.mapping(after, "spec")
    for key, value in raw.mapping(old, "nodeSelector").items():
        why = "[scope] says which nodes are tested"
        yield f"nodeSelector {key}", why, value, raw.at(new, "nodeSelector", key)
    for kind in ("nodeAffinity", "podAntiAffinity"):
        path = ("affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution")
        yield (
            ".".join(path),
            "each node is visited once, and only those in scope",
            raw.at(old, *path),
            raw.at(new, *path),
        )
    for key in _POD:
        yield key, "gpuproof places its pods and runs each once", raw.at(old, key), raw.at(new, key)


def _named(spec: Raw, name: str) -> Raw:
    found = [entry for entry in raw.objects(spec, "containers") if raw.text(entry, "name") == name]
    return found[0] if len(found) == 1 else {}


def _others(names: set[str]) -> list[str]:
    return sorted(name for name in names if not name.startswith(OWN_ENV))


def _own_volumes(spec: Raw) -> list[str]:
    names = (raw.text(entry, "name") for entry in raw.objects(spec, "volumes"))
    return [name for name in names if name.startswith(_OWN_VOLUMES)]


def _own(spec: Raw, key: str, ours: Any) -> list[Raw]:
    return [entry for entry in raw.objects(spec, key) if ours(entry)]


def _is_own_mount(entry: Raw) -> bool:
    path = posixpath.normpath("/" + raw.text(entry, "mountPath").lstrip("/"))
    return any(
        path == own or path.startswith(own + "/") or own.startswith(path.rstrip("/") + "/") for own in _OWN_MOUNTS
    )
