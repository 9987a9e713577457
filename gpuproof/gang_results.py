"""From what became of groups of ranks to measurements: bus bandwidths, times, wrong elements, who was stuck and where.

Pure. Owns the names of the network metrics and facts (docs/checks/network.md). It must not know a limit or a pod.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuproof.expectation import Scalar
from gpuproof.failure import JobFailure, Reason
from gpuproof.gang_wire import GroupPart, NodePart, RankProgress, Timed
from workloads.all_reduce import STAGES
from workloads.collectives import bus_factor, busbw_gb_per_s
from workloads.contract import Fact, Measurement, Sample

WORKLOAD = "all_reduce"
MEASURED = "measured"
_STAGE_WORDS = {
    "none": "never started",
    "started": "did not reach the rendezvous",
    "rendezvous": "reached the rendezvous and no communicator",
    "communicator": "had its communicator and finished no size",
    "first_size": "finished sizes, not all",
    "done": "was done",
}


@dataclass(frozen=True)
class Asked:
    """What a group was asked to be: nodes by index of their pod, ranks a node, and which points it was to measure."""

    nodes: Mapping[int, str]
    ranks_per_node: int
    points: tuple[tuple[str, int], ...]

    @property
    def ranks(self) -> int:
        """All ranks."""
        return len(self.nodes) * self.ranks_per_node


def busbw(timed: Timed, ranks: int) -> tuple[float, ...]:
    """Bus bandwidth of each repeat in GB/s, by nccl-tests' definition."""
    return tuple(busbw_gb_per_s(timed.collective, timed.moved_bytes, seconds, ranks) for seconds in timed.seconds)


def refusal(part: GroupPart, asked: Asked) -> JobFailure | None:
    """Why a group that says it measured is not believed: another world, other hosts, points that nobody asked for."""
    if part.outcome != MEASURED:
        return None
    if part.world != asked.ranks:
        said = f"{part.world} ranks took part, expected {asked.ranks} ({asked.ranks_per_node} on each node)"
        return JobFailure(Reason.WRONG_WORLD_SIZE, f"{said}; read the agents' logs")
    if part.hosts != len(asked.nodes):
        said = f"ranks on {part.hosts} nodes took part, expected {len(asked.nodes)}"
        return JobFailure(Reason.WRONG_NODE_COUNT, f"{said}; read the agents' logs")
    found = {(timed.collective, timed.bytes) for timed in part.results}
    if found != set(asked.points):
        lacking = ", ".join(f"{name} at {size} B" for name, size in sorted(set(asked.points) - found)) or "none"
        return JobFailure(Reason.NO_MEASUREMENT, f"not all that was asked for was measured; missing: {lacking}")
    if any(not timed.seconds for timed in part.results):
        return JobFailure(Reason.NO_MEASUREMENT, "a size was measured no time at all; raise iterations in the profile")
    return None


def samples(part: GroupPart, asked: Asked) -> tuple[Sample, ...]:
    """busbw, algbw (GB/s), time (us): medians over the repeats of the slowest rank's time; wrong elements (count)."""
    found = []
    for timed in part.results:
        at: dict[str, Scalar] = {"collective": timed.collective, "bytes": timed.bytes}
        rates = busbw(timed, asked.ranks)
        found += [
            Sample("busbw", statistics.median(rates), "GB/s", at),
            Sample("busbw_spread", _spread(rates), "1", at),
            Sample("algbw", statistics.median(rates) / bus_factor(timed.collective, asked.ranks), "GB/s", at),
            Sample("time", statistics.median(timed.seconds) * 1e6, "us", at),
            Sample("wrong_elements", float(timed.wrong) if timed.wrong >= 0 else math.nan, "count", at),
        ]
    collectives = dict.fromkeys(timed.collective for timed in part.results)
    for collective in collectives:
        medians = [statistics.median(busbw(t, asked.ranks)) for t in part.results if t.collective == collective]
        # What other suites judge by: it depends on the list of sizes, so it is shown and never judged.
        found.append(Sample("busbw_average", statistics.fmean(medians), "GB/s", {"collective": collective}))
    return tuple(found)


def _spread(rates: Sequence[float]) -> float:
    """Largest less smallest over the median: 0 where all repeats were equal."""
    middle = statistics.median(rates)
    return (max(rates) - min(rates)) / middle if math.isfinite(middle) and middle > 0 else math.nan


def node_spread(groups: Sequence[tuple[GroupPart, Asked]], size: int) -> tuple[Sample, ...]:
    """How far nodes alike are apart, alone, at one size: largest less smallest busbw over the median; two at least."""
    rates = [
        statistics.median(busbw(timed, asked.ranks))
        for part, asked in groups
        for timed in part.results
        if (timed.collective, timed.bytes) == ("all_reduce", size)
    ]
    return (Sample("node_spread", _spread(rates), "1"),) if len(rates) > 1 else ()


def outcome_text(part: GroupPart, asked: Asked) -> str:
    """`measured`, or in words what happened instead, where, and how far the ranks came."""
    if part.outcome == MEASURED:
        return MEASURED
    culprits = stuck(part, asked)
    said = [f"{node}: {_said(part.nodes.get(index))}" for index, node in asked.nodes.items() if node in culprits]
    census = ", ".join(f"{count} {words}" for words, count in census_of(part).items())
    tail = f" (of {asked.ranks} ranks {census})" if census else ""
    return f"{part.outcome}: {'; '.join(said) or 'no node says more than the others'}{tail}"


def stuck(part: GroupPart, asked: Asked) -> tuple[str, ...]:
    """The nodes whose part is the worst: lost or died first, else those that came least far; empty if all are equal."""
    worst = [index for index, node in part.nodes.items() if node.outcome in ("lost", "broken")]
    worst = worst or [index for index, node in part.nodes.items() if node.outcome == "died"]
    if not worst:
        reached = {index: _least(node) for index, node in part.nodes.items()}
        worst = [index for index, least in reached.items() if least == min(reached.values())]
        if len(worst) == len(asked.nodes) > 1:
            return ()
    return tuple(asked.nodes[index] for index in sorted(worst) if index in asked.nodes)


def census_of(part: GroupPart) -> dict[str, int]:
    """How many ranks came how far, in words, the least far first."""
    stages = [rank.stage for node in part.nodes.values() for rank in node.census.values()]
    ordered = ("none", *STAGES)
    return {_STAGE_WORDS[stage]: stages.count(stage) for stage in ordered if stage in stages}


def _least(node: NodePart) -> tuple[int, int]:
    return min((_rank_progress(rank) for rank in node.census.values()), default=(-1, 0))


def _rank_progress(rank: RankProgress) -> tuple[int, int]:
    place = STAGES.index(rank.stage) if rank.stage in STAGES else -1
    return place, rank.begun


def _said(node: NodePart | None) -> str:
    if node is None:
        return "nothing is known of it"
    if node.outcome == "died":
        causes = [error.cause for error in (*node.errors, *(node.nccl.errors if node.nccl else ()))]
        words = f"rank {node.dead_rank} ended with code {node.exit_code}: {node.said}"
        return f"{words} ({'; '.join(causes)})" if causes else words
    if node.outcome in ("lost", "broken"):
        return node.said or "its agent is lost"
    late = sorted(node.census.items(), key=lambda item: _rank_progress(item[1]))
    if not late:
        return "none of its ranks said anything"
    rank, progress = late[0]
    at = f" (began {progress.at[0]} at {progress.at[1]} B last)" if progress.at else ""
    return f"rank {rank} {_STAGE_WORDS.get(progress.stage, progress.stage)}{at}"


def measurement(
    part: GroupPart, asked: Asked, run_id: str, node: str = "", *, extra: Sequence[Sample] = ()
) -> Measurement:
    """One group as a measurement. Versions of its nodes become the environment."""
    versions: dict[str, set[str]] = {}
    for one in part.nodes.values():
        for name, version in one.versions.items():
            versions.setdefault(name, set()).add(version)
    return plain(
        run_id,
        world_size=part.world,
        hosts=part.hosts,
        node=node,
        samples=(*samples(part, asked), *extra),
        facts={"outcome": outcome_text(part, asked), "versions_differ": _differing(versions)},
        environment={name: ", ".join(sorted(found)) for name, found in versions.items()},
    )


def _differing(versions: Mapping[str, set[str]]) -> str:
    apart = [f"{name}: {', '.join(sorted(found))}" for name, found in sorted(versions.items()) if len(found) > 1]
    return "; ".join(apart) or "none"


def plain(
    run_id: str,
    *,
    world_size: int,
    hosts: int,
    node: str = "",
    samples: Sequence[Sample] = (),
    facts: Mapping[str, Fact] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Measurement:
    """A measurement of the gang with these samples and facts."""
    return Measurement(
        workload=WORKLOAD,
        run_id=run_id,
        node=node,
        pod="",
        world_size=world_size,
        hosts=hosts,
        samples=tuple(samples),
        facts=dict(facts or {}),
        environment=dict(environment or {}),
    )
