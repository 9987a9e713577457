"""Owns holding one limit against one measurement; must not know a verdict, a decision or how a pod was run."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from gpuproof.expectation import ClusterExpectation, Scalar
from gpuproof.limits import (
    AbsoluteBound,
    AtLeast,
    AtMost,
    Equals,
    Expected,
    Limit,
    MaxFraction,
    MinFraction,
    MinVersion,
    OneOf,
    Per,
    Reference,
    Severity,
    Unbounded,
    Uniform,
    Unique,
    bound_text,
    number,
    unit_text,
    version,
)
from workloads.contract import Measurement, Sample

FactBound = Unique | Uniform | MinVersion
"""Bounds that only words can be held to."""

MAX_NAMES = 3
"""A finding names this many other subjects and counts the rest."""


class Outcome(StrEnum):
    """What became of one limit held against one number."""

    MET = "met"
    MISSED = "missed"
    NOT_MEASURED = "not_measured"


@dataclass(frozen=True)
class Finding:
    """One limit held against one sample or fact, or against the lack of one; `text` says it in plain words."""

    limit_id: str
    metric: str
    at: Mapping[str, Scalar]
    unit: str
    bound: str
    observed: str | float | None
    outcome: Outcome
    severity: Severity
    text: str

    @property
    def decisive(self) -> bool:
        """Whether the finding takes part in the verdict."""
        return self.severity is Severity.FAIL


@dataclass(frozen=True)
class Context:
    """
    What a limit may be relative to.

    `fleet` and `baseline` map the id of a limit to the number in its unit that the limit is a fraction of. `seen` maps
    the id of a unique or uniform limit to every value with the subjects that reported it, each as often as it did.
    """

    cluster: ClusterExpectation
    fleet: Mapping[str, float] = field(default_factory=dict)
    baseline: Mapping[str, float] = field(default_factory=dict)
    seen: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)


def hold(limit: Limit, measurement: Measurement, context: Context) -> tuple[Finding, ...]:
    """Hold one limit against a measurement; at least one finding, also where nothing was reported."""
    bound = _resolve(limit, context)
    if isinstance(bound, str):
        return (_absent(limit, bound),)
    if limit.fact is not None:
        if isinstance(bound, MinFraction):
            return (_absent(limit, "only a number has fractions"),)
        return _hold_fact(limit, bound, measurement, context)
    if isinstance(bound, FactBound):
        return (_absent(limit, f"only a fact can be held to this: {bound_text(bound, limit.unit)}"),)
    samples = matching(limit, measurement.samples)
    if not samples:
        return (_absent(limit, "no sample was reported"),)
    findings = tuple(_hold_sample(limit, _among(bound, sample, samples), sample) for sample in samples)
    return findings + _gaps(limit, samples, context.cluster.pod_gpus)


def _resolve(limit: Limit, context: Context) -> AbsoluteBound | FactBound | MinFraction | str:
    """Turn an expectation or a fraction into an absolute bound, or say in words why there is none.

    A fraction of the node's best GPU stays one: what is best depends on the sample's operating point.
    """
    bound = limit.bound
    if isinstance(bound, Expected):
        value = context.cluster.expected(bound.key)
        return f"the profile's [cluster] expects no {bound.key}" if value is None else Equals(value)
    if isinstance(bound, MinFraction) and bound.of is Reference.NODE_BEST:
        return bound
    if isinstance(bound, MinFraction | MaxFraction):
        reference = _reference(bound.of, limit, context)
        if reference is None or not math.isfinite(reference) or reference <= 0:
            return f"there is no usable {bound.of} to compare with"
        share = bound.fraction * reference
        return AtLeast(share) if isinstance(bound, MinFraction) else AtMost(share)
    return bound


def _among(bound: AbsoluteBound | MinFraction, sample: Sample, samples: Sequence[Sample]) -> AbsoluteBound | str:
    """Turn a fraction of the node's best GPU at the sample's own point into a floor, or say why there is none."""
    if not isinstance(bound, MinFraction):
        return bound
    alike = [other for other in samples if other.unit == sample.unit and _point(other) == _point(sample)]
    numbers = [other.value for other in alike if math.isfinite(other.value)]
    best = max(numbers, default=0.0)
    if len(alike) < 2 or best <= 0:
        return f"there is no usable {bound.of} to compare with"
    return AtLeast(bound.fraction * best)


def _point(sample: Sample) -> list[tuple[str, str]]:
    """Return the operating point without the GPU."""
    return sorted((key, number(value)) for key, value in sample.at.items() if key != "gpu")


def _reference(of: Reference, limit: Limit, context: Context) -> float | None:
    match of:
        case Reference.RING_CEILING:
            return context.cluster.ring_ceiling_gb_per_s()
        case Reference.HIERARCHICAL_CEILING:
            return context.cluster.hierarchical_ceiling_gb_per_s()
        case Reference.ALLTOALL_CEILING:
            return context.cluster.alltoall_ceiling_gb_per_s()
        case Reference.FLEET_MEDIAN:
            return context.fleet.get(limit.id)
        case Reference.BASELINE:
            return context.baseline.get(limit.id)
        case Reference.NODE_BEST:
            return None


def matching(limit: Limit, samples: Iterable[Sample]) -> list[Sample]:
    """Return the samples of the limit's metric at its operating point, whatever their unit."""
    return [
        sample
        for sample in samples
        if sample.metric == limit.metric
        and all(key in sample.at and same(sample.at[key], value) for key, value in limit.at.items())
    ]


def same(left: Scalar, right: Scalar) -> bool:
    """Compare two scalars without mixing kinds: 1 is 1.0, but neither "1" nor true."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right


def _meets(bound: AbsoluteBound, observed: Scalar) -> bool:
    """Say whether a value meets a bound; what is not finite meets none, and only numbers can be compared in size."""
    if isinstance(observed, float) and not math.isfinite(observed):
        return False
    match bound:
        case Unbounded():
            return True
        case Equals(value):
            return same(observed, value)
        case OneOf(values):
            return any(same(observed, value) for value in values)
        case AtLeast(value):
            return not isinstance(observed, bool | str) and observed >= value
        case AtMost(value):
            return not isinstance(observed, bool | str) and observed <= value


def _hold_sample(limit: Limit, bound: AbsoluteBound | str, sample: Sample) -> Finding:
    if isinstance(bound, str):
        return _absent(limit, bound, sample.at)
    if sample.unit != limit.unit:
        return _absent(limit, f'reported in "{sample.unit}", the limit is in "{limit.unit}"', sample.at)
    return _present(limit, bound, sample.value, sample.at)


def _hold_fact(
    limit: Limit, bound: AbsoluteBound | FactBound, measurement: Measurement, context: Context
) -> tuple[Finding, ...]:
    if limit.name not in measurement.facts:
        return (_absent(limit, "the fact was not reported"),)
    fact = measurement.facts[limit.name]

    def held(value: Scalar, at: Mapping[str, Scalar]) -> Finding:
        match bound:
            case Unique():
                return _hold_unique(limit, value, at, measurement.node, context)
            case Uniform():
                return _hold_uniform(limit, value, at, measurement.node, context)
            case MinVersion():
                return _hold_version(limit, bound, value, at, measurement.facts.get(bound.by))
        return _present(limit, bound, value, at)

    if not isinstance(fact, list):
        if limit.per is Per.GPU:
            return (_absent(limit, "one value was reported, expected one for every GPU"),)
        return (held(fact, {}),)
    if not fact:
        return (_absent(limit, "an empty list was reported"),)
    key = "gpu" if limit.per is Per.GPU else "item"
    findings = tuple(held(item, {key: index}) for index, item in enumerate(fact))
    expected = context.cluster.pod_gpus
    if limit.per is Per.GPU and len(fact) != expected:
        return (*findings, _absent(limit, f"reported for {len(fact)} GPUs, expected {expected}"))
    return findings


def _hold_unique(limit: Limit, value: Scalar, at: Mapping[str, Scalar], subject: str, context: Context) -> Finding:
    """Hold a value against all that was seen; a value that nobody was seen with has been compared with nothing."""
    holders = context.seen.get(limit.id, {}).get(number(value), ())
    if subject not in holders:
        return _absent(limit, "what the whole fleet reported is not known, so there is nothing to compare with", at)
    if len(holders) == 1:
        return _judged(limit, value, at, met=True, wanted=bound_text(limit.bound, limit.unit))
    others = tuple(dict.fromkeys(name for name in holders if name != subject))
    more = f" and {len(others) - MAX_NAMES} more" if len(others) > MAX_NAMES else ""
    also = [f"{holders.count(subject)} times on {subject}"] if holders.count(subject) > 1 else []
    also += [f"also on {', '.join(others[:MAX_NAMES])}{more}"] if others else []
    wanted = f"{bound_text(limit.bound, limit.unit)}, it is {' and '.join(also)}"
    return _judged(limit, value, at, met=False, wanted=wanted)


def _hold_uniform(limit: Limit, value: Scalar, at: Mapping[str, Scalar], subject: str, context: Context) -> Finding:
    """Hold a value against what most subjects reported; a word for nothing is no value that nodes could share."""
    seen = context.seen.get(limit.id, {})
    if subject not in seen.get(number(value), ()):
        return _absent(limit, "too few nodes have reported it to say what is usual", at)
    if not number(value).strip():
        return _absent(limit, "the value is empty", at)
    having = {text: tuple(dict.fromkeys(holders)) for text, holders in seen.items()}
    everybody = {name for names in having.values() for name in names}
    usual, most = max(having.items(), key=lambda item: len(item[1]))
    if 2 * len(most) > len(everybody):
        wanted = f"{usual}, as on {len(most)} of {len(everybody)} nodes"
        return _judged(limit, value, at, met=number(value) == usual, wanted=wanted)
    shares = ", ".join(f"{text} on {len(names)}" for text, names in sorted(having.items()))
    wanted = f"what most nodes have, and there is no such: {shares} of {len(everybody)} nodes"
    return _judged(limit, value, at, met=False, wanted=wanted)


def _hold_version(limit: Limit, bound: MinVersion, value: Scalar, at: Mapping[str, Scalar], kind: object) -> Finding:
    if not isinstance(kind, str | int) or isinstance(kind, bool):
        return _absent(limit, f"the fact {bound.by} that says which floor applies was not reported as one word", at)
    floor = dict(bound.floors).get(number(kind))
    if floor is None:
        return _absent(limit, f"the profile has no floor for {bound.by} {number(kind)}", at)
    found, least = version(number(value)), version(floor)
    if found is None or least is None:
        return _absent(limit, f"{number(value)!r} is no version of dotted numbers", at)
    return _judged(limit, value, at, met=found >= least, wanted=f">= {floor} ({bound.by} is {number(kind)})")


def _gaps(limit: Limit, samples: Sequence[Sample], gpus_per_pod: int) -> tuple[Finding, ...]:
    """Return a not-measured finding for every operating point at which GPUs are missing, surplus or doubled."""
    if limit.per is not Per.GPU:
        if any("gpu" in sample.at for sample in samples):
            return (_absent(limit, 'the samples are one a GPU, so the limit must say per = "gpu"'),)
        return _doubled(limit, samples)
    points: dict[tuple[tuple[str, str], ...], list[Scalar]] = {}
    for sample in samples:
        point = tuple(sorted((key, number(value)) for key, value in sample.at.items() if key != "gpu"))
        points.setdefault(point, []).extend([sample.at["gpu"]] if "gpu" in sample.at else [])
    return tuple(
        _absent(limit, why, dict(point)) for point, gpus in points.items() if (why := _mislabelled(gpus, gpus_per_pod))
    )


def _mislabelled(gpus: Sequence[Scalar], gpus_per_pod: int) -> str | None:
    """Say what is wrong with the labels of a pod's GPUs; None where they are exactly the integers from 0 on."""
    if len(gpus) != gpus_per_pod:
        distinct = {number(gpu) for gpu in gpus}
        return f"{len(gpus)} samples for {len(distinct)} GPUs, expected one for each of {gpus_per_pod}"
    # A GPU "x" or 0.5 is none that exists: it would stand for one that was not measured.
    if {(type(gpu), gpu) for gpu in gpus} != {(int, index) for index in range(gpus_per_pod)}:
        labels = ", ".join(repr(gpu) for gpu in gpus)
        return f"the GPUs are labelled {labels}, expected the integers from 0 to {gpus_per_pod - 1}"
    return None


def _doubled(limit: Limit, samples: Sequence[Sample]) -> tuple[Finding, ...]:
    points = [tuple(sorted((key, number(value)) for key, value in sample.at.items())) for sample in samples]
    if len(set(points)) == len(points):
        return ()
    return (_absent(limit, "two samples were reported for one operating point"),)


def _absent(limit: Limit, why: str, at: Mapping[str, Scalar] | None = None) -> Finding:
    point = limit.at if at is None else at
    text = f"{limit.name}{_at_text(point)} not measured: {why} (limit {bound_text(limit.bound, limit.unit)})"
    return _finding(limit, point, observed=None, outcome=Outcome.NOT_MEASURED, text=text)


def _present(limit: Limit, bound: AbsoluteBound, observed: Scalar, at: Mapping[str, Scalar]) -> Finding:
    wanted = bound_text(bound, limit.unit)
    if not isinstance(limit.bound, AbsoluteBound):
        wanted += f" ({bound_text(limit.bound, limit.unit).removeprefix('= ')})"
    return _judged(limit, observed, at, met=_meets(bound, observed), wanted=wanted)


def _judged(limit: Limit, observed: Scalar, at: Mapping[str, Scalar], *, met: bool, wanted: str) -> Finding:
    seen = f"{number(observed)}{unit_text(limit.unit)}"
    text = f"{limit.name}{_at_text(at)} is {seen}, {'meets' if met else 'expected'} {wanted}"
    shown = (
        float(observed) if isinstance(observed, int | float) and not isinstance(observed, bool) else number(observed)
    )
    return _finding(limit, at, observed=shown, outcome=Outcome.MET if met else Outcome.MISSED, text=text, bound=wanted)


def _finding(
    limit: Limit,
    at: Mapping[str, Scalar],
    *,
    observed: str | float | None,
    outcome: Outcome,
    text: str,
    bound: str | None = None,
) -> Finding:
    return Finding(
        limit_id=limit.id,
        metric=limit.name,
        at=dict(at),
        unit=limit.unit,
        bound=bound or bound_text(limit.bound, limit.unit),
        observed=observed,
        outcome=outcome,
        severity=limit.severity,
        text=text,
    )


def _at_text(at: Mapping[str, Scalar]) -> str:
    return f" at {', '.join(f'{key}={number(value)}' for key, value in sorted(at.items()))}" if at else ""
