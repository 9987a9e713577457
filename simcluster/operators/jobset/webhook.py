"""What JobSet's webhooks do to a JobSet on its way in: fill in defaults, refuse what cannot work, keep what may not
change.

Owns these rules. Pure.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

from simcluster.api.port import ApiError, Object
from simcluster.api.resources import Request
from simcluster.controllers import fields
from simcluster.operators.jobset import spec, words

_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_RULE = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_LONGEST = 63
_POD_TAIL = "-abcde"
_FAILURES = (
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
)
_CHANGEABLE = (("metadata", "annotations"), ("metadata", "labels"))
_CHANGEABLE_IN_SPEC = ("nodeSelector", "tolerations", "schedulingGates")


def admit(request: Request) -> Object:
    """A JobSet with its defaults; anything else as it is. Raises ApiError 403."""
    if request.kind.name != words.RESOURCE or request.subresource:
        return request.obj
    jobset = _filled(request.obj)
    wrong = list(_wrong(jobset) if request.old is None else _changed(request.old, jobset))
    if wrong:
        text = 'admission webhook "vjobset.kb.io" denied the request: ' + "\n".join(wrong)
        raise ApiError(403, "Forbidden", text, {})
    return jobset


def _filled(jobset: Object) -> Object:
    filled = copy.deepcopy(fields.spec(jobset))
    filled.setdefault("successPolicy", {"operator": "All"})
    filled.setdefault("startupPolicy", {"startupPolicyOrder": "AnyOrder"})
    filled["network"] = {"enableDNSHostnames": True, "publishNotReadyAddresses": True, **(filled.get("network") or {})}
    for replicated in filled.get("replicatedJobs") or ():
        job_spec = replicated["template"].setdefault("spec", {})
        job_spec.setdefault("completionMode", "Indexed")
        job_spec.get("template", {}).setdefault("spec", {}).setdefault("restartPolicy", "OnFailure")
    for at, rule in enumerate((filled.get("failurePolicy") or {}).get("rules") or ()):
        rule.setdefault("name", f"failurePolicyRule{at}")
    return {**jobset, "spec": filled}


def _wrong(jobset: Object) -> Iterator[str]:
    network = fields.spec(jobset)["network"]
    if network.get("subdomain"):
        yield from _not_a_label(network["subdomain"], "spec.network.subdomain")
    names: list[str] = []
    for replicated in spec.replicated_jobs(jobset):
        yield from _wrong_names(jobset, replicated)
        for dependency in replicated.get("dependsOn") or ():
            if dependency["name"] not in names:
                yield f"replicatedJob {replicated['name']} cannot depend on replicatedJob {dependency['name']}"
        names.append(replicated["name"])
    if spec.in_order(jobset) and any("dependsOn" in each for each in spec.replicated_jobs(jobset)):
        yield "StartupPolicy and DependsOn APIs are mutually exclusive"
    for target in fields.spec(jobset)["successPolicy"].get("targetReplicatedJobs") or ():
        if target not in names:
            yield f"successPolicy: no replicatedJob {target!r} in spec.replicatedJobs"
    yield from _wrong_rules((fields.spec(jobset).get("failurePolicy") or {}).get("rules") or [], names)
    yield from _wrong_coordinator(jobset)


def _wrong_names(jobset: Object, replicated: dict[str, Any]) -> Iterator[str]:
    yield from _not_a_label(replicated.get("groupName", "default"), "groupName")
    longest = spec.job_name(jobset, replicated, spec.replicas(replicated) - 1)
    yield from _not_a_label(longest, "JobSet name: names of its Jobs")
    completions = replicated["template"]["spec"].get("completions")
    if completions is not None:
        yield from _not_a_label(f"{longest}-{completions - 1}{_POD_TAIL}", "JobSet name: names of its pods")


def _not_a_label(text: str, what: str) -> Iterator[str]:
    if len(text) > _LONGEST:
        yield f"{what}: {text!r} is too long, must be no more than {_LONGEST} characters"
    if not _LABEL.fullmatch(text):
        yield f"{what}: {text!r} is no DNS-1035 label"


def _wrong_rules(rules: list[dict[str, Any]], names: list[str]) -> Iterator[str]:
    given = [rule["name"] for rule in rules]
    for rule in rules:
        if not _RULE.fullmatch(rule["name"]):
            yield f"failurePolicy: invalid rule name {rule['name']!r}"
        if given.count(rule["name"]) > 1:
            yield f"failurePolicy: rule names are not unique: {rule['name']!r}"
        for target in rule.get("targetReplicatedJobs") or ():
            if target not in names:
                yield f"failurePolicy: no replicatedJob {target!r} in spec.replicatedJobs"
        for reason in rule.get("onJobFailureReasons") or ():
            if reason not in _FAILURES:
                yield f"failurePolicy: {reason!r} is not a recognized job failure reason"


def _wrong_coordinator(jobset: Object) -> Iterator[str]:
    leader = fields.spec(jobset).get("coordinator")
    if not leader:
        return
    by_name = {each["name"]: each for each in spec.replicated_jobs(jobset)}
    replicated = by_name.get(leader["replicatedJob"])
    if replicated is None:
        yield f"coordinator replicatedJob {leader['replicatedJob']} does not exist"
        return
    if not 0 <= leader.get("jobIndex", 0) < spec.replicas(replicated):
        yield f"coordinator job index {leader.get('jobIndex', 0)} is invalid for replicatedJob {replicated['name']}"
    if not 0 <= leader.get("podIndex", 0) < int(replicated["template"]["spec"].get("completions") or 1):
        yield f"coordinator pod index {leader.get('podIndex', 0)} is invalid for replicatedJob {replicated['name']}"


def _changed(old: Object, new: Object) -> Iterator[str]:
    before, after = copy.deepcopy(spec.replicated_jobs(old)), copy.deepcopy(spec.replicated_jobs(new))
    if spec.suspended(old) or spec.suspended(new):
        # Where and with which marks its pods run is decided while a JobSet is suspended, by what queues it.
        for replicated in (*before, *after):
            _forget_placing(replicated)
    if before != after:
        yield "spec.replicatedJobs: Invalid value: field is immutable"
    if fields.spec(old).get("managedBy") != fields.spec(new).get("managedBy"):
        yield "spec.managedBy: Invalid value: field is immutable"


def _forget_placing(replicated: dict[str, Any]) -> None:
    pod = replicated["template"]["spec"].get("template") or {}
    for part, name in _CHANGEABLE:
        (pod.get(part) or {}).pop(name, None)
    if not pod.get("metadata"):
        pod.pop("metadata", None)
    for name in _CHANGEABLE_IN_SPEC:
        (pod.get("spec") or {}).pop(name, None)
