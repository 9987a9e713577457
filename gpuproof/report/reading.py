"""Owns how a record's lines become a RunView, also for a torn or killed run; must not know how reports look."""

import gc
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any

from pydantic import ValidationError

from gpuproof.report.events import (
    LINES,
    AcceptancesLine,
    BaselineLine,
    CheckFacts,
    CleanupLine,
    DecisionLine,
    EvidenceLine,
    FailureLine,
    GpuTimeFacts,
    GpuTimeLine,
    InterruptedLine,
    InventoryLine,
    JobStarted,
    Line,
    MeasurementLine,
    PlannedFacts,
    PlannedLine,
    ResumedLine,
    RunFinished,
    RunStarted,
    TelemetryLine,
    VerdictLine,
    WaiverFacts,
)
from gpuproof.report.evidence import Evidence, EvidenceBudget
from gpuproof.report.load import LoadHistory
from gpuproof.report.outcome import decide_shown
from gpuproof.report.view import CheckView, Moment, RunFacts, RunView, SubjectView
from gpuproof.report.wording import duration, natural, plural, scrubbed
from gpuproof.report.words import severity

_MOST_PROBLEMS = 20
_MOST_HOLES = 5
_MOST_MOMENTS = 200

Key = tuple[str, str]


@dataclass
class Reading:
    """What the lines read so far say; filled line by line, turned into a view at the end."""

    started: RunStarted | None = None
    inventory: InventoryLine | None = None
    planned: dict[Key, PlannedFacts] = field(default_factory=dict)
    verdicts: dict[Key, VerdictLine] = field(default_factory=dict)
    failures: dict[Key, list[FailureLine]] = field(default_factory=lambda: defaultdict(list))
    evidence: dict[Key, list[Evidence]] = field(default_factory=lambda: defaultdict(list))
    measurements: dict[Key, dict[str, MeasurementLine]] = field(default_factory=lambda: defaultdict(dict))
    decision: DecisionLine | None = None
    finished: RunFinished | None = None
    timeline: list[Moment] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    last_at: datetime | None = None
    budget: EvidenceBudget = field(default_factory=EvidenceBudget)
    answered_since_resume: set[Key] = field(default_factory=set)
    plan_is_old: bool = False
    load: LoadHistory = field(default_factory=LoadHistory)
    baseline: str = ""
    acceptances: AcceptancesLine | None = None
    gpu_time: Mapping[str, GpuTimeFacts] = field(default_factory=dict)
    holes: list[str] = field(default_factory=list)
    last_seq: int = 0

    @classmethod
    def of(cls, lines: Iterable[Mapping[str, Any]]) -> "Reading":
        """Read every line; what does not fit is noted as a problem and left out."""
        reading = cls()
        collecting = gc.isenabled()
        # Millions of values that all stay: looking for garbage among them takes as long as reading them.
        gc.disable()
        try:
            for place, raw in enumerate(lines, start=1):
                reading.take(place, raw)
        finally:
            if collecting:
                gc.enable()
        return reading

    def take(self, place: int, raw: Mapping[str, Any]) -> None:
        """Read one line; `place` counts from 1 and is only for messages."""
        self._count(place, raw.get("seq"))
        name = raw.get("event")
        shape = LINES.get(name) if isinstance(name, str) else None
        if shape is None:
            self.problems.append(f"Line {place} of the record has an unknown event and is not shown.")
            return
        try:
            line = shape.model_validate(scrubbed(raw))
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            self.problems.append(f"Line {place} of the record ({name}) is not readable at {where}: {first['msg']}.")
            return
        self.last_at = line.t or self.last_at
        self._keep(line)

    def _count(self, place: int, seq: object) -> None:
        """Note what is missing before a line: the record numbers its lines from 1, also across a resume."""
        if not isinstance(seq, int) or seq <= self.last_seq:
            self.holes.append(f"line {place} is out of order")
            return
        first, last = self.last_seq + 1, seq - 1
        if first == last:
            self.holes.append(f"number {first} is missing")
        elif first < last:
            self.holes.append(f"numbers {first} to {last} are missing")
        self.last_seq = seq

    def _keep(self, line: Line) -> None:
        match line:
            case RunStarted():
                # A resumed run starts again with what holds now; when it all began stays what it was.
                self.started = line if self.started is None else line.model_copy(update={"t": self.started.t})
                self._moment(line, "run started")
            case InventoryLine():
                self.inventory = line
                self._moment(line, f"inventory read: {plural(len(line.nodes), 'node')}")
            case PlannedLine():
                if self.plan_is_old:
                    self.planned, self.plan_is_old = {}, False
                self.planned.update({(each.check, each.subject): each for each in line.subjects})
                self._moment(line, f"planned {plural(len(line.subjects), 'answer')}")
            case VerdictLine():
                self._keep_verdict(line)
            case FailureLine():
                capped = tuple(self.budget.take("status", text).text for text in line.evidence)
                self.failures[line.check, line.subject].append(line.model_copy(update={"evidence": capped}))
            case EvidenceLine():
                self.evidence[line.check, line.subject].append(self.budget.take(line.kind, line.text))
            case MeasurementLine():
                # One of each workload: what a resumed run measures again replaces what it had.
                self.measurements[line.check, line.subject][line.workload] = line
            case _:
                self._keep_course(line)

    def _keep_course(self, line: Line) -> None:
        match line:
            case JobStarted():
                pods = line.nodes if isinstance(line.nodes, int) else len(line.nodes)
                again = ", follow-up" if line.follow_up else ""
                self._moment(line, f"job {line.job} started for {line.check}: {plural(pods, 'pod')}{again}")
            case TelemetryLine():
                self.load.take(line)
            case GpuTimeLine():
                self.gpu_time = line.nodes
            case AcceptancesLine():
                self.acceptances = line
            case BaselineLine():
                self.baseline = f"run {line.run}, which was {line.decision}"
                self._moment(line, f"limits are relative to {self.baseline}")
            case _:
                self._keep_end(line)

    def _keep_end(self, line: Line) -> None:
        match line:
            case InterruptedLine():
                self._moment(line, f"interrupted by {line.signal}")
            case ResumedLine():
                # What was decided before is void: the run went on and has to decide again.
                self.decision = self.finished = None
                self.answered_since_resume.clear()
                self.plan_is_old = True
                self._moment(line, "resumed")
            case CleanupLine():
                self._moment(line, _cleanup_text(line))
                if not line.deleted:
                    self.problems.append(_cleanup_text(line))
            case DecisionLine():
                self.decision = line
                self._moment(line, f"decided {line.outcome}")
            case RunFinished():
                self.finished = line
                self._moment(line, "run finished")

    def _keep_verdict(self, line: VerdictLine) -> None:
        key = line.check, line.subject
        before = self.verdicts.get(key)
        if before is not None and key in self.answered_since_resume and before.verdict != line.verdict:
            both = f"{before.verdict} and {line.verdict}"
            self.problems.append(f"{line.check} on {line.subject} has two verdicts, {both}: the worse counts.")
            line = min(before, line, key=lambda each: severity(each.verdict))
        elif before is not None and before.verdict == line.verdict and not line.findings:
            # A resumed run repeats what was settled without its findings: they are those of the first time.
            line = before.model_copy(update={"required": line.required})
        self.answered_since_resume.add(key)
        self.verdicts[key] = line

    def _moment(self, line: Line, text: str) -> None:
        if len(self.timeline) < _MOST_MOMENTS:
            self.timeline.append(Moment(line.t, text))

    def view(self) -> RunView:
        """Return the run as far as the lines told it."""
        started = self.started or RunStarted(event="run_started")
        checks = self._checks(started)
        if self.started is None:
            self.problems.insert(0, "The record has no start: what was tested, and against what, is unknown.")
        subjects = tuple(subject for check in checks for subject in check.subjects)
        return RunView(
            run=self._facts(started),
            decision=decide_shown(self.decision, subjects, started, self.last_at, self._gaps()),
            checks=checks,
            limits={limit.id: limit for limit in started.limits},
            waivers=started.waivers,
            nodes=tuple(sorted(self.inventory.nodes, key=lambda n: natural(n.name))) if self.inventory else (),
            timeline=tuple(self.timeline),
            problems=_capped(self.problems),
            gpu_time=self.gpu_time,
            acceptances=self.acceptances,
        )

    def _gaps(self) -> tuple[str, ...]:
        """Return what is not whole about a record that was decided."""
        end = ["its last line, the end of the run, is missing"] if self.decision and not self.finished else []
        holes = [*self.holes, *end]
        return (*holes[:_MOST_HOLES], *([f"{len(holes) - _MOST_HOLES} more"] if len(holes) > _MOST_HOLES else []))

    def _facts(self, started: RunStarted) -> RunFacts:
        by = started.started_by
        cluster = started.cluster
        if self.inventory and self.inventory.server_version and not cluster.server_version:
            cluster = cluster.model_copy(update={"server_version": self.inventory.server_version})
        facts = RunFacts(
            run_id=started.run_id,
            gpuproof=started.gpuproof,
            started_by=by if isinstance(by, str) else " ".join(by),
            started_at=started.t,
            ended_at=self.last_at,
            tier=started.tier,
            expected_nodes=started.expected_nodes,
            gpus_per_node=started.gpus_per_node,
            profile=started.profile,
            cluster=cluster,
            pod_patch=started.pod_patch,
            finished=self.finished is not None,
            baseline=self.baseline,
            evidence_cut_chars=self.budget.cut_chars,
        )
        if self.finished is None:
            return replace(facts, seconds=_elapsed(started.t, self.last_at))
        done = self.finished
        return replace(facts, seconds=done.seconds, requests=done.requests, bytes_received=done.bytes_received)

    def _checks(self, started: RunStarted) -> tuple[CheckView, ...]:
        facts = {each.check: each for each in started.checks}
        keys_of: dict[str, list[Key]] = {name: [] for name in facts}
        # A measurement or failure without plan or verdict still is something that happened: it is shown, as NOT_RUN.
        for key in dict.fromkeys([*self.planned, *self.verdicts, *self.failures, *self.measurements]):
            keys_of.setdefault(key[0], []).append(key)
        return tuple(
            CheckView(
                facts=facts.get(name, CheckFacts(check=name, state="unknown")),
                subjects=tuple(self._subject(key, started) for key in sorted(keys, key=lambda k: natural(k[1]))),
                limits=tuple(limit for limit in started.limits if limit.check == name),
                load=self.load.of(name),
            )
            for name, keys in keys_of.items()
        )

    def _subject(self, key: Key, started: RunStarted) -> SubjectView:
        check, subject = key
        line, plan = self.verdicts.get(key), self.planned.get(key)
        shown = SubjectView(
            check=check,
            subject=subject,
            verdict="NOT_RUN",
            required=plan.required if plan else bool(line and line.required),
            planned=plan is not None,
            answered=line is not None,
            reasons=("No verdict was recorded: the run ended before this was judged.",),
            failures=tuple(self.failures.get(key, ())),
            evidence=tuple(self.evidence.get(key, ())),
            measurements=tuple(self.measurements.get(key, {}).values()),
            waiver=waiver_for(started.waivers, check, subject, started.t),
        )
        if line is None:
            return shown
        return replace(
            shown,
            verdict=line.verdict,
            reasons=line.reasons,
            reason_code=line.reason_code,
            blocked_by=line.blocked_by,
            findings=line.findings,
            duration_s=line.duration_s,
        )


def waiver_for(
    waivers: Iterable[WaiverFacts], check: str, subject: str, started_at: datetime | None
) -> WaiverFacts | None:
    """Return the waiver in force for this check and subject on the day of the run, or None."""
    for waiver in waivers:
        if waiver.expired or _past(waiver.expires, started_at):
            continue
        if (waiver.check, waiver.subject) == (check, subject):
            return waiver
    return None


def _past(expires: str | None, started_at: datetime | None) -> bool:
    if expires is None or started_at is None:
        return False
    try:
        return date.fromisoformat(expires[:10]) < started_at.date()
    except ValueError:
        return True


def _cleanup_text(line: CleanupLine) -> str:
    if line.deleted:
        return f"namespace {line.namespace} deleted in {duration(line.seconds)}"
    left = f"; left behind: {', '.join(line.left[:10])}" if line.left else ""
    return f"namespace {line.namespace} could not be deleted{left}. Run `gpuproof clean`."


def _elapsed(start: datetime | None, end: datetime | None) -> float | None:
    return (end - start).total_seconds() if start and end else None


def _capped(problems: list[str]) -> tuple[str, ...]:
    if len(problems) <= _MOST_PROBLEMS:
        return tuple(problems)
    return (*problems[:_MOST_PROBLEMS], f"and {len(problems) - _MOST_PROBLEMS} more problems of this kind.")
