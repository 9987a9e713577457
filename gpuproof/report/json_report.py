"""Owns report.json: the run for programs, in a versioned shape; must not know how anything is worded for people.

Reading it: `decision.outcome` is the answer; `schema_version` changes its first number when a field changes its meaning
or goes away. NaN and infinite numbers are the strings "NaN", "Infinity" and "-Infinity", since JSON has none.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from gpuproof.report.events import (
    AcceptanceFacts,
    CheckFacts,
    ClusterFacts,
    FindingFacts,
    LimitFacts,
    NodeFacts,
    ProfileFacts,
    WaiverFacts,
)
from gpuproof.report.view import RunView, SubjectView
from gpuproof.report.wording import as_utc
from gpuproof.report.words import Decision, Verdict

SCHEMA_VERSION: Literal["1.2"] = "1.2"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")


class DecisionPart(_Part):
    """The decision; `recorded` is false where the run left none and UNDECIDED is shown for it."""

    outcome: Decision
    exit_code: int
    recorded: bool
    scope: str
    reasons: tuple[str, ...]
    waived: tuple[str, ...]


class RunPart(_Part):
    """The run; times are RFC 3339 in UTC, `seconds` its length, `bytes_received` from the API server."""

    run_id: str
    gpuproof: str
    started_by: str
    started_at: str | None
    ended_at: str | None
    seconds: float | None
    finished: bool
    tier: str | None
    requests: int | None
    bytes_received: int | None
    expected_nodes: int | None
    gpus_per_node: int | None


class FailurePart(_Part):
    """Why there is no measurement."""

    reason: str
    message: str
    pod: str | None
    evidence: tuple[str, ...]


class EvidencePart(_Part):
    """Raw text, head and tail of it where `cut_chars` is not 0."""

    kind: str
    text: str
    cut_chars: int


class MeasurementPart(_Part):
    """What one workload reported beside its samples, which the findings hold; `timings` in seconds."""

    workload: str
    pod: str | None
    facts: Mapping[str, Any]
    environment: Mapping[str, Any]
    timings: Mapping[str, float | None]


class SubjectPart(_Part):
    """One check on one subject; `answered` is false where the record has no verdict for it."""

    check: str
    subject: str
    verdict: Verdict
    required: bool
    planned: bool
    answered: bool
    waived_by: str | None
    reason_code: str | None
    reasons: tuple[str, ...]
    blocked_by: str | None
    duration_s: float | None
    findings: tuple[FindingFacts, ...]
    failures: tuple[FailurePart, ...]
    evidence: tuple[EvidencePart, ...]
    measurements: tuple[MeasurementPart, ...]


class AcceptancesPart(_Part):
    """How many earlier runs of this cluster lay beside this one, and by node the last of them that accepted it."""

    runs: int
    nodes: Mapping[str, AcceptanceFacts]


class ReportDocument(_Part):
    """The whole of report.json."""

    schema_version: Literal["1.2"]
    simulated: bool | None
    decision: DecisionPart
    counts: Mapping[Verdict, int]
    run: RunPart
    profile: ProfileFacts
    cluster: ClusterFacts
    pod_patch: Any
    blocking_limits: tuple[str, ...]
    waivers: tuple[WaiverFacts, ...]
    problems: tuple[str, ...]
    checks: tuple[CheckFacts, ...]
    subjects: tuple[SubjectPart, ...]
    limits: tuple[LimitFacts, ...]
    nodes: tuple[NodeFacts, ...]
    acceptances: AcceptancesPart | None


def render_json(view: RunView) -> str:
    """Return report.json: keys in the order of the models above, subjects in the order of the page."""
    return document(view).model_dump_json(indent=1) + "\n"


def render_schema() -> str:
    """Return the JSON Schema of report.json."""
    return json.dumps(ReportDocument.model_json_schema(mode="serialization"), indent=2) + "\n"


def document(view: RunView) -> ReportDocument:
    """Return the run as the document that report.json holds."""
    decision, before = view.decision, view.acceptances
    return ReportDocument(
        schema_version=SCHEMA_VERSION,
        simulated=view.run.cluster.simulated,
        decision=DecisionPart(
            outcome=decision.outcome,
            exit_code=decision.exit_code,
            recorded=decision.recorded,
            scope=decision.scope,
            reasons=decision.reasons,
            waived=decision.waived,
        ),
        counts=view.counts,
        run=_run(view),
        profile=view.run.profile,
        cluster=view.run.cluster,
        pod_patch=view.run.pod_patch,
        blocking_limits=tuple(limit.id for limit in view.blocking_limits),
        waivers=view.waivers,
        problems=view.problems,
        checks=tuple(check.facts for check in view.checks),
        subjects=tuple(_subject(subject) for subject in view.subjects),
        limits=tuple(view.limits.values()),
        nodes=view.nodes,
        acceptances=AcceptancesPart(runs=before.runs, nodes=before.nodes) if before else None,
    )


def _run(view: RunView) -> RunPart:
    run = view.run
    return RunPart(
        run_id=run.run_id,
        gpuproof=run.gpuproof,
        started_by=run.started_by,
        started_at=as_utc(run.started_at).isoformat() if run.started_at else None,
        ended_at=as_utc(run.ended_at).isoformat() if run.ended_at else None,
        seconds=run.seconds,
        finished=run.finished,
        tier=run.tier,
        requests=run.requests,
        bytes_received=run.bytes_received,
        expected_nodes=run.expected_nodes,
        gpus_per_node=run.gpus_per_node,
    )


def _subject(subject: SubjectView) -> SubjectPart:
    return SubjectPart(
        check=subject.check,
        subject=subject.subject,
        verdict=subject.verdict,
        required=subject.required,
        planned=subject.planned,
        answered=subject.answered,
        waived_by=subject.waiver.owner if subject.waiver else None,
        reason_code=subject.reason_code,
        reasons=subject.reasons,
        blocked_by=subject.blocked_by,
        duration_s=subject.duration_s,
        findings=subject.findings,
        failures=tuple(
            FailurePart(reason=f.reason, message=f.message, pod=f.pod, evidence=f.evidence) for f in subject.failures
        ),
        evidence=tuple(EvidencePart(kind=e.kind, text=e.text, cut_chars=e.cut_chars) for e in subject.evidence),
        measurements=tuple(
            MeasurementPart(workload=m.workload, pod=m.pod, facts=m.facts, environment=m.environment, timings=m.timings)
            for m in subject.measurements
        ),
    )
