"""Owns how the simulation's results are shown and held against the targets; must not know how they came about."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuproof.localisation import rounds_at_most
from tests.localisation.one_job import Bill
from tests.localisation.scenarios import Scenario
from tests.localisation.scoring import Score
from tests.localisation.simulate import Total

RIGHT_AT_LEAST, WRONG_AT_MOST = 0.99, 0.001
WALL_AT_MOST, NODE_MINUTES_AT_MOST = 0.5, 0.25


@dataclass(frozen=True)
class Row:
    """All clusters of one kind and size."""

    scenario: Scenario
    nodes: int
    total: Total


@dataclass(frozen=True)
class Comparison:
    """The gang against one job a probe, under the same costs."""

    cluster: str
    after_whole: bool
    jobs: float
    rounds: float
    jobs_s: float
    jobs_node_min: float
    gang_s: float
    gang_node_min: float

    @staticmethod
    def of(cluster: str, bills: Sequence[Bill], nodes: int, gang_s: float, *, after_whole: bool) -> "Comparison":
        """Average the bills; the gang holds all its nodes all the time."""
        count = len(bills)
        return Comparison(
            cluster=cluster,
            after_whole=after_whole,
            jobs=sum(bill.jobs for bill in bills) / count,
            rounds=sum(bill.rounds for bill in bills) / count,
            jobs_s=sum(bill.wall_s for bill in bills) / count,
            jobs_node_min=sum(bill.node_s for bill in bills) / count / 60,
            gang_s=gang_s,
            gang_node_min=gang_s * nodes / 60,
        )


def targets(rows: Iterable[Row], compared: Iterable[Comparison]) -> tuple[bool, list[str]]:
    """Return whether every target is met, and a table that says so one by one."""
    counted = [row for row in rows if row.scenario.counts]
    asked = sum(row.total.missed for row in counted)
    right = sum(row.total.scores[Score.RIGHT] for row in counted)
    wrong = sum(row.total.scores[Score.WRONG] for row in counted)
    about = [row for row in counted if row.scenario.about_nodes]
    bounded = sum(row.total.within_bound * row.total.missed for row in about) / max(
        1, sum(r.total.missed for r in about)
    )
    typical = max((row.total.rounds_median - rounds_at_most(row.nodes) for row in about), default=0)
    after = [one for one in compared if one.after_whole]
    wall = max(one.gang_s / one.jobs_s for one in after)
    minutes = max(one.gang_node_min / one.jobs_node_min for one in after)
    lines = [
        (
            "exactly what is wrong is named and stands",
            ">= 99 %",
            f"{right / asked:.2%} of {asked}",
            right / asked >= 0.99,
        ),
        ("something healthy is named", "<= 0.1 %", f"{wrong / asked:.3%}", wrong / asked <= WRONG_AT_MOST),
        ("steady bad nodes: median rounds", "<= 4 + log2(n/8)", f"{typical:+d} at the worst size", typical <= 0),
        ("the same: clusters within the bound", "all", f"{bounded:.2%}", bounded >= 1.0),
        ("232 nodes, 5 bad, after the whole set: wall time", "<= 50 %", f"{wall:.0%}", wall <= WALL_AT_MOST),
        ("the same: node-minutes", "<= 25 %", f"{minutes:.0%}", minutes <= NODE_MINUTES_AT_MOST),
    ]
    table = ["| target | bound | simulated | met |", "|---|---|---|---|"]
    table += [f"| {what} | {bound} | {value} | {'yes' if met else '**no**'} |" for what, bound, value, met in lines]
    return all(met for *_, met in lines), table


def row_table(rows: Iterable[Row]) -> list[str]:
    """Return the table of all kinds and sizes."""
    lines = [
        "| kind of cluster | nodes | clusters | met | right | open | wrong | rounds (bound) | s | node-min |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: (not row.scenario.counts, row.scenario.name, row.nodes)):
        seen, scores = row.total, row.total.scores
        counts = " | ".join(str(scores[score]) for score in (Score.MET, Score.RIGHT, Score.OPEN, Score.WRONG))
        bound = f" ({rounds_at_most(row.nodes)})" if row.scenario.about_nodes else ""
        rounds = f"{seen.rounds_median} / {seen.rounds_99} / {seen.rounds_most}{bound}" if seen.missed else ""
        spent = f"{seen.wall_s:.0f} | {seen.node_min:.0f}" if seen.missed else " | "
        lines.append(f"| {row.scenario.name} | {row.nodes} | {seen.clusters} | {counts} | {rounds} | {spent} |")
    return lines


def comparison_table(compared: Iterable[Comparison]) -> list[str]:
    """Return the table of the gang against one job a probe."""
    lines = [
        "| costs | from | jobs | rounds of jobs | jobs: s / node-min | gang: s / node-min | wall | node-minutes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in compared:
        start = "the missed whole set" if one.after_whole else "nothing"
        jobs = f"{one.jobs:.0f} | {one.rounds:.1f} | {one.jobs_s:.0f} / {one.jobs_node_min:.0f}"
        gang = f"{one.gang_s:.0f} / {one.gang_node_min:.0f}"
        shares = f"{one.gang_s / one.jobs_s:.0%} | {one.gang_node_min / one.jobs_node_min:.0%}"
        lines.append(f"| {one.cluster} | {start} | {jobs} | {gang} | {shares} |")
    return lines
