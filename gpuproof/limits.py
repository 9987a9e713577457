"""Owns limits, their bounds and their provenance, as values; must not know a file, a measurement or a verdict."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gpuproof.expectation import Scalar

CLUSTER_SUBJECT = "cluster"


class Severity(StrEnum):
    """What a missed limit does: `fail` decides, `warn` is shown, `record_only` is only written down."""

    FAIL = "fail"
    WARN = "warn"
    RECORD_ONLY = "record_only"


class Per(StrEnum):
    """How often a limit wants its metric: once for the subject, or once for every GPU of it."""

    SUBJECT = "subject"
    """Once for whatever the check is asked about."""
    NODE = "node"
    """Once for a subject that is not the cluster as a whole."""
    GPU = "gpu"
    """Once for every GPU of a subject that is not the cluster as a whole."""
    CLUSTER = "cluster"
    """Once for the subject `cluster` and for no other."""


@dataclass(frozen=True)
class Asks:
    """Whom a check asks: the cluster as a whole, every node, or both."""

    cluster: bool
    nodes: bool

    def fits(self, per: Per) -> bool:
        """Say whether a limit with this `per` speaks about any subject of the check."""
        match per:
            case Per.SUBJECT:
                return self.cluster or self.nodes
            case Per.CLUSTER:
                return self.cluster
            case Per.NODE | Per.GPU:
                return self.nodes


class Reference(StrEnum):
    """What a relative bound is a fraction of."""

    RING_CEILING = "ring_ceiling"
    HIERARCHICAL_CEILING = "hierarchical_ceiling"
    ALLTOALL_CEILING = "alltoall_ceiling"
    FLEET_MEDIAN = "fleet_median"
    BASELINE = "baseline"
    NODE_BEST = "node_best"
    """The best GPU of the same node at the same operating point."""


@dataclass(frozen=True)
class AtLeast:
    """Met by a finite number >= value."""

    value: float


@dataclass(frozen=True)
class AtMost:
    """Met by a finite number <= value."""

    value: float


@dataclass(frozen=True)
class Equals:
    """Met by exactly this number, text or truth value."""

    value: Scalar


@dataclass(frozen=True)
class OneOf:
    """Met by exactly one of these."""

    values: tuple[Scalar, ...]


@dataclass(frozen=True)
class Expected:
    """Met by exactly what `[cluster]` of the profile expects under this key."""

    key: str


@dataclass(frozen=True)
class MinFraction:
    """Met by a finite number >= fraction x reference."""

    fraction: float
    of: Reference


@dataclass(frozen=True)
class MaxFraction:
    """Met by a finite number <= fraction x reference."""

    fraction: float
    of: Reference


@dataclass(frozen=True)
class Unique:
    """Met by a fact whose every value is reported once, over all subjects that the check asks in this run."""


@dataclass(frozen=True)
class Uniform:
    """Met by a fact whose every value is what more than half of all subjects that reported it have."""


@dataclass(frozen=True)
class MinVersion:
    """
    Met by a fact that is a version of dotted numbers, at least as high as the floor for what the fact `by` says.

    `floors` maps values of `by` to versions, e.g. CUDA's major version to the oldest driver that runs it. A value
    without a floor is not judged, so that no newer kind passes by being unknown.
    """

    floors: tuple[tuple[str, str], ...]
    by: str


@dataclass(frozen=True)
class Unbounded:
    """Holds nothing; only a `record_only` limit may have it."""


AbsoluteBound = AtLeast | AtMost | Equals | OneOf | Unbounded
Bound = AbsoluteBound | Expected | MinFraction | MaxFraction | Unique | Uniform | MinVersion


@dataclass(frozen=True)
class Measured:
    """The project or a site measured it: evidence file, day, number of runs, statistic, environment."""

    evidence: str
    date: dt.date
    runs: int
    statistic: str
    environment: str
    valid_until: dt.date | None = None
    kind: str = field(default="measured", init=False)


@dataclass(frozen=True)
class Published:
    """Someone published it: where, when it was read, the value there, and the fraction of it that the bound is."""

    url: str
    read_on: dt.date
    value: Scalar
    fraction: float | None = None
    note: str = ""
    valid_until: dt.date | None = None
    kind: str = field(default="published", init=False)


@dataclass(frozen=True)
class Derived:
    """It follows from a formula."""

    formula: str
    source: str = ""
    read_on: dt.date | None = None
    note: str = ""
    valid_until: dt.date | None = None
    kind: str = field(default="derived", init=False)


@dataclass(frozen=True)
class Contract:
    """The buyer was promised it: document, clause, day of signature."""

    document: str
    clause: str
    date: dt.date
    valid_until: dt.date | None = None
    kind: str = field(default="contract", init=False)


@dataclass(frozen=True)
class Provisional:
    """Nobody has a basis for it yet: why, and the day by which a real number replaces it."""

    reason: str
    replace_by: dt.date
    kind: str = field(default="provisional", init=False)


Provenance = Measured | Published | Derived | Contract | Provisional


@dataclass(frozen=True)
class Limit:
    """
    One bound on one metric, or on one fact, at one operating point.

    Exactly one of `metric` and `fact` is set. `unit` is compared with the sample's (facts carry none).
    `at` must be contained in a sample's operating point. `source_file` and `key` say where it was read.
    """

    id: str
    check: str
    bound: Bound
    severity: Severity
    provenance: Provenance
    metric: str | None = None
    fact: str | None = None
    unit: str = ""
    at: Mapping[str, Scalar] = field(default_factory=dict)
    per: Per = Per.SUBJECT
    source_file: str = ""
    key: str = ""
    replaced: str = ""
    """What it took the place of in an inherited file, in words that begin with "weaker" where it asks for less."""

    @property
    def name(self) -> str:
        """The metric or fact that is held."""
        return self.metric or self.fact or ""

    @property
    def decisive(self) -> bool:
        """Whether missing it fails the check."""
        return self.severity is Severity.FAIL

    @property
    def compares_subjects(self) -> bool:
        """Whether one subject can only be held to it when all of them have answered."""
        match self.bound:
            case Unique() | Uniform():
                return True
            case MinFraction(of=of) | MaxFraction(of=of):
                return of is Reference.FLEET_MEDIAN
            case _:
                return False

    def applies_to(self, subject: str) -> bool:
        """Say whether the limit speaks about this subject."""
        if self.per is Per.SUBJECT:
            return True
        return (self.per is Per.CLUSTER) == (subject == CLUSTER_SUBJECT)


def limit_id(check: str, name: str, at: Mapping[str, Scalar], severity: Severity, of: str = "") -> str:
    """Return the stable name of a limit, e.g. `cuda_runtime.gemm_max_relative_error{dtype=float32,n=512}`."""
    point = ",".join(f"{key}={number(value)}" for key, value in sorted(at.items()))
    suffix = (f"/{of}" if of else "") + ("" if severity is Severity.FAIL else f":{severity}")
    return f"{check}.{name}{{{point}}}{suffix}" if point else f"{check}.{name}{suffix}"


def number(value: Scalar) -> str:
    """Write a scalar for a person without rounding it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)


def version(text: str) -> tuple[int, ...] | None:
    """The numbers of a dotted version such as `525.60.13`; None where it is none."""
    parts = text.split(".")
    # Digits of other scripts are digits to Python's isdigit and no number to int.
    return tuple(map(int, parts)) if all(part.isascii() and part.isdigit() for part in parts) else None


def unit_text(unit: str) -> str:
    """Write a unit behind a number: a blank and the unit, nothing for a ratio or a count."""
    return f" {unit}" if unit not in {"", "1", "count"} else ""


def bound_text(bound: Bound, unit: str) -> str:
    """Write a bound for a person, e.g. `>= 400 GB/s`."""
    tail = unit_text(unit)
    match bound:
        case AtLeast(value):
            return f">= {number(value)}{tail}"
        case AtMost(value):
            return f"<= {number(value)}{tail}"
        case Equals(value):
            return f"= {number(value)}{tail}"
        case OneOf(values):
            return f"one of {', '.join(number(value) for value in values)}{tail}"
        case Expected(key):
            return f"= {key} of the profile"
        case MinFraction(fraction, of):
            return f">= {number(fraction)} x {of}"
        case MaxFraction(fraction, of):
            return f"<= {number(fraction)} x {of}"
        case Unbounded():
            return "recorded, not judged"
        case _:
            return _words_text(bound)


def _words_text(bound: Unique | Uniform | MinVersion) -> str:
    match bound:
        case Unique():
            return "reported once in the whole fleet"
        case Uniform():
            return "the same as on most nodes"
        case MinVersion(floors, by):
            return f"at least {', '.join(f'{floor} where {by} is {value}' for value, floor in floors)}"


def provenance_block(provenance: Provenance, today: dt.date) -> str | None:
    """Return why a number with this provenance cannot carry an ACCEPTED on this day; None if it can."""
    if isinstance(provenance, Provisional):
        passed = ", which has passed" if today > provenance.replace_by else ""
        return f"provisional ({provenance.reason}), to be replaced by {provenance.replace_by}{passed}"
    if provenance.valid_until is not None and today > provenance.valid_until:
        return f"out of date: {provenance.kind} number valid until {provenance.valid_until}"
    return None
