"""Owns what the runs of a folder say together: a row a run, trends, repeat offenders, the age of acceptances.

Must not know files; a run is a name and its view. Runs on different clusters are never drawn as one line.
"""

import datetime as dt
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuproof.report import charts
from gpuproof.report.bounds import side_of
from gpuproof.report.figures import Figure
from gpuproof.report.fleet import Spread, spreads
from gpuproof.report.html import render_page
from gpuproof.report.quarantine import device_names, failed_nodes
from gpuproof.report.view import RunView
from gpuproof.report.wording import as_utc, natural, number, plural
from gpuproof.report.words import Decision

MOST_RUNS = 200
MOST_TRENDS = 12
MOST_OFFENDERS = 40
MOST_NODES = 400


@dataclass(frozen=True)
class PastRun:
    """One run of the folder; `name` is its folder's."""

    name: str
    view: RunView

    @property
    def cluster(self) -> str:
        """Which cluster it was on, as `cluster_key` tells clusters apart."""
        return cluster_key(self.view.run.cluster.model_dump())

    @property
    def at(self) -> dt.datetime:
        """When it began, in UTC; the beginning of time where the record does not say."""
        started = self.view.run.started_at
        return as_utc(started) if started else dt.datetime.min.replace(tzinfo=dt.UTC)


@dataclass(frozen=True)
class Offender:
    """A node or a GPU that failed in more than one run; `runs` are the names, oldest first."""

    kind: str
    name: str
    checks: tuple[str, ...]
    runs: tuple[str, ...]
    of: int


@dataclass(frozen=True)
class NodeAge:
    """When a node was last part of an accepted run, on its cluster; None where it never was."""

    cluster: str
    node: str
    accepted: dt.datetime | None
    run: str
    days: int | None
    last_outcome: Decision


def cluster_key(cluster: Mapping[str, Any]) -> str:
    """
    Return what tells the cluster of one run from another: its identity where the run tells it, else its name. A
    simulated one goes by its name: `--cluster sim` makes it anew for each run.
    """
    name = str(cluster.get("name", ""))
    return f"simulated {name}" if cluster.get("simulated") is True else str(cluster.get("uid") or name)


def accepted_nodes(view: RunView) -> frozenset[str]:
    """Return the nodes in scope that an accepted run asked and that passed; none where it was not accepted."""
    if view.decision.outcome != "ACCEPTED":
        return frozenset()
    passed = {s.subject for s in view.subjects if s.planned and s.verdict == "PASS"}
    return frozenset(passed & {node.name for node in view.nodes if node.in_scope})


def oldest_first(runs: Sequence[PastRun]) -> list[PastRun]:
    """Return the last runs in the order in which they began."""
    return sorted(runs, key=lambda run: (run.at, run.name))[-MOST_RUNS:]


def offenders(runs: Sequence[PastRun]) -> tuple[Offender, ...]:
    """Return the nodes and GPUs that failed a required check in two runs or more, the most frequent first."""
    found: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(dict)
    seen: dict[tuple[str, str], int] = defaultdict(int)
    for run in runs:
        facts: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for subject in run.view.subjects:
            facts[subject.subject] += [measured.facts for measured in subject.measurements]
        failed = failed_nodes(run.view)
        for node in (node.name for node in run.view.nodes if node.in_scope):
            names = [("node", node), *(("GPU", name) for name in device_names(facts[node]))]
            for key in names:
                seen[key] += 1
                if node in failed:
                    # Which of a node's GPUs it was, a verdict of the node does not say: all of them were there.
                    found[key].setdefault(run.name, set()).update(s.check for s in failed[node])
    rows = [
        Offender(kind, name, tuple(sorted(set().union(*by_run.values()))), tuple(by_run), seen[kind, name])
        for (kind, name), by_run in found.items()
        if len(by_run) > 1
    ]
    return tuple(sorted(rows, key=lambda row: (-len(row.runs), row.kind != "node", natural(row.name)))[:MOST_OFFENDERS])


def node_ages(runs: Sequence[PastRun], now: dt.datetime) -> tuple[NodeAge, ...]:
    """Return for every node of the last run on each cluster when it was last accepted, the longest ago first."""
    last: dict[str, PastRun] = {run.cluster: run for run in runs}
    accepted: dict[tuple[str, str], PastRun] = {}
    for run in runs:
        for name in accepted_nodes(run.view):
            accepted[run.cluster, name] = run
    rows = [
        _age(run, node.name, accepted.get((cluster, node.name)), now)
        for cluster, run in last.items()
        for node in run.view.nodes
        if node.in_scope
    ]
    oldest = sorted(rows, key=lambda row: (row.accepted is not None, row.accepted or now, natural(row.node)))
    return tuple(oldest[:MOST_NODES])


def _age(last: PastRun, node: str, accepted: PastRun | None, now: dt.datetime) -> NodeAge:
    name, outcome = last.view.run.cluster.name, last.view.decision.outcome
    if accepted is None:
        return NodeAge(name, node, None, "", None, outcome)
    return NodeAge(name, node, accepted.at, accepted.name, max(0, (now - accepted.at).days), outcome)


def trends(runs: Sequence[PastRun]) -> tuple[Figure, ...]:
    """Return a line over the runs for each metric with a floor or a ceiling, one line a cluster, median of each run."""
    values: dict[tuple[str, str, str, str], dict[str, list[tuple[int, Spread]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    judged: set[tuple[str, str]] = set()
    for place, run in enumerate(runs, start=1):
        for limit in run.view.limits.values():
            if limit.metric and isinstance(limit.bound, str) and side_of(limit.bound) in ("at least", "at most"):
                judged.add((limit.check, limit.metric))
        measured = [m for subject in run.view.subjects for m in subject.measurements]
        for spread in spreads(measured):
            key = spread.check, spread.metric, spread.unit, spread.point
            values[key][run.cluster].append((place, spread))
    drawn = [
        (key, by_cluster)
        for key, by_cluster in values.items()
        if key[:2] in judged and max(len(found) for found in by_cluster.values()) > 1
    ]
    return tuple(_trend(key, by_cluster, runs) for key, by_cluster in drawn[:MOST_TRENDS])


def _trend(
    key: tuple[str, str, str, str], by_cluster: dict[str, list[tuple[int, Spread]]], runs: Sequence[PastRun]
) -> Figure:
    check, metric, unit, point = key
    names = {run.cluster: run.view.run.cluster.name for run in runs}
    lines = [
        charts.Line(names[cluster], tuple((float(place), spread.median) for place, spread in found))
        for cluster, found in by_cluster.items()
    ]
    caption = f"{metric} of {check}{f' at {point}' if point else ''}, median of each run"
    last = max((found[-1] for found in by_cluster.values()), key=lambda each: each[0])[1]
    note = f"The last: {number(last.median, unit)}, from {number(last.low)} to {number(last.high)}."
    svg = charts.lines(caption, lines, x_title="run, oldest first", y_title=unit, height=240)
    return Figure(caption, svg, note)


def render_history(runs: Sequence[PastRun], now: dt.datetime, unreadable: Sequence[str] = ()) -> str:
    """Return index.html over runs in the order of `oldest_first`; `unreadable` are folders without a usable record."""
    return render_page(
        "history.html.j2",
        runs=list(reversed(runs)),
        trends=trends(runs),
        offenders=offenders(runs),
        ages=node_ages(runs, now),
        unreadable=list(unreadable),
        now=now,
        said=plural(len(runs), "run"),
    )
