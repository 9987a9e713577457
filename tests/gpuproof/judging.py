"""Builders for what is judged: limits, measurements, verdict lines, with only what a test cares about."""

import datetime as dt
from collections.abc import Mapping, Sequence

from gpuproof.decision import Decision, PlannedSubject, ScopeResult, VerdictLine, decide
from gpuproof.expectation import ClusterExpectation, Rdma, Scalar, Waiver
from gpuproof.limits import AtLeast, Bound, Derived, Limit, Per, Severity, limit_id
from gpuproof.verdict import Context, Verdict
from workloads.contract import Fact, Measurement, Sample

TODAY = dt.date(2026, 11, 30)
CHECK = "some_check"
NODE = "gpu-01"

CLUSTER = ClusterExpectation(
    gpu_product="SIMULATED-GPU",
    gpus_per_node=2,
    nodes=4,
    gpu_resource="nvidia.com/gpu",
    device="cpu",
    rdma=Rdma("rdma/ib", 8, 400, "InfiniBand"),
    extra={"gpu_name": "SIMULATED GPU"},
)


def context(
    fleet: Mapping[str, float] | None = None,
    baseline: Mapping[str, float] | None = None,
    seen: Mapping[str, Mapping[str, tuple[str, ...]]] | None = None,
) -> Context:
    """What limits may be relative to: `CLUSTER`, and nothing else unless given."""
    return Context(CLUSTER, fleet or {}, baseline or {}, seen or {})


def limit(
    bound: Bound | None = None,
    *,
    metric: str | None = "busbw",
    fact: str | None = None,
    unit: str = "GB/s",
    at: Mapping[str, Scalar] | None = None,
    per: Per = Per.SUBJECT,
    severity: Severity = Severity.FAIL,
    check: str = CHECK,
) -> Limit:
    """A limit, by default a decisive floor of 400 GB/s on `busbw`."""
    name = fact or metric or ""
    return Limit(
        id=limit_id(check, name, at or {}, severity),
        check=check,
        bound=bound or AtLeast(400),
        severity=severity,
        provenance=Derived("by the test"),
        metric=None if fact else metric,
        fact=fact,
        unit="" if fact else unit,
        at=at or {},
        per=per,
    )


def sample(value: float, metric: str = "busbw", unit: str = "GB/s", **at: Scalar) -> Sample:
    """One sample, by default of `busbw` in GB/s."""
    return Sample(metric, value, unit, at)


def measurement(*samples: Sample, facts: Mapping[str, Fact] | None = None, node: str = NODE) -> Measurement:
    """What a pod on a node reported, by default on `NODE`."""
    return Measurement("some_workload", "run", node, "pod", 1, 1, samples, facts or {})


def line(
    verdict: Verdict, subject: str = NODE, check: str = CHECK, *reasons: str, code: str | None = None
) -> VerdictLine:
    """A verdict as it stands in the record."""
    return VerdictLine(check, subject, verdict, reasons, code)


def plan(*subjects: str, check: str = CHECK, required: bool = True) -> list[PlannedSubject]:
    """One check on these subjects."""
    return [PlannedSubject(check, subject, required) for subject in subjects]


COVERED = ScopeResult("all 4 nodes of the pool node-pool=sim-train", complete=True)


def decided(
    planned: Sequence[PlannedSubject],
    lines: Sequence[VerdictLine],
    *,
    interrupted: bool = False,
    blocking: Sequence[str] = (),
    waivers: Sequence[Waiver] = (),
    today: dt.date = TODAY,
    scope: ScopeResult = COVERED,
    limits: Sequence[Limit] = (),
) -> Decision:
    """The decision over these lines, by default of an uninterrupted run with a covered scope."""
    return decide(
        planned,
        {(item.check, item.subject): item for item in lines},
        interrupted=interrupted,
        blocking_provenance=blocking,
        waivers=waivers,
        today=today,
        scope=scope,
        limits=limits,
    )
