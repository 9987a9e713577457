"""Owns what the measurements of all subjects of a check say together; must not know a verdict or a pod."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from gpuproof.expectation import Scalar
from gpuproof.finding import matching
from gpuproof.limits import Limit, MaxFraction, MinFraction, Reference, Uniform, Unique, number
from workloads.contract import Fact, Measurement

MIN_OTHERS = 3
"""A median of fewer other subjects says what one of them is, not what is usual."""


def fleet_medians(
    limits: Iterable[Limit], by_subject: Mapping[str, Sequence[Measurement]], subject: str, expected_subjects: int
) -> dict[str, float]:
    """
    Return, by limit id, the median of what the other subjects reported for the limits relative to the fleet.

    The subject itself is left out, as it must not be its own measure. There is no median of fewer than `MIN_OTHERS`
    others, nor where subject and others are less than half of those expected. Samples that are not finite or carry
    another unit do not count: their own node cannot pass by them.
    """
    medians: dict[str, float] = {}
    for limit in limits:
        if not isinstance(limit.bound, MinFraction | MaxFraction) or limit.bound.of is not Reference.FLEET_MEDIAN:
            continue
        others = [_usable(limit, found) for name, found in by_subject.items() if name != subject]
        others = [values for values in others if values]
        if len(others) >= MIN_OTHERS and 2 * (len(others) + 1) >= expected_subjects:
            medians[limit.id] = statistics.median(value for values in others for value in values)
    return medians


def _usable(limit: Limit, measurements: Iterable[Measurement]) -> list[float]:
    return [
        sample.value
        for measurement in measurements
        for sample in matching(limit, measurement.samples)
        if math.isfinite(sample.value) and sample.unit == limit.unit
    ]


def seen_values(
    limits: Iterable[Limit], by_subject: Mapping[str, Iterable[Measurement]], expected_subjects: int
) -> dict[str, dict[str, tuple[str, ...]]]:
    """
    Return, by the id of every unique or uniform limit, each value of its fact with all that reported it, doubles too.

    What is usual is not known where fewer than half of the expected subjects reported it: a uniform limit is left out.
    """
    seen: dict[str, dict[str, tuple[str, ...]]] = {}
    for limit in limits:
        if isinstance(limit.bound, Unique | Uniform):
            holders: defaultdict[str, list[str]] = defaultdict(list)
            for subject, measurements in by_subject.items():
                for measurement in measurements:
                    for value in _items(measurement.facts.get(limit.name, [])):
                        holders[number(value)].append(subject)
            everybody = {name for names in holders.values() for name in names}
            if isinstance(limit.bound, Unique) or 2 * len(everybody) >= expected_subjects:
                seen[limit.id] = {value: tuple(names) for value, names in holders.items()}
    return seen


def _items(fact: Fact) -> Sequence[Scalar]:
    return fact if isinstance(fact, list) else [fact]
