"""Owns the shape of the record's lines as reports read them; must not know who writes them or what a report looks like.

Reading is lenient about what is absent and strict about types: a line that does not fit is reported, never guessed.
"""

import math
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from gpuproof.report.words import Verdict

Scalar = bool | int | float | str
Value = Scalar | None


def _absent_is_empty(value: Any) -> Any:
    return () if value is None else value


def _mapping_or_empty(value: Any) -> Any:
    return {} if value is None else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_absent_is_empty)]
At = Annotated[Mapping[str, Scalar], BeforeValidator(_mapping_or_empty)]


class Facts(BaseModel):
    """A part of a line; unknown keys are ignored like those of lines."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Line(BaseModel):
    """One line of the record; keys this version does not know are ignored, so that newer records stay readable."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    seq: int = 0
    t: datetime | None = None
    event: str


class ProfileFacts(Facts):
    """Which threshold file judged the run."""

    name: str = "unknown"
    path: str = ""
    sha256: str = ""


class ClusterFacts(Facts):
    """What was tested; `simulated` unknown counts as unknown, never as real."""

    name: str = "unknown"
    uid: str = ""
    server_version: str = ""
    simulated: bool | None = None


class CheckFacts(Facts):
    """A check as the run planned it; `question` is the check's own docstring."""

    check: str
    state: str = "required"
    reason: str | None = None
    question: str = ""
    why: str = ""
    file: str = ""
    requires: Texts = ()


class LimitFacts(Facts):
    """One bound of the profile and where its number comes from; `blocking` says why it forbids ACCEPTED, if so."""

    id: str
    check: str = ""
    metric: str | None = None
    fact: str | None = None
    unit: str | None = None
    at: At = Field(default_factory=dict)
    per: str | None = None
    bound: Any = None
    severity: str = ""
    provenance: Mapping[str, Any] | str | None = None
    blocking: str | None = None
    replaced: str | None = None
    """What a site's file put this limit in the place of, and whether that made it weaker."""

    @property
    def weaker(self) -> bool:
        """Whether the site's file asks for less than what it extends."""
        return (self.replaced or "").startswith("weaker")


class WaiverFacts(Facts):
    """A miss somebody took responsibility for until a date."""

    check: str
    subject: str = "*"
    owner: str = ""
    reason: str = ""
    expires: str | None = None
    expired: bool = False


class RunStarted(Line):
    """What the run set out to do."""

    event: Literal["run_started"]
    run_id: str = "unknown"
    gpuproof: str = ""
    started_by: list[str] | str = ""
    profile: ProfileFacts = ProfileFacts()
    cluster: ClusterFacts = ClusterFacts()
    scope: str = ""
    tier: str | None = None
    checks: tuple[CheckFacts, ...] = ()
    expected_nodes: int | None = None
    gpus_per_node: int | None = None
    limits: tuple[LimitFacts, ...] = ()
    waivers: tuple[WaiverFacts, ...] = ()
    pod_patch: Any = None


class NodeFacts(Facts):
    """One node as discovered; counts are GPUs."""

    name: str
    in_scope: bool = True
    ready: bool | None = None
    schedulable: bool | None = None
    gpu_capacity: int | None = None
    gpu_allocatable: int | None = None
    product: str | None = None
    driver: str | None = None
    problem: str | None = None
    labels: Mapping[str, str] = Field(default_factory=dict, exclude=True)

    @property
    def hostname(self) -> str | None:
        """What `kubernetes.io/hostname` says, by which a pod is put on this node."""
        return self.labels.get("kubernetes.io/hostname")


class InventoryLine(Line):
    """The nodes found."""

    event: Literal["inventory"]
    nodes: tuple[NodeFacts, ...] = ()
    server_version: str | None = None


class PlannedFacts(Facts):
    """One check on one subject that has to be answered."""

    check: str
    subject: str
    required: bool = True


class PlannedLine(Line):
    """The denominator of the run."""

    event: Literal["planned"]
    subjects: tuple[PlannedFacts, ...] = ()


class BaselineLine(Line):
    """The earlier run that limits are relative to, and by limit id the number taken from it."""

    event: Literal["baseline"]
    run: str = "unknown"
    decision: str = ""
    simulated: bool | None = None
    values: Mapping[str, float] = Field(default_factory=dict)


class AcceptanceFacts(Facts):
    """The last accepted run that a node was part of before this one, and when that began."""

    run: str = ""
    at: datetime | None = None


class AcceptancesLine(Line):
    """How many earlier runs of this cluster lay beside this one, and by node the last that accepted it."""

    event: Literal["acceptances"]
    runs: int = 0
    nodes: Mapping[str, AcceptanceFacts] = Field(default_factory=dict)


class JobStarted(Line):
    """A Job was submitted; `nodes` is how many pods it asks for, or their names."""

    event: Literal["job_started"]
    workload: str = ""
    check: str = ""
    job: str = ""
    namespace: str = ""
    nodes: int | Texts = 0
    follow_up: bool | int | str | None = False


class SampleFacts(Facts):
    """One number at one operating point."""

    metric: str
    value: float | str | None
    unit: str = ""
    at: At = Field(default_factory=dict)

    @property
    def number(self) -> float:
        """The value; NaN where the record holds none, or words that are no number."""
        try:
            return math.nan if self.value is None else float(self.value)
        except ValueError:
            return math.nan


class MeasurementLine(Line):
    """What a pod reported, with the seconds each phase took."""

    event: Literal["measurement"]
    check: str = ""
    workload: str = ""
    subject: str
    pod: str | None = None
    samples: tuple[SampleFacts, ...] = ()
    facts: Mapping[str, Any] = Field(default_factory=dict)
    environment: Mapping[str, Any] = Field(default_factory=dict)
    timings: Mapping[str, float | None] = Field(default_factory=dict)


class FailureLine(Line):
    """Why a subject gave no measurement."""

    event: Literal["failure"]
    check: str = ""
    workload: str = ""
    subject: str
    pod: str | None = None
    reason: str = ""
    message: str = ""
    evidence: Texts = ()


class EvidenceLine(Line):
    """Raw text beside a subject that did not pass."""

    event: Literal["evidence"]
    check: str = ""
    subject: str
    kind: str = "log"
    text: str = ""


class FindingFacts(Facts):
    """One limit held against one measurement."""

    limit_id: str | None = None
    metric: str | None = None
    at: At = Field(default_factory=dict)
    unit: str | None = None
    bound: Value = None
    observed: Value = None
    outcome: str = "not_measured"
    severity: str = ""
    text: str = ""


class VerdictLine(Line):
    """The answer of one check on one subject."""

    event: Literal["verdict"]
    check: str
    subject: str
    verdict: Verdict
    required: bool = True
    reason_code: str | None = None
    reasons: Texts = ()
    findings: tuple[FindingFacts, ...] = ()
    blocked_by: str | None = None
    duration_s: float | None = None


class TelemetryLine(Line):
    """What the platform's own exporters told of the GPUs while `check` was running ("" for none): a row a GPU."""

    event: Literal["telemetry"]
    check: str = ""
    workload: str = ""
    columns: Texts = ()
    rows: tuple[tuple[Value, ...], ...] = ()
    errors: Mapping[str, str] = Field(default_factory=dict)


class GpuTimeFacts(Facts):
    """GPU seconds of one node over the run, by the platform's own telemetry."""

    watched_s: float = 0.0
    allocated_s: float = 0.0
    busy_s: float = 0.0
    gap_s: float = 0.0


class GpuTimeLine(Line):
    """GPU time allocated and busy, by node."""

    event: Literal["gpu_time"]
    nodes: Mapping[str, GpuTimeFacts] = Field(default_factory=dict)


class InterruptedLine(Line):
    """A signal stopped the run."""

    event: Literal["interrupted"]
    signal: str | int | None = None


class ResumedLine(Line):
    """A later process went on with this record."""

    event: Literal["resumed"]
    by: Any = None


class CleanupLine(Line):
    """What became of the run's namespace."""

    event: Literal["cleanup"]
    namespace: str = ""
    deleted: bool = False
    seconds: float | None = None
    left: Texts = ()


class DecisionLine(Line):
    """The decision of the whole run."""

    event: Literal["decision"]
    outcome: Literal["ACCEPTED", "REJECTED", "UNDECIDED"]
    reasons: Texts = ()
    scope: str = ""
    counts: Mapping[str, int] = Field(default_factory=dict)
    waived: Texts = ()
    exit_code: int | None = None


class RunFinished(Line):
    """The last line of a run that was not killed."""

    event: Literal["run_finished"]
    seconds: float | None = None
    requests: int | None = None
    bytes_received: int | None = None


LINES: Mapping[str, type[Line]] = {
    "run_started": RunStarted,
    "inventory": InventoryLine,
    "planned": PlannedLine,
    "baseline": BaselineLine,
    "acceptances": AcceptancesLine,
    "job_started": JobStarted,
    "measurement": MeasurementLine,
    "failure": FailureLine,
    "evidence": EvidenceLine,
    "verdict": VerdictLine,
    "telemetry": TelemetryLine,
    "gpu_time": GpuTimeLine,
    "interrupted": InterruptedLine,
    "resumed": ResumedLine,
    "cleanup": CleanupLine,
    "decision": DecisionLine,
    "run_finished": RunFinished,
}
