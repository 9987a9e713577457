"""Owns the values every report is made of; must not know how any report looks, nor files, cluster or pytest."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from gpuproof.report.events import (
    AcceptancesLine,
    CheckFacts,
    ClusterFacts,
    FailureLine,
    FindingFacts,
    GpuTimeFacts,
    LimitFacts,
    MeasurementLine,
    NodeFacts,
    ProfileFacts,
    WaiverFacts,
)
from gpuproof.report.evidence import Evidence
from gpuproof.report.load import LoadMoment
from gpuproof.report.words import VERDICTS, Decision, Verdict


@dataclass(frozen=True)
class SubjectView:
    """One check on one subject: its verdict and everything known about why.

    `planned` is False for a verdict nobody asked for, which never counts. `answered` is False where the record has no
    verdict: the subject is then shown as NOT_RUN.
    """

    check: str
    subject: str
    verdict: Verdict
    required: bool
    planned: bool
    answered: bool
    reasons: tuple[str, ...] = ()
    reason_code: str | None = None
    blocked_by: str | None = None
    findings: tuple[FindingFacts, ...] = ()
    failures: tuple[FailureLine, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    measurements: tuple[MeasurementLine, ...] = ()
    duration_s: float | None = None
    waiver: WaiverFacts | None = None

    @property
    def passed(self) -> bool:
        """Whether nothing about this subject needs a look."""
        return self.verdict in ("PASS", "NOT_APPLICABLE", "RECORDED")

    @property
    def anchor(self) -> str:
        """The fragment of this subject's place in report.html: letters, digits and dashes only."""
        return f"s-{_slug(self.check)}--{_slug(self.subject)}"


@dataclass(frozen=True)
class CheckView:
    """One check with its subjects in natural order of their names."""

    facts: CheckFacts
    subjects: tuple[SubjectView, ...]
    limits: tuple[LimitFacts, ...]
    load: tuple[LoadMoment, ...] = ()
    """What the platform's telemetry told while it ran."""

    @property
    def name(self) -> str:
        """The check's name, `gpu_inventory`."""
        return self.facts.check

    @property
    def anchor(self) -> str:
        """The fragment of this check's section."""
        return f"c-{_slug(self.name)}"

    @cached_property
    def counts(self) -> dict[Verdict, int]:
        """How many subjects have each verdict, worst verdict first, absent verdicts left out."""
        return count_verdicts(self.subjects)


@dataclass(frozen=True)
class DecisionView:
    """The decision as shown; `recorded` is False where the record holds none and the run is therefore UNDECIDED."""

    outcome: Decision
    reasons: tuple[str, ...]
    scope: str
    waived: tuple[str, ...] = ()
    recorded: bool = True
    exit_code: int = 3


@dataclass(frozen=True)
class Moment:
    """One entry of the run's timeline."""

    at: datetime | None
    text: str


@dataclass(frozen=True)
class RunFacts:
    """What the run was: who started it, against what, and what it cost the API server."""

    run_id: str = "unknown"
    gpuproof: str = ""
    started_by: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    seconds: float | None = None
    requests: int | None = None
    bytes_received: int | None = None
    tier: str | None = None
    expected_nodes: int | None = None
    gpus_per_node: int | None = None
    profile: ProfileFacts = field(default_factory=ProfileFacts)
    cluster: ClusterFacts = field(default_factory=ClusterFacts)
    pod_patch: Any = None
    finished: bool = False
    baseline: str = ""
    """The earlier run that limits are relative to, in words; empty where there is none."""
    evidence_cut_chars: int = 0


@dataclass(frozen=True)
class RunView:
    """A whole run, complete or torn, ready to be shown."""

    run: RunFacts
    decision: DecisionView
    checks: tuple[CheckView, ...]
    limits: Mapping[str, LimitFacts]
    waivers: tuple[WaiverFacts, ...]
    nodes: tuple[NodeFacts, ...]
    timeline: tuple[Moment, ...]
    problems: tuple[str, ...] = field(default=())
    gpu_time: Mapping[str, GpuTimeFacts] = field(default_factory=dict)
    acceptances: AcceptancesLine | None = None
    """What earlier runs accepted; None where the record does not say."""

    @classmethod
    def from_record(cls, lines: Iterable[Mapping[str, Any]]) -> "RunView":
        """Build the view from the record's lines in their order; never raises for a torn, killed or half-written run.

        A record without a decision is UNDECIDED, whatever its verdicts say.
        """
        from gpuproof.report.reading import Reading  # noqa: PLC0415 - reading builds these values, so it imports them

        return Reading.of(lines).view()

    @cached_property
    def subjects(self) -> tuple[SubjectView, ...]:
        """Every check on every subject."""
        return tuple(subject for check in self.checks for subject in check.subjects)

    @cached_property
    def counts(self) -> dict[Verdict, int]:
        """How many planned subjects have each verdict, worst first, absent verdicts left out."""
        return count_verdicts(subject for subject in self.subjects if subject.planned)

    @cached_property
    def blocking_limits(self) -> tuple[LimitFacts, ...]:
        """The limits whose provenance forbids ACCEPTED."""
        return tuple(limit for limit in self.limits.values() if limit.blocking)

    @property
    def simulated(self) -> bool:
        """Whether the run says it tested a simulated cluster."""
        return self.run.cluster.simulated is True

    def find(self, check: str, subject: str) -> SubjectView | None:
        """Return one subject of one check, or None."""
        return self._index.get((check, subject))

    @cached_property
    def _index(self) -> dict[tuple[str, str], SubjectView]:
        return {(subject.check, subject.subject): subject for subject in self.subjects}


def count_verdicts(subjects: Iterable[SubjectView]) -> dict[Verdict, int]:
    """Return the verdict counts, worst verdict first, absent verdicts left out."""
    counts = Counter(subject.verdict for subject in subjects)
    return {verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]}


def _slug(name: str) -> str:
    # Two hostile names may share a slug; an anchor that leads to the wrong row is harmless, raw text in it is not.
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in name)[:80]
