"""One acceptance run from the first look at the cluster to the decision: joins everything, judges nothing.

It must not know pytest; the plugin and the command line drive it.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuproof import __version__, describe
from gpuproof.catalogue import Check
from gpuproof.cluster.port import NODES, PODS, Cluster, ClusterError
from gpuproof.conclusion import conclude
from gpuproof.decision import Decision, VerdictLine, decide, exit_code
from gpuproof.expectation import CoverShare, State
from gpuproof.failure import JobFailure, Reason
from gpuproof.finding import Context
from gpuproof.fleet import fleet_medians, seen_values
from gpuproof.inventory import Inventory, Node, gpus_in_use, read_inventory
from gpuproof.jobs import NotVisited, OnResult, RunNamespace, StartedJob, Sweeper, SweepRequest, Visited
from gpuproof.manifests import PodSettings, Renderer
from gpuproof.observation import observe_cluster, observe_node
from gpuproof.plan import Plan, judge_coverage, make_plan, scope_labels
from gpuproof.profile import Profile
from gpuproof.record import Recorder
from gpuproof.suite import Answer, ClusterSubject, NodeSubject, Subject
from gpuproof.sweeps import Sweep
from gpuproof.verdict import BLOCKED, Judgement, Verdict, blocked
from workloads.contract import Measurement

SWEEP_END_WITHIN_S = 30.0
CLEANUP_WITHIN_S = 120.0


@dataclass(frozen=True)
class Setting:
    """What a run is made with, before the cluster is asked anything."""

    run_id: str
    profile: Profile
    checks: tuple[Check, ...]
    argv: tuple[str, ...]
    simulated: bool
    narrowed: str | None = None
    """How the command line cut the run down (one check, one node), in words; None for the whole."""
    earlier: Mapping[tuple[str, str], VerdictLine] = field(default_factory=dict)
    """Verdicts of a run that is being resumed; what they settled is not asked again."""
    measured: Mapping[tuple[str, str], tuple[Measurement, ...]] = field(default_factory=dict)
    """What that run measured: the others are compared with what it settled."""


class Run:
    """A run in progress. Create it, `open` it, ask and judge, and always `close` it."""

    def __init__(self, setting: Setting, cluster: Cluster, recorder: Recorder) -> None:
        self.setting = setting
        self.cluster = cluster
        self.record = recorder
        self.stop = threading.Event()
        self.judged: dict[tuple[str, str], VerdictLine] = dict(setting.earlier)
        self._held: dict[tuple[str, str], Judgement] = {}
        self.decision: Decision | None = None
        self._began = time.monotonic()
        self._late = False
        self._alarm = threading.Timer(setting.profile.deadlines.run_s, self._out_of_time)
        self._alarm.daemon = True
        self._sweeps: dict[tuple[str, str], Sweep] = {}
        self._namespace: RunNamespace | None = None
        self._renderer = renderer(setting)
        self._one_sweep = threading.Lock()
        self._sweeper: Sweeper | None = None
        self._running: SweepRequest | None = None
        self._inventory = Inventory({})
        self._nodes: dict[str, Node] = {}
        self.plan = Plan((), (), 0)

    # -- the beginning -------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Look at the cluster, plan, and write both down; raises `ClusterError`."""
        profile = self.setting.profile
        self._alarm.start()
        version = self.cluster.server_version()
        listing = self.cluster.list_objects(NODES)
        inventory = read_inventory(
            listing.items, gpu_resource=profile.cluster.gpu_resource, resource_version=listing.resource_version
        )
        self._inventory = inventory
        busy = self._busy()
        self._nodes = {n.name: n for n in inventory.in_pool(scope_labels(profile)) if n.name not in busy}
        self.plan = make_plan(self.setting.checks, profile, list(self._nodes))
        self._write_start(inventory, version)

    def _busy(self) -> Mapping[str, int]:
        """Nodes whose GPUs others hold: a scope that covers a share of the pool asks the idle ones only."""
        profile = self.setting.profile
        if not isinstance(profile.scope.cover, CoverShare):
            return {}
        pods = self.cluster.list_objects(PODS, field_selector="status.phase!=Succeeded,status.phase!=Failed")
        return gpus_in_use(pods.items, gpu_resource=profile.cluster.gpu_resource)

    def _out_of_time(self) -> None:
        self._late = True
        self.stop.set()

    def _write_start(self, inventory: Inventory, version: str) -> None:
        profile = self.setting.profile
        self.record.append(
            "run_started",
            schema=1,
            run_id=self.setting.run_id,
            gpuproof=__version__,
            started_by=list(self.setting.argv),
            profile={"name": profile.name, "path": str(profile.path), "sha256": profile.sha256},
            cluster={
                "name": self.cluster.name,
                "server_version": version,
                "simulated": self.setting.simulated or "simcluster" in version,
            },
            scope=judge_coverage(self.plan, profile, {}, today=today()).text,
            tier="standard",
            checks=[describe.check(check, profile) for check in self.setting.checks],
            expected_nodes=self.plan.expected_nodes,
            gpus_per_node=profile.cluster.gpus_per_node,
            limits=[describe.limit(limit, profile, profile.limit_block(limit, today())) for limit in profile.limits],
            waivers=[describe.waiver(waiver, today()) for waiver in profile.waivers],
            pod_patch=describe.plain(profile.pod),
        )
        nodes = [describe.node(node, in_scope=node.name in self._nodes) for node in inventory.nodes.values()]
        self.record.append("inventory", nodes=nodes, server_version=version)
        self.record.append("planned", subjects=[describe.planned(subject) for subject in self.plan.subjects])

    # -- asking --------------------------------------------------------------------------------------------------------

    def settled(self, check: str, subject: str) -> Judgement | None:
        """A verdict that needs no question: not applicable by the profile, blocked by a prerequisite, or resumed."""
        state = self.setting.profile.checks[check]
        if state.state is State.NOT_APPLICABLE:
            return Judgement(Verdict.NOT_APPLICABLE, reasons=(state.reason,))
        if (check, subject) in self.setting.earlier:
            line = self.setting.earlier[check, subject]
            return Judgement(line.verdict, reasons=line.reasons)
        blocker, verdict = self._blocker(check, subject)
        return None if blocker is None or verdict is None else blocked(blocker, verdict)

    def _blocker(self, check: str, subject: str) -> tuple[str | None, Verdict | None]:
        """The first required prerequisite that was judged on this subject and did not pass, with its verdict."""
        for needed in self._prerequisites(check):
            line = self.judged.get((needed, subject))
            if line is not None and line.verdict is not Verdict.PASS:
                return needed, line.verdict
        return None, None

    def _prerequisites(self, check: str) -> Iterator[str]:
        """What the profile requires of all that the check needs, also by way of what it does not require."""
        for needed in self._check(check).requires:
            if self.setting.profile.required(needed):
                yield needed
            else:
                yield from self._prerequisites(needed)

    def observe(self, subject: Subject) -> Answer:
        """What the API says of the subject."""
        if isinstance(subject, ClusterSubject):
            return observe_cluster(list(self._nodes.values()), self.setting.run_id)
        if subject.missing:
            return self._missing(subject)
        return observe_node(self._nodes[subject.name], self.setting.run_id, self.setting.profile.cluster.gpu_resource)

    def ask(self, check: str, workload: str, subject: NodeSubject) -> Answer:
        """Run the workload once over every node of the check that can be asked; wait for this subject's answer."""
        if subject.missing:
            return self._missing(subject)
        sweep = self._sweeps.get((check, workload)) or self._start_sweep(check, workload)
        if self._compares_with_fleet(check):
            sweep.wait()
        return sweep.answer(subject.name)

    def _missing(self, subject: NodeSubject) -> JobFailure:
        return JobFailure(
            Reason.NODE_MISSING,
            f"{subject.name}: the profile expects {self.plan.expected_nodes} nodes in its pool, the cluster has "
            f"{len(self._nodes)}; add the missing nodes (or their pool label), or correct [cluster] nodes",
        )

    def _check(self, name: str) -> Check:
        return next(check for check in self.setting.checks if check.name == name)

    def _compares_with_fleet(self, check: str) -> bool:
        return any(limit.compares_subjects for limit in self.setting.profile.limits_for(check))

    def _start_sweep(self, check: str, workload: str) -> Sweep:
        profile = self.setting.profile
        names = [subject.name for subject in self.plan.nodes if not subject.missing]
        request = SweepRequest(
            check=check,
            workload=workload,
            params={**profile.workloads.get(check, {}), "device": profile.cluster.device},
            candidates=tuple(name for name in names if self.settled(check, name) is None),
            gpus_per_pod=profile.cluster.gpus_per_node,
            deadlines=profile.deadlines,
        )
        sweep = Sweep(request)
        sweep.start(self._sweep, self.stop, lambda result: self._took(check, workload, result), _explain)
        self._sweeps[check, workload] = sweep
        return sweep

    def _sweep(self, request: SweepRequest, on_result: OnResult, stop: threading.Event) -> None:
        """Run one sweep after another, in the run's namespace, which the first one makes."""
        with self._one_sweep:
            if self._sweeper is None:
                self._namespace = RunNamespace(self.cluster, self._renderer.namespace_object())
                self._namespace.create()
                self._sweeper = Sweeper(self.cluster, self._renderer, self._inventory, on_job=self._job_started)
            self._running = request
            summary = self._sweeper.run(request, on_result, stop)
        for node, log in summary.logs.items():
            self.record.append("evidence", subject=node, check=request.check, kind="log", text=log)

    def _job_started(self, job: StartedJob) -> None:
        self.record.append(
            "job_started",
            workload=self._running.workload if self._running else "",
            check=self._running.check if self._running else "",
            job=job.name,
            namespace=self._renderer.namespace,
            nodes=list(job.nodes),
            follow_up=job.follow_up,
        )

    def _took(self, check: str, workload: str, result: Visited | NotVisited) -> None:
        if isinstance(result, NotVisited):
            self._record_failure(check, workload, result.node, result.pod, result.failure)
            return
        self.record.append(
            "measurement",
            check=check,
            workload=workload,
            subject=result.node,
            pod=result.pod,
            index=result.index,
            samples=describe.samples(result.measurement),
            facts=dict(result.measurement.facts),
            environment=dict(result.measurement.environment),
            timings=describe.plain(result.timings),
        )

    def _record_failure(self, check: str, workload: str, subject: str, pod: str | None, failure: JobFailure) -> None:
        self.record.append(
            "failure",
            check=check,
            workload=workload,
            subject=subject,
            pod=pod,
            reason=str(failure.reason),
            message=failure.message,
            evidence=list(failure.evidence),
        )

    # -- judging -------------------------------------------------------------------------------------------------------

    def judge(self, check: str, subject: str, answers: Sequence[Answer], began: float) -> Judgement:
        """Hold the answers against the profile and write the verdict down; a second verdict is never a better one."""
        judgement = conclude(
            check, subject, answers, self.setting.profile.limits_for(check), self._context(check, subject)
        )
        if (check, subject) in self._held:
            text = f"{check} held answers for {subject} twice; a check holds once, with everything it has"
            worse = max(judgement, self._held[check, subject], key=lambda j: j.verdict is Verdict.FAIL)
            judgement = replace(worse, reasons=(*worse.reasons, text))
            if judgement.verdict is not Verdict.FAIL:
                judgement = replace(judgement, verdict=Verdict.ERROR, reason_code=str(Reason.HARNESS_ERROR))
        self._held[check, subject] = judgement
        self.settle(check, subject, judgement, time.monotonic() - began)
        return judgement

    def settle(self, check: str, subject: str, judgement: Judgement, duration_s: float = 0.0) -> None:
        """Write a verdict down, however it came about."""
        required = self.setting.profile.checks[check].state is State.REQUIRED
        blocker = self._blocker(check, subject)[0] if judgement.reason_code == BLOCKED else None
        line = VerdictLine.of(check, subject, judgement, blocker)
        if not line.held and (check, subject) in self.setting.earlier:
            line = replace(line, held=self.setting.earlier[check, subject].held)
        self.judged[check, subject] = line
        self.record.append(
            "verdict",
            check=check,
            subject=subject,
            verdict=str(judgement.verdict),
            required=required,
            reason_code=judgement.reason_code,
            reasons=list(judgement.reasons),
            findings=[describe.finding(finding) for finding in judgement.findings],
            blocked_by=blocker,
            duration_s=round(duration_s, 3),
        )

    def _context(self, check: str, subject: str) -> Context:
        limits, fleet = self.setting.profile.limits_for(check), self._fleet(check)
        return Context(
            self.setting.profile.cluster,
            fleet=fleet_medians(limits, fleet, subject, self.plan.expected_nodes),
            seen=seen_values(limits, fleet),
        )

    def _fleet(self, check: str) -> dict[str, list[Measurement]]:
        """All that was measured for the check, by subject: now, or by the resumed run where that settled it."""
        settled = self.setting.earlier.keys() & self.setting.measured.keys()
        fleet = {subject: list(self.setting.measured[name, subject]) for name, subject in settled if name == check}
        for (name, _), sweep in self._sweeps.items():
            for subject, answer in sweep.answers.items() if name == check else ():
                if isinstance(answer, Measurement):
                    fleet.setdefault(subject, []).append(answer)
        return fleet

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self, interrupted: str | None = None) -> Decision:
        """Stop work, tidy up, decide. Never raises for what the cluster does: what is left behind is written down."""
        self._alarm.cancel()
        self.stop.set()
        if self._late and not interrupted:
            interrupted = f"the run's deadline of {self.setting.profile.deadlines.run_s:g} s"
        if interrupted:
            self.record.append("interrupted", signal=interrupted)
        for sweep in self._sweeps.values():
            sweep.join(SWEEP_END_WITHIN_S)
        self._tidy()
        self._fill_gaps(interrupted)
        profile = self.setting.profile
        self.decision = decide(
            self.plan.subjects,
            self.judged,
            interrupted=interrupted is not None,
            blocking_provenance=profile.blocking_provenance(today()),
            waivers=profile.waivers,
            today=today(),
            scope=judge_coverage(self.plan, profile, self.judged, today=today(), narrowed=self.setting.narrowed),
            limits=profile.limits,
        )
        self._write_end(self.decision)
        return self.decision

    def _tidy(self) -> None:
        if self._namespace is None:
            return
        done = self._namespace.delete(CLEANUP_WITHIN_S)
        self.record.append(
            "cleanup",
            namespace=done.namespace,
            deleted=done.deleted,
            seconds=round(done.seconds, 3),
            left=list(done.left),
        )

    def _fill_gaps(self, interrupted: str | None) -> None:
        reason = f"not reached: the run was interrupted ({interrupted})" if interrupted else "not selected for this run"
        for subject in self.plan.subjects:
            if (subject.check, subject.subject) not in self.judged:
                code = str(Reason.INTERRUPTED) if interrupted else "not_selected"
                gap = Judgement(Verdict.NOT_RUN, reasons=(reason,), reason_code=code)
                self.settle(subject.check, subject.subject, gap)

    def _write_end(self, decision: Decision) -> None:
        self.record.append(
            "decision",
            outcome=str(decision.outcome),
            reasons=list(decision.reasons),
            scope=decision.scope,
            counts={str(verdict): count for verdict, count in decision.counts.items()},
            waived=[str(waived) for waived in decision.waived],
            exit_code=exit_code(decision.outcome),
        )
        counters = self.cluster.counters
        self.record.append(
            "run_finished",
            seconds=round(time.monotonic() - self._began, 3),
            requests=counters.requests,
            bytes_received=counters.bytes_received,
        )


def renderer(setting: Setting) -> Renderer:
    """What turns the run's requests into manifests."""
    profile = setting.profile
    return Renderer(
        run_id=setting.run_id,
        namespace=f"gpuproof-{setting.run_id}",
        pool=scope_labels(profile),
        gpu_resource=profile.cluster.gpu_resource,
        pod=PodSettings.from_mapping(profile.pod),
    )


def today() -> dt.date:
    """The day in UTC on which provenance and waivers are judged."""
    return dt.datetime.now(dt.UTC).date()


def _explain(error: Exception) -> JobFailure:
    if isinstance(error, ClusterError):
        return JobFailure(error.reason, error.message)
    return JobFailure(Reason.HARNESS_ERROR, f"the harness failed: {type(error).__name__}: {error}")
