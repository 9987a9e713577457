"""Writes a run's own events into its record: what began, what was measured, judged, tidied up and decided.

It must not know how any of it came about.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

from gpuproof import __version__, describe
from gpuproof.baseline import Baseline
from gpuproof.catalogue import Check
from gpuproof.cluster.port import Counters
from gpuproof.decision import Decision, exit_code
from gpuproof.failure import JobFailure
from gpuproof.inventory import Inventory
from gpuproof.jobs import Cleanup, StartedJob, SweepRequest, Visited
from gpuproof.plan import Plan
from gpuproof.profile import Profile
from gpuproof.record import Recorder
from gpuproof.telemetry import moment
from gpuproof.telemetry.history import GpuTime, Scrape
from gpuproof.verdict import Judgement
from workloads.contract import Measurement

FINAL_LOOK = "final look"
"""The workload under which it is recorded that a node was no longer the same at the end; no program of that name."""


class RunRecord:
    """One method an event; field names are those of `gpuproof.record.EVENTS`."""

    def __init__(self, recorder: Recorder) -> None:
        self._append = recorder.append

    def started(
        self,
        run_id: str,
        argv: Sequence[str],
        profile: Profile,
        checks: Sequence[Check],
        plan: Plan,
        cluster: Mapping[str, object],
        scope: str,
        today: dt.date,
    ) -> None:
        """The run, its profile and cluster, and everything that was expected of them."""
        self._append(
            "run_started",
            schema=1,
            run_id=run_id,
            gpuproof=__version__,
            started_by=list(argv),
            profile={"name": profile.name, "path": str(profile.path), "sha256": profile.sha256},
            cluster=cluster,
            scope=scope,
            tier="standard",
            checks=[describe.check(check, profile) for check in checks],
            expected_nodes=plan.expected_nodes,
            gpus_per_node=profile.cluster.gpus_per_node,
            limits=[describe.limit(limit, profile, profile.limit_block(limit, today)) for limit in profile.limits],
            waivers=[describe.waiver(waiver, today) for waiver in profile.waivers],
            pod_patch=describe.plain(profile.pod),
        )

    def looked(self, inventory: Inventory, in_scope: Mapping[str, object], version: str) -> None:
        """The nodes as they are now."""
        nodes = [describe.node(node, in_scope=node.name in in_scope) for node in inventory.nodes.values()]
        self._append("inventory", nodes=nodes, server_version=version)

    def planned(self, plan: Plan) -> None:
        """Every question with its subject."""
        self._append("planned", subjects=[describe.planned(subject) for subject in plan.subjects])

    def baseline(self, baseline: Baseline) -> None:
        """The earlier run that limits are relative to, with the numbers taken from it."""
        self._append(
            "baseline",
            run=baseline.run,
            decision=baseline.decision,
            simulated=baseline.simulated,
            values=dict(baseline.values),
        )

    def job(self, request: SweepRequest | None, job: StartedJob, namespace: str) -> None:
        """A Job was created."""
        self._append(
            "job_started",
            workload=request.workload if request else "",
            check=request.check if request else "",
            job=job.name,
            namespace=namespace,
            nodes=list(job.nodes),
            follow_up=job.follow_up,
        )

    def measured(self, check: str, workload: str, result: Visited) -> None:
        """A pod measured."""
        self._append(
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

    def observed(self, check: str, subject: str, answer: Measurement) -> None:
        """What the harness itself saw from outside the pods, so that a reader can judge again what was judged."""
        self._append(
            "measurement",
            check=check,
            workload=answer.workload,
            subject=subject,
            pod=answer.pod or None,
            index=-1,
            samples=describe.samples(answer),
            facts=dict(answer.facts),
            environment=dict(answer.environment),
            timings={},
        )

    def failed(self, check: str, workload: str, subject: str, pod: str | None, failure: JobFailure) -> None:
        """A subject gave no measurement."""
        self._append(
            "failure",
            check=check,
            workload=workload,
            subject=subject,
            pod=pod,
            reason=str(failure.reason),
            message=failure.message,
            evidence=list(failure.evidence),
        )

    def telemetry(self, request: SweepRequest | None, scrapes: Sequence[Scrape]) -> None:
        """What the platform's exporters told, beside the check that was running (if any)."""
        self._append(
            "telemetry",
            check=request.check if request else "",
            workload=request.workload if request else "",
            columns=list(moment.COLUMNS),
            rows=[list(row) for row in moment.rows(scrapes)],
            errors=moment.errors(scrapes),
        )

    def gpu_time(self, nodes: Mapping[str, GpuTime]) -> None:
        """GPU seconds of the run by node: watched, allocated to a pod, busy, and the gap between the last two."""
        told = {
            node: {
                "watched_s": round(each.watched_s, 3),
                "allocated_s": round(each.allocated_s, 3),
                "busy_s": round(each.busy_s, 3),
                "gap_s": round(each.allocated_s - each.busy_s, 3),
            }
            for node, each in nodes.items()
        }
        self._append("gpu_time", nodes=told)

    def log(self, check: str, subject: str, text: str) -> None:
        """The end of a container's log."""
        self._append("evidence", subject=subject, check=check, kind="log", text=text)

    def verdict(
        self, check: str, subject: str, judgement: Judgement, *, required: bool, blocker: str | None, seconds: float
    ) -> None:
        """A verdict was reached."""
        self._append(
            "verdict",
            check=check,
            subject=subject,
            verdict=str(judgement.verdict),
            required=required,
            reason_code=judgement.reason_code,
            reasons=list(judgement.reasons),
            findings=[describe.finding(finding) for finding in judgement.findings],
            blocked_by=blocker,
            duration_s=round(seconds, 3),
        )

    def interrupted(self, by: str) -> None:
        """A signal or a deadline ended the run early."""
        self._append("interrupted", signal=by)

    def tidied(self, done: Cleanup) -> None:
        """What deleting the run's namespace came to."""
        self._append(
            "cleanup",
            namespace=done.namespace,
            deleted=done.deleted,
            seconds=round(done.seconds, 3),
            left=list(done.left),
        )

    def decided(self, decision: Decision) -> None:
        """The decision."""
        self._append(
            "decision",
            outcome=str(decision.outcome),
            reasons=list(decision.reasons),
            scope=decision.scope,
            counts={str(verdict): count for verdict, count in decision.counts.items()},
            waived=[str(waived) for waived in decision.waived],
            exit_code=exit_code(decision.outcome),
        )

    def finished(self, seconds: float, counters: Counters) -> None:
        """The end, with what the run cost the API server."""
        self._append(
            "run_finished",
            seconds=round(seconds, 3),
            requests=counters.requests,
            bytes_received=counters.bytes_received,
        )
