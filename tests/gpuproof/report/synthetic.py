"""Owns records made up for these tests: every number in them is invented, none was measured anywhere."""

import random
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

Lines = list[dict[str, Any]]

START = datetime(2026, 11, 30, 9, 0, 0, tzinfo=UTC)
CHECKS: Lines = [
    {
        "check": "gpu_inventory",
        "state": "required",
        "reason": None,
        "question": "Does the cluster have the GPUs the profile asks for, and do nodes, labels and pods agree?",
        "file": "acceptance/gpu/test_inventory.py",
        "requires": [],
    },
    {
        "check": "cuda_runtime",
        "state": "required",
        "reason": None,
        "question": "Does every GPU of every node compute, and compute correctly?",
        "file": "acceptance/gpu/test_cuda_runtime.py",
        "requires": ["gpu_inventory"],
    },
]


def limit(name: str, check: str, metric: str, bound: str, unit: str, **more: Any) -> dict[str, Any]:
    """Return one limit as a run records it."""
    provenance = {"kind": "derived", "formula": "the profile's own [cluster]", "note": "synthetic"}
    base: dict[str, Any] = {
        "id": name,
        "check": check,
        "metric": metric,
        "fact": None,
        "unit": unit,
        "at": {},
        "per": "node",
    }
    return {**base, "bound": bound, "severity": "fail", "provenance": provenance, "blocking": None, **more}


LIMITS = [
    limit("limit[0]", "gpu_inventory", "gpus_allocatable", "= 2 (gpus_per_node of the profile)", "count"),
    limit("limit[1]", "gpu_inventory", "gpus_visible", "= 2 (gpus_per_node of the profile)", "count"),
    limit("limit[2]", "cuda_runtime", "gpus_usable", "= 2 (gpus_per_node of the profile)", "count"),
    limit(
        "limit[3]",
        "cuda_runtime",
        "gemm_max_relative_error",
        "<= 1e-05",
        "1",
        at={"dtype": "float32", "n": 512},
        per="gpu",
        provenance={"kind": "published", "url": "https://example.org/gemm", "read_on": "2026-11-30", "value": 1e-5},
    ),
]


class Script:
    """Writes a record line by line on a clock of its own; `fast` seconds apart."""

    def __init__(self, step_s: float = 0.05) -> None:
        self.lines: Lines = []
        self._step = timedelta(seconds=step_s)

    def add(self, event: str, **fields: Any) -> None:
        """Append one line."""
        seq = len(self.lines) + 1
        at = (START + seq * self._step).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self.lines.append({"seq": seq, "t": at, "event": event, **fields})


def names(count: int) -> list[str]:
    """Return node names that only sort well as numbers."""
    return [f"gpu-{index}" for index in range(1, count + 1)]


def begin(script: Script, nodes: Sequence[str], gpus: int = 2, **changes: Any) -> None:
    """Append start, inventory and plan."""
    started: dict[str, Any] = {
        "schema": 1,
        "run_id": "synthetic-0001",
        "gpuproof": "0.1.0",
        "started_by": ["gpuproof", "run", "--profile", "simulated", "--cluster", "sim"],
        "profile": {"name": "simulated", "path": "thresholds/simulated.toml", "sha256": "5f" * 32},
        "cluster": {"name": "sim", "server_version": "v1.34.0", "simulated": True},
        "scope": f"all {len(nodes)} nodes of pool node-pool=sim-train, {gpus} GPUs each",
        "tier": "standard",
        "checks": CHECKS,
        "expected_nodes": len(nodes),
        "gpus_per_node": gpus,
        "limits": LIMITS,
        "waivers": [],
        "pod_patch": {"spec": {"containers": [{"name": "measure", "image": "simcluster.local/torch:2"}]}},
    }
    script.add("run_started", **{**started, **changes})
    script.add("inventory", nodes=[node(name, gpus) for name in nodes] + [control()], server_version="v1.34.0")
    planned = [{"check": c["check"], "subject": n, "required": True} for c in CHECKS for n in nodes]
    script.add("planned", subjects=planned)
    for check in CHECKS:
        script.add(
            "job_started",
            workload=check["check"],
            check=check["check"],
            job=f"gp-{check['check']}-1".replace("_", "-"),
            namespace="gpuproof-synthetic",
            nodes=len(nodes),
            follow_up=False,
        )


def node(name: str, gpus: int, **changes: Any) -> dict[str, Any]:
    """Return one node of the inventory."""
    facts = {"name": name, "in_scope": True, "ready": True, "schedulable": True, "gpu_capacity": gpus}
    labels = {"node-pool": "sim-train"}
    more = {"gpu_allocatable": gpus, "product": "SIMULATED-GPU", "driver": "570.86.10", "labels": labels}
    return {**facts, **more, "problem": None, **changes}


def control() -> dict[str, Any]:
    """Return the node without a GPU that is in no scope."""
    return node("control-plane", 0, in_scope=False, product=None, driver=None)


def finding(name: str, metric: str, observed: float | str | None, bound: str, **more: Any) -> dict[str, Any]:
    """Return one finding, met unless said otherwise."""
    text = f"{metric} is {observed}, meets {bound}"
    base: dict[str, Any] = {
        "limit_id": name,
        "metric": metric,
        "at": {},
        "unit": "count",
        "bound": bound,
        "observed": observed,
    }
    return {**base, "outcome": "met", "severity": "fail", "text": text, **more}


def measured(script: Script, check: str, subject: str, gpus: int, rng: random.Random) -> list[dict[str, Any]]:
    """Append a measurement that meets everything and return its findings."""
    want = f"= {gpus} (gpus_per_node of the profile)"
    if check == "gpu_inventory":
        samples: Lines = [
            {"metric": m, "value": gpus, "unit": "count", "at": {}} for m in ("gpus_allocatable", "gpus_visible")
        ]
        findings = [finding(f"limit[{i}]", str(s["metric"]), float(gpus), want) for i, s in enumerate(samples)]
    else:
        errors = [rng.lognormvariate(-13.5, 0.4) for _ in range(gpus)]
        points = [{"gpu": index, "dtype": "float32", "n": 512} for index in range(gpus)]
        samples = [{"metric": "gpus_usable", "value": gpus, "unit": "count", "at": {}}]
        findings = [finding("limit[2]", "gpus_usable", float(gpus), want)]
        for at, error in zip(points, errors, strict=True):
            samples.append({"metric": "gemm_max_relative_error", "value": error, "unit": "1", "at": at})
            findings.append(finding("limit[3]", "gemm_max_relative_error", error, "<= 1e-05", at=at, unit="1"))
    script.add(
        "measurement",
        check=check,
        workload=check,
        subject=subject,
        pod=f"gp-{check}-{subject}".replace("_", "-"),
        index=0,
        samples=samples,
        facts={"cuda_error": ["none"] * gpus},
        environment={"torch": "2.13.0+cpu", "python": "3.11.9"},
        timings={"scheduled_s": 0.2, "started_s": 0.9, "measured_s": 2.5},
    )
    return findings


def verdict(script: Script, check: str, subject: str, word: str, **more: Any) -> None:
    """Append one verdict."""
    base: dict[str, Any] = {"check": check, "subject": subject, "verdict": word, "required": True}
    base |= {"reason_code": None, "reasons": [], "findings": [], "blocked_by": None, "duration_s": 2.5}
    script.add("verdict", **{**base, **more})


def missed_gpu(script: Script, subject: str, gpus: int) -> None:
    """Append a node that offers one GPU less than the profile asks for, and what that blocks."""
    want = f"= {gpus} (gpus_per_node of the profile)"
    text = f"gpus_allocatable is {gpus - 1}, expected {want}"
    bad = finding("limit[0]", "gpus_allocatable", float(gpus - 1), want, outcome="missed", text=text)
    good = finding("limit[1]", "gpus_visible", float(gpus), want)
    verdict(script, "gpu_inventory", subject, "FAIL", reason_code="limit_missed", reasons=[text], findings=[good, bad])
    verdict(
        script,
        "cuda_runtime",
        subject,
        "NOT_RUN",
        reason_code="blocked",
        reasons=["not run: it needs gpu_inventory, which is FAIL here"],
        blocked_by="gpu_inventory",
        duration_s=None,
    )


def broken_image(script: Script, subject: str) -> None:
    """Append a node whose pod could not pull its image."""
    message = "The image simcluster.local/torch:2 could not be pulled: not found. Check [pod].image."
    script.add(
        "failure",
        check="cuda_runtime",
        workload="cuda_runtime",
        subject=subject,
        pod=f"gp-cuda-runtime-{subject}",
        reason="image_pull",
        message=message,
        evidence=["Failed to pull image: not found", "Back-off pulling image"],
    )
    script.add("evidence", check="cuda_runtime", subject=subject, kind="events", text="Warning Failed pull\nBackOff")
    verdict(script, "cuda_runtime", subject, "ERROR", reason_code="image_pull", reasons=[message])


def end(script: Script, outcome: str, reasons: Iterable[str], scope: str, counts: Mapping[str, int]) -> None:
    """Append clean-up, decision and end."""
    script.add("cleanup", namespace="gpuproof-synthetic", deleted=True, seconds=1.2, left=[])
    code = {"ACCEPTED": 0, "REJECTED": 1, "UNDECIDED": 3}[outcome]
    script.add(
        "decision", outcome=outcome, reasons=list(reasons), scope=scope, counts=dict(counts), waived=[], exit_code=code
    )
    script.add("run_finished", seconds=41.7, requests=18, bytes_received=123_456)


def run(
    count: int = 4,
    *,
    gpus: int = 2,
    short: Iterable[str] = (),
    unpullable: Iterable[str] = (),
    killed_after: int | None = None,
    logs_chars: int = 0,
    **started: Any,
) -> Lines:
    """Return a record: `short` nodes miss a GPU, `unpullable` ones fail to pull; cut after `killed_after` lines."""
    script, nodes, rng = Script(), names(count), random.Random(7)
    begin(script, nodes, gpus, **started)
    short, unpullable = set(short), set(unpullable)
    for name in nodes:
        if name in short:
            missed_gpu(script, name, gpus)
        else:
            found = measured(script, "gpu_inventory", name, gpus, rng)
            verdict(script, "gpu_inventory", name, "PASS", findings=found)
        if logs_chars and name in short | unpullable:
            log = (f"{name} line of a log\n" * (logs_chars // 16))[:logs_chars]
            script.add("evidence", check="gpu_inventory", subject=name, kind="log", text=log)
    for name in nodes:
        if name in unpullable:
            broken_image(script, name)
        elif name not in short:
            verdict(script, "cuda_runtime", name, "PASS", findings=measured(script, "cuda_runtime", name, gpus, rng))
    good = 2 * count - 2 * len(short) - len(unpullable)
    counts = {"PASS": good, "FAIL": len(short), "NOT_RUN": len(short), "ERROR": len(unpullable)}
    outcome = "REJECTED" if short else "UNDECIDED" if unpullable else "ACCEPTED"
    why = f"gpus_allocatable is {gpus - 1}, expected = {gpus} (gpus_per_node of the profile)"
    reasons = [f"gpu_inventory is FAIL on {_some(short)}: {why}"] if short else []
    reasons += [f"cuda_runtime is ERROR on {_some(unpullable)}: the image could not be pulled"] if unpullable else []
    end(script, outcome, reasons or [f"all {2 * count} answers are PASS"], script.lines[0]["scope"], counts)
    return script.lines if killed_after is None else script.lines[:killed_after]


def _some(names_: Iterable[str]) -> str:
    ordered = sorted(names_)
    return ", ".join(ordered[:3]) + (f" and {len(ordered) - 3} more" if len(ordered) > 3 else "")
