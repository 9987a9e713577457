"""Owns the dispute packs: per failed subject what a provider needs to see, and to repeat with kubectl alone.

Must not judge, nor change what was measured: it quotes the run, and its manifests are those that the run created.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpuproof.report.advice import next_step
from gpuproof.report.events import FindingFacts
from gpuproof.report.layout import bound_text, outcome_word, provenance_text
from gpuproof.report.markdown import table, text
from gpuproof.report.quarantine import device_names
from gpuproof.report.view import CheckView, RunView, SubjectView
from gpuproof.report.wording import number, operating_point, utc, visible

FOLDER = "dispute"
MOST_PACKS = 64
"""More failures than this have few causes: the report groups them, and each reads like the ones that are here."""

NAMESPACE = "gpuproof-reproduce"
_OWNERS = ("Job", "JobSet", "TrainJob")
"""Of pods; a Volcano Job is a Job of another group."""
_RUNTIME = "TrainingRuntime"
_NEEDED = ("ConfigMap", "PersistentVolumeClaim", "Service", "LocalQueue", _RUNTIME)
_MOST_FINDINGS = 60
_MOST_EVIDENCE_CHARS = 8_000
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(frozen=True)
class Pack:
    """One failed subject's folder: file name to text."""

    name: str
    files: Mapping[str, str]


def packs(view: RunView, manifests: Iterable[Mapping[str, Any]]) -> tuple[Pack, ...]:
    """Return a pack for each of the first failed subjects; `manifests` are the objects that the run created."""
    created = list(manifests)
    failed = [s for s in view.subjects if s.verdict == "FAIL" and s.required and s.planned]
    checks = {check.name: check for check in view.checks}
    return tuple(_pack(view, checks[s.check], s, created) for s in failed[:MOST_PACKS])


def read_manifests(folder: Path) -> list[Mapping[str, Any]]:
    """Return the objects in a run's folder of manifests, in the order of creation; what is no YAML is left out."""
    found: list[Mapping[str, Any]] = []
    for path in sorted(folder.glob("*.yaml")):
        try:
            loaded = yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)
        except (OSError, ValueError, yaml.YAMLError):
            continue
        if isinstance(loaded, dict):
            found.append(loaded)
    return found


def _pack(view: RunView, check: CheckView, subject: SubjectView, created: Sequence[Mapping[str, Any]]) -> Pack:
    name = _file_name(f"{check.name}--{subject.subject}")
    hostname = next((node.hostname or node.name for node in view.nodes if node.name == subject.subject), None)
    objects = reproduction(created, check.name, hostname)
    files = {"README.md": _readme(view, check, subject, objects)}
    if objects:
        files["reproduce.yaml"] = yaml.dump_all(objects, Dumper=_DUMPER, sort_keys=False, allow_unicode=True)
    return Pack(name, files)


def reproduction(created: Sequence[Mapping[str, Any]], check: str, hostname: str | None) -> list[dict[str, Any]]:
    """
    Return a namespace, what the check's first Job mounts and finds its peers by, and that Job as the run created it, to
    be applied by kubectl; with `hostname` the Job is one pod on that node. Empty where the run created no Job for the
    check, or one that needs a Secret: what a Secret held is in no folder.
    """
    jobs = [o for o in created if o.get("kind") in _OWNERS and _labels(o).get("gpuproof.dev/check") == check]
    if not jobs:
        return []
    name = jobs[0]["metadata"]["name"]
    parts = [jobs[0], *(o for o in created if o.get("kind") == _RUNTIME and o["metadata"]["name"] == name)]
    text_of_job = yaml.dump_all(parts, Dumper=_DUMPER)
    if "secretName: " in text_of_job:
        return []
    wanted = set(re.findall(r"(?:name|claimName|subdomain): ([a-z0-9.-]+)", text_of_job))
    needed = [o for o in created if o.get("kind") in _NEEDED and (o.get("metadata") or {}).get("name") in wanted]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    return [namespace, *(_moved(each) for each in needed), _on_node(_moved(jobs[0]), hostname)]


def _labels(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    labels = (manifest.get("metadata") or {}).get("labels")
    return labels if isinstance(labels, Mapping) else {}


def _moved(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": NAMESPACE}}


def _on_node(job: dict[str, Any], hostname: str | None) -> dict[str, Any]:
    if hostname is None or "completions" not in job["spec"]:
        return job  # the pods of other owners are placed together or not at all
    spec = {**job["spec"], "completions": 1, "parallelism": 1}
    template = dict(spec["template"])
    pod = {key: value for key, value in template["spec"].items() if key != "affinity"}
    pod["nodeSelector"] = {**(pod.get("nodeSelector") or {}), "kubernetes.io/hostname": hostname}
    return {**job, "spec": {**spec, "template": {**template, "spec": pod}}}


def _readme(view: RunView, check: CheckView, subject: SubjectView, objects: Sequence[Mapping[str, Any]]) -> str:
    run = view.run
    simulated = ["", "**SIMULATED cluster: this is no evidence about any provider.**"] if view.simulated else []
    times = f"{utc(run.started_at)} to {utc(run.ended_at)}"
    devices = device_names(m.facts for s in view.subjects if s.subject == subject.subject for m in s.measurements)
    pods = [m.pod for m in subject.measurements if m.pod] + [f.pod for f in subject.failures if f.pod]
    facts = [
        ("Subject", text(subject.subject)),
        ("Devices", text(", ".join(devices) or "none reported")),
        ("Cluster", text(f"{run.cluster.name}, Kubernetes {run.cluster.server_version}")),
        ("When", times),
        ("Pods", text(", ".join(dict.fromkeys(pods)) or "none")),
        ("Run", text(f"{run.run_id}, gpuproof {run.gpuproof}")),
        ("Promised in", text(f"profile {run.profile.name}, SHA-256 {run.profile.sha256}")),
    ]
    step = next_step(subject)
    lines = [
        f"# {text(check.name)} is FAIL on {text(subject.subject)}",
        *simulated,
        "",
        text(check.facts.question or "No question was recorded."),
        "",
        *(f"- {text(reason)}" for reason in subject.reasons),
        "",
        *table(("", ""), facts),
        "",
        *_measured(view, subject),
        *_evidence(subject),
        "## Repeat it",
        "",
        *(_commands(objects) if objects else _by_gpuproof(check.name, bool(pods))),
        "",
        f"Next, {step[0]}: {text(step[1])} All of the run is in record.jsonl, two folders up.",
    ]
    return "\n".join(lines) + "\n"


def _measured(view: RunView, subject: SubjectView) -> list[str]:
    ranked = sorted(subject.findings, key=lambda f: (f.outcome != "missed", f.outcome != "not_measured"))
    if not ranked:
        return ["Nothing was measured: the cluster refused, as the reason says.", ""]
    rows = [_finding(view, finding) for finding in ranked[:_MOST_FINDINGS]]
    return [
        "## What was measured against what was promised",
        "",
        *table(("", "Metric or fact", "At", "Measured", "Promised", "Where the number comes from"), rows),
        "",
    ]


def _finding(view: RunView, finding: FindingFacts) -> tuple[str, ...]:
    limit = view.limits.get(finding.limit_id or "")
    return (
        outcome_word(finding).replace("_", " "),
        text(finding.metric or finding.limit_id or ""),
        text(operating_point(finding.at)),
        text(number(finding.observed, finding.unit)),
        text(bound_text(finding.bound)),
        text(provenance_text(limit.provenance) if limit else ""),
    )


def _evidence(subject: SubjectView) -> list[str]:
    texts = [(f"{f.reason}: {f.message}", "\n".join(f.evidence)) for f in subject.failures]
    texts += [(each.kind, each.text) for each in subject.evidence]
    lines: list[str] = []
    for title, body in texts:
        lines += [f"### {text(title)}", ""]
        if body:
            # Indented, a text is code whatever it holds: it cannot end a fence.
            lines += [f"    {line}" for line in visible(body[-_MOST_EVIDENCE_CHARS:]).split("\n")] + [""]
    return (["## Evidence", "", *lines]) if lines else []


def _commands(objects: Sequence[Mapping[str, Any]]) -> list[str]:
    owner = objects[-1]
    job, pods = str(owner["metadata"]["name"]), int(owner["spec"].get("completions") or 0)
    theirs, many = (f"job/{job}", str(pods)) if pods else (f"-l gpuproof.dev/job={job}", "same")
    message = '{.items[*].status.containerStatuses[?(@.name=="measure")].state.terminated.message}'
    several = [
        f"These are the {many} pods as the run created them; what the run did to them meanwhile is not repeated."
    ]
    return [
        "The pod measures and judges nothing: compare its numbers with the ones promised above.",
        *(several if pods != 1 else []),
        "",
        "```console",
        "$ kubectl apply -f reproduce.yaml",
        f"$ kubectl -n {NAMESPACE} logs -f --pod-running-timeout=5m {theirs} -c measure",
        f"$ kubectl -n {NAMESPACE} get pods -o jsonpath='{message}'",
        f"$ kubectl delete namespace {NAMESPACE}",
        "```",
    ]


def _by_gpuproof(check: str, seen_by_pods: bool) -> list[str]:
    if not seen_by_pods:
        return ["No pod was needed to see it: the API itself says so (`kubectl get nodes -o yaml`)."]
    return [
        "Its pods wait for orders that the run signs, or read a Secret, or are those of another check's Job: kubectl",
        "alone cannot repeat it. With the profile in ../../profile it is one command, which asks this check and what",
        "it needs to pass first:",
        "",
        "```console",
        f"$ gpuproof run --profile PROFILE --context CLUSTER --only {check}",
        "```",
    ]


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:100] or "subject"
