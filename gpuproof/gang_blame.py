"""Between the gang and the planner of the localisation: floors from limits, results into its words, blame into facts.

Pure. It must not know how a group is run or what becomes of a blame.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpuproof.expectation import ClusterExpectation, Scalar
from gpuproof.gang_results import Asked, busbw, stuck
from gpuproof.gang_wire import GroupPart
from gpuproof.limits import AtLeast, Limit, MinFraction, Reference
from gpuproof.localisation import Blame, ExperimentResult, Floor, Floors, GroupResult, NodeBlame, Outcome
from workloads.contract import Fact, Sample

NOBODY = "nobody"
_OUTCOMES = {"measured": Outcome.MEASURED, "hung": Outcome.HUNG}


def floor_of(
    limits: Iterable[Limit], cluster: ClusterExpectation, at: Mapping[str, Scalar], metric: str = "busbw"
) -> float | None:
    """The highest decisive floor in GB/s that these limits set for a metric at a point; None where there is none."""
    found = []
    for limit in limits:
        if limit.metric == metric and limit.decisive and dict(limit.at).items() <= dict(at).items():
            match limit.bound:
                case AtLeast(value):
                    found.append(value)
                case MinFraction(fraction, Reference.RING_CEILING):
                    found += _share(fraction, cluster.ring_ceiling_gb_per_s())
                case MinFraction(fraction, Reference.HIERARCHICAL_CEILING):
                    found += _share(fraction, cluster.hierarchical_ceiling_gb_per_s())
    return max(found, default=None)


def _share(fraction: float, ceiling: float | None) -> list[float]:
    return [] if ceiling is None else [fraction * ceiling]


def floors(whole: float, alone: float | None) -> Floors:
    """The planner's floors. A pair has the ceiling of the whole set, gpus_per_node x NIC, so it has its floor, too."""
    return Floors(whole=Floor(whole), pair=Floor(whole), alone=Floor(alone) if alone is not None else Floor())


def group_result(part: GroupPart, asked: Asked, collective: str, size: int) -> GroupResult:
    """A group in the planner's words: repeats at the size that the floor is about."""
    nodes = tuple(asked.nodes.values())
    if part.outcome != "measured":
        outcome = _OUTCOMES.get(part.outcome, Outcome.DIED)
        return GroupResult(nodes, outcome, stuck=stuck(part, asked))
    rates = [
        rate for t in part.results if (t.collective, t.bytes) == (collective, size) for rate in busbw(t, asked.ranks)
    ]
    wrong = any(timed.wrong for timed in part.results)
    return GroupResult(nodes, Outcome.WRONG if wrong else Outcome.MEASURED, tuple(rates))


def pair_samples(results: Sequence[ExperimentResult]) -> tuple[Sample, ...]:
    """`pair_busbw` (GB/s) at {from, to}: the median of a pair's repeats, the lowest where it was measured again."""
    lowest: dict[tuple[str, str], float] = {}
    for result in results:
        for group in result.groups:
            if len(group.nodes) == 2 and group.outcome is Outcome.MEASURED and group.busbw_gb_per_s:
                pair = (min(group.nodes), max(group.nodes))
                rate = sorted(group.busbw_gb_per_s)[len(group.busbw_gb_per_s) // 2]
                lowest[pair] = min(rate, lowest.get(pair, rate))
    return tuple(Sample("pair_busbw", rate, "GB/s", {"from": a, "to": b}) for (a, b), rate in sorted(lowest.items()))


def blame_samples(blame: Blame) -> tuple[Sample, ...]:
    """How many are blamed, how long it took, and the counterfactual: `whole_busbw` and `without_busbw` (GB/s)."""
    found = [
        Sample("blamed_nodes", float(len(blame.nodes)), "count"),
        Sample("blamed_links", float(len(blame.links) + len(blame.fabric)), "count"),
        Sample("localisation_rounds", float(blame.rounds), "count"),
    ]
    for name, rate in (("whole_busbw", blame.whole_gb_per_s), ("without_busbw", blame.without_gb_per_s)):
        found += [Sample(name, rate, "GB/s")] if rate is not None else []
    return tuple(found)


def blame_facts(blame: Blame, why: Mapping[str, str]) -> dict[str, Fact]:
    """`blame` in words, one for each that is blamed (`nobody` where there is none), and whether it stands.

    `why` is what is known of a node besides: why its pod is lost, which port of it is down.
    """
    said = [_node_words(node) + (f"; {why[node.node]}" if node.node in why else "") for node in blame.nodes]
    said += [f"the link {link.nodes[0]} - {link.nodes[1]}: {link.symptom}{_rate(link.slow_gb_per_s)}, "
             f"{_often(link.intermittent)}both are good with others" for link in blame.links]  # fmt: skip
    said += [f"the fabric between {part.leaves[0]} and {part.leaves[1]}: {part.symptom}{_rate(part.slow_gb_per_s)}, "
             f"{_often(part.intermittent)}each is good within itself" for part in blame.fabric]  # fmt: skip
    if blame.missed and not said:
        said = [f"unexplained: {blame.unexplained or 'the whole set misses its floor and no part of it does'}"]
    counterfactual = _counterfactual(blame)
    # Beside the name, both numbers: a blame without them is an opinion.
    said += [counterfactual] if blame.nodes or blame.links or blame.fabric else []
    facts: dict[str, Fact] = {"blame": list(said) or [NOBODY], "counterfactual": counterfactual}
    if blame.seen_once:
        facts["seen_once"] = [
            f"{' + '.join(one.nodes)}: {one.symptom}, once, in {one.stage}" for one in blame.seen_once
        ]
    return facts


def _counterfactual(blame: Blame) -> str:
    if not (blame.nodes or blame.links or blame.fabric):
        return "not needed" if not blame.missed else "nobody to leave out"
    whole = _number(blame.whole_gb_per_s)
    without = _number(blame.without_gb_per_s)
    verdict = "the blame stands" if blame.stands else f"the blame does not stand: {blame.unexplained or 'still low'}"
    return f"with all nodes {whole}, without the blamed {without}: {verdict}"


def _node_words(blamed: NodeBlame) -> str:
    partners = blamed.with_partners
    whom = "by itself" if blamed.alone else f"with {', '.join(partners[:4])}" if partners else "with everybody"
    return f"{blamed.node}: {_often(blamed.intermittent)}{blamed.symptom} {whom}{_rate(blamed.slow_gb_per_s)}"


def _often(intermittent: bool) -> str:
    return "now and then, " if intermittent else ""


def _rate(rate: float | None) -> str:
    return "" if rate is None else f" ({rate:.3g} GB/s)"


def _number(rate: float | None) -> str:
    return "nothing was measured" if rate is None else f"{rate:.3g} GB/s"
