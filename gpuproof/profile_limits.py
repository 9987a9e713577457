"""Owns what makes a `[[limit]]` meaningful, and turns it into a value; must not know files or other tables' reading."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpuproof.expectation import ClusterExpectation, Scalar
from gpuproof.limits import (
    Asks,
    AtLeast,
    AtMost,
    Bound,
    Contract,
    Derived,
    Equals,
    Expected,
    Limit,
    MaxFraction,
    Measured,
    MinFraction,
    MinVersion,
    OneOf,
    Per,
    Provenance,
    Provisional,
    Published,
    Reference,
    Severity,
    Unbounded,
    Uniform,
    Unique,
    limit_id,
    version,
)
from gpuproof.profile_error import ProfileError, Source, describe, key_text, nearest
from gpuproof.profile_model import LimitTable

RELATIVE = ("min_fraction", "max_fraction")
BOUNDS = ("min", "max", "equals", "one_of", "expected", *RELATIVE, "unique", "uniform", "min_version")

MIN_COMPARED = 2
"""GPUs of a node: the best of one is itself, and would always be good enough."""

MAX_FRACTION = 10.0
"""A ceiling of more than ten times its reference would pass a broken device, so it is taken for a slip."""

RESERVED_AT = frozenset({"gpu", "node", "pod", "host"})
"""Who measured is no operating point: a limit that named one would leave all the others unjudged."""

LimitKey = tuple[str, str, frozenset[tuple[str, Scalar]]]


def limit_key(table: LimitTable) -> LimitKey:
    """Return what a site file's limit replaces: check, metric or fact, operating point."""
    return table.check, table.name, frozenset(table.at.items())


def read_limit(table: LimitTable, source: Source, index: int, cluster: ClusterExpectation, asks: Asks) -> Limit:
    """Turn one `[[limit]]` into a value; raises ProfileError where it could pass by accident."""
    reader = _LimitReader(table, source, index)
    reader.refuse_unclear_subject()
    reader.refuse_idle(asks)
    bound = reader.bound(cluster)
    severity = Severity(table.severity)
    if table.whole_gpu and cluster.shared:
        # What a whole GPU reaches says nothing about a share of one.
        severity = Severity.RECORD_ONLY
    return Limit(
        id=limit_id(table.check, table.name, table.at, severity, of=table.of or ""),
        check=table.check,
        bound=bound,
        severity=severity,
        provenance=_provenance(table.provenance.model_dump()),
        metric=table.metric,
        fact=table.fact,
        unit=table.unit or "",
        at=dict(table.at),
        per=Per(table.per),
        source_file=str(source.path),
        key=key_text(("limit", index)),
    )


def refuse_duplicates(tables: Sequence[tuple[int, LimitTable]], source: Source) -> None:
    """Refuse two limits of one file that speak about the same number with the same severity and kind of bound."""
    seen: dict[tuple[Any, ...], int] = {}
    for index, table in tables:
        key = (*limit_key(table), table.severity, table.of)
        if key in seen:
            raise source.error(
                ("limit", index),
                expected="one limit for each check, metric or fact, operating point (at), severity and reference (of)",
                actual=f"the same as limit[{seen[key]}]: {table.check} {table.name}",
                next_step="delete one of the two, or give them different at = { … }",
            )
        seen[key] = index


class _LimitReader:
    """The refusals of one limit; each names the key, what was expected, what is there and what to do."""

    def __init__(self, table: LimitTable, source: Source, index: int) -> None:
        self.table = table
        self.source = source
        self.index = index

    def error(self, key: str | None, expected: str, actual: str, next_step: str) -> ProfileError:
        loc = ("limit", self.index) if key is None else ("limit", self.index, key)
        name = f"{self.table.check} {self.table.name}".strip()
        return self.source.error(loc, expected=f"{expected} (limit on {name})", actual=actual, next_step=next_step)

    def refuse_unclear_subject(self) -> None:
        table = self.table
        if (table.metric is None) == (table.fact is None):
            found = "neither" if table.metric is None else "both"
            raise self.error(None, "either metric or fact", found, "name the one number or word that is held")
        if table.metric is not None and table.unit is None:
            raise self.error(
                "unit", "the unit the number is reported in", "it is absent", 'add unit = "…" ("1" for a plain ratio)'
            )
        if table.fact is not None and table.at:
            raise self.error("at", "no operating point: facts have none", describe(dict(table.at)), "delete at")
        named = sorted(RESERVED_AT & set(table.at))
        if named:
            raise self.error(
                "at",
                "an operating point such as bytes, dtype, n, statistic",
                f"the key {named[0]}, which says who measured",
                'delete it; per = "gpu" holds every GPU',
            )

    def refuse_idle(self, asks: Asks) -> None:
        """Refuse a limit that no subject of its check could be held to: it would decide nothing without a word."""
        if asks.fits(Per(self.table.per)):
            return
        whom, fitting = ("every node", '"node" or "gpu"') if asks.nodes else ("the cluster as a whole", '"cluster"')
        raise self.error(
            "per",
            f"per = {fitting}, as {self.table.check} asks {whom}",
            describe(self.table.per),
            "correct it: nothing the check asks could be held to this limit",
        )

    def bound(self, cluster: ClusterExpectation) -> Bound:
        given = [name for name in BOUNDS if getattr(self.table, name) is not None]
        if len(given) > 1:
            raise self.error(given[1], "one bound", " and ".join(given), "keep the one that decides")
        if self.table.by is not None and given != ["min_version"]:
            raise self.error("by", "min_version beside it", f"by = {self.table.by} without it", "add it, or delete by")
        if self.table.of is not None and not set(given) & set(RELATIVE):
            raise self.error("of", "min_fraction or max_fraction beside it", f"of = {self.table.of} alone", "add it")
        if given:
            return self._one_bound(given.pop(), cluster)
        if self.table.severity == "record_only":
            return Unbounded()
        raise self.error(
            None,
            f"a bound: one of {', '.join(BOUNDS)}",
            "none",
            'add one, or say severity = "record_only" to record without judging',
        )

    def _one_bound(self, name: str, cluster: ClusterExpectation) -> Bound:
        value = getattr(self.table, name)
        match name:
            case "min":
                return self._floor(value)
            case "max":
                return self._ceiling(value)
            case "equals":
                self._refuse_words(name, [value])
                return Equals(value)
            case "one_of":
                self._refuse_words(name, value)
                if not value:
                    raise self.error(name, "at least one value", "an empty list", "list the values that are right")
                return OneOf(tuple(value))
            case "expected":
                return self._expected(value, cluster)
            case "unique" | "uniform":
                return self._compared(name)
            case "min_version":
                return self._min_version(value)
            case _:
                return self._fraction(name, value, cluster)

    def _floor(self, value: float) -> Bound:
        if value <= 0:
            raise self.error(
                "min",
                "a floor above zero",
                describe(value),
                'write the number that is good enough, or severity = "record_only" without a bound',
            )
        return AtLeast(value)

    def _ceiling(self, value: float) -> Bound:
        if value < 0:
            raise self.error("max", "a ceiling of at least zero", describe(value), "correct the sign")
        if (self.table.metric or "").endswith("relative_error") and value >= 1:
            raise self.error(
                "max",
                "a relative error below 1, which an answer of only zeros has",
                describe(value),
                "write the bound of the arithmetic, e.g. n * 2**-24 for a float32 product of n terms",
            )
        return AtMost(value)

    def _refuse_words(self, key: str, values: Sequence[Scalar]) -> None:
        words = [value for value in values if isinstance(value, str | bool)]
        if self.table.metric is not None and words:
            raise self.error(
                key, "a number, as a metric is one", describe(words[0]), "write it without quotes, or hold a fact"
            )

    def _expected(self, key: str, cluster: ClusterExpectation) -> Bound:
        known = cluster.expectations()
        if key not in known:
            raise self.error(
                "expected",
                f"a key of [cluster]: {', '.join(sorted(known))}",
                f"{describe(key)}{nearest(key, known)}",
                "set the key in [cluster] (or [cluster.extra]), or correct the name",
            )
        if self.table.metric is not None and isinstance(known[key], str | bool):
            raise self.error(
                "expected",
                "the key of a number, as a metric is one",
                f"{key} = {describe(known[key])}",
                "hold a fact instead of a metric",
            )
        return Expected(key)

    def _compared(self, name: str) -> Bound:
        if self.table.metric is not None:
            why = "may well be equal" if name == "unique" else "are never quite equal"
            raise self.error(name, f"a fact, as measured numbers {why}", "a metric", "hold the fact that names it")
        return Unique() if name == "unique" else Uniform()

    def _min_version(self, floors: Mapping[str, str]) -> Bound:
        if self.table.metric is not None:
            raise self.error("min_version", "a fact, as a version is a word", "a metric", "hold the fact, or use min")
        if self.table.by is None:
            raise self.error(
                "by", "the fact that says which of the versions applies", "it is absent", 'add by = "NAME of the fact"'
            )
        for floor in floors.values():
            if version(floor) is None:
                raise self.error("min_version", "versions of dotted numbers", describe(floor), "correct it")
        return MinVersion(tuple(floors.items()), self.table.by)

    def _fraction(self, name: str, value: float, cluster: ClusterExpectation) -> Bound:
        of = self.table.of
        if self.table.fact is not None:
            raise self.error(name, "a metric, as only numbers have fractions", "a fact", "hold a metric")
        if of is None:
            raise self.error(
                "of", f"what it is a fraction of: {', '.join(Reference)}", "it is absent", 'add of = "ring_ceiling"'
            )
        top, example = (1.0, "0.75 for 75 %") if name == "min_fraction" else (MAX_FRACTION, "1.1 for +10 %")
        if not 0 < value <= top:
            raise self.error(name, f"a number above 0 and up to {top:g}", describe(value), f"write {example}")
        if of.endswith("_ceiling"):
            self._refuse_ring(cluster)
        if of == "node_best":
            self._refuse_node_best(name, cluster)
        return MinFraction(value, Reference(of)) if name == "min_fraction" else MaxFraction(value, Reference(of))

    def _refuse_node_best(self, name: str, cluster: ClusterExpectation) -> None:
        if self.table.per != "gpu":
            raise self.error(
                "per", 'per = "gpu", as node_best compares the GPUs of a node', describe(self.table.per), "correct it"
            )
        if name != "min_fraction":
            raise self.error(
                name, "min_fraction, as node_best is the largest number of a node", name, "use min_fraction"
            )
        if cluster.gpus_per_node < MIN_COMPARED:
            raise self.error(
                "of",
                "a node of two GPUs at least, as a GPU must not be its own measure",
                f"cluster.gpus_per_node = {cluster.gpus_per_node}",
                'use of = "fleet_median", or an absolute min',
            )

    def _refuse_ring(self, cluster: ClusterExpectation) -> None:
        if cluster.rdma is None:
            raise self.error(
                "of", "cluster.rdma, which the ring ceiling is computed from", "it is absent", "add rdma to [cluster]"
            )
        if self.table.unit != "GB/s":
            raise self.error("unit", '"GB/s", the unit of the ring ceiling', describe(self.table.unit), "correct it")


def _provenance(raw: Mapping[str, Any]) -> Provenance:
    kinds: dict[str, type[Provenance]] = {
        "measured": Measured,
        "published": Published,
        "derived": Derived,
        "contract": Contract,
        "provisional": Provisional,
    }
    return kinds[raw["kind"]](**{key: value for key, value in raw.items() if key != "kind"})
