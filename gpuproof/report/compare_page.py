"""Owns compare.html, compare.json and compare.md: a comparison as it is read; must not compute any of it."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

from gpuproof.report.compare import Comparison, MetricChange, Movement, Outcome
from gpuproof.report.html import render_page
from gpuproof.report.markdown import table, text
from gpuproof.report.prices import Cost
from gpuproof.report.view import RunView
from gpuproof.report.wording import number, scrubbed, visible
from gpuproof.report.words import spoken

SCHEMA_VERSION: Final = "1.0"
MEANINGS: Final[Mapping[Outcome, str]] = {
    "REGRESSED": "Something got worse by more than noise.",
    "SAME": "Nothing got worse, nothing got better: every difference is within noise.",
    "IMPROVED": "Something got better by more than noise, and nothing got worse.",
    "NOT COMPARABLE": "These runs do not settle whether anything got worse.",
}
# The colours and signs of decisions, which mean the same: good, bad, open.
LOOKS: Final[Mapping[Outcome, str]] = {
    "REGRESSED": "REJECTED",
    "SAME": "ACCEPTED",
    "IMPROVED": "ACCEPTED",
    "NOT COMPARABLE": "UNDECIDED",
}
_ORDER: Final[tuple[Movement, ...]] = (
    *("worse", "too few", "no longer measured", "better", "changed", "newly measured", "within noise"),
)
_MOST_ROWS = 30


def render_compare_html(found: Comparison, names: Sequence[str], runs: Sequence[RunView], costs: Sequence[Cost]) -> str:
    """Return compare.html; `names` are the runs' own, in the same order."""
    return render_page(
        "compare.html.j2",
        found=found,
        names=list(names),
        runs=list(runs),
        costs=list(costs),
        look=LOOKS[found.outcome],
        meaning=MEANINGS[found.outcome],
        grouped=_grouped(found),
    )


def _grouped(found: Comparison) -> list[tuple[Movement, list[MetricChange]]]:
    groups: dict[Movement, list[MetricChange]] = defaultdict(list)
    for metric in found.metrics:
        groups[metric.movement].append(metric)
    return [(word, groups[word]) for word in _ORDER if word in groups]


def render_compare_json(found: Comparison, names: Sequence[str], costs: Sequence[Cost]) -> str:
    """Return compare.json: `outcome` is the answer, `exit_code` that of the command."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "outcome": found.outcome.replace(" ", "_"),
        "exit_code": found.exit_code,
        "runs": list(names),
        "reasons": list(found.reasons),
        "alpha": found.judging.alpha,
        "least_change": found.judging.least_change,
        "verdicts": [{**asdict(change), "kind": change.kind} for change in found.verdicts],
        "metrics": [asdict(metric) for metric in found.metrics],
        "differences": [asdict(each) for each in found.differences],
        "costs": [asdict(cost) for cost in costs],
    }
    return json.dumps(scrubbed(document), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def render_compare_markdown(found: Comparison, names: Sequence[str], costs: Sequence[Cost]) -> str:
    """Return compare.md, fit for a pull request."""
    lines = [f"## {found.outcome}", "", MEANINGS[found.outcome], ""]
    lines += [f"{text(names[-1])} against {text(', '.join(names[:-1]))}", ""]
    lines += [f"- {text(reason)}" for reason in found.reasons] + [""]
    moved = [m for m in found.metrics if m.movement in ("worse", "too few", "better", "changed")]
    if moved:
        head = ("Metric", "At", "Before", "Now", "Change", "")
        lines += [*table(head, [_row(m) for m in moved[:_MOST_ROWS]]), ""]
    if found.verdicts:
        rows = [
            (text(v.check), text(v.subject), spoken(v.before or "not asked"), spoken(v.after or "not asked"), v.kind)
            for v in found.verdicts[:_MOST_ROWS]
        ]
        lines += [*table(("Check", "Subject", "Before", "Now", ""), rows), ""]
    if found.differences:
        rows_of = [(text(d.what), text(d.before), text(d.after)) for d in found.differences]
        lines += [*table(("What else differs", "Before", "Now"), rows_of), ""]
    if costs:
        rows_cost = [
            (text(f"{c.unit} [{c.currency}]"), *("not known" if v is None else number(v) for v in c.each))
            for c in costs
        ]
        lines += [*table(("Cost of", *(text(name) for name in names)), rows_cost), ""]
    return "\n".join(lines) + "\n"


def _row(m: MetricChange) -> tuple[str, ...]:
    before, now = (number(s.median, m.unit) if s else "-" for s in (m.before, m.after))
    share = "" if m.change is None else f"{m.change * 100:+.3g} %"
    return text(f"{m.check} {m.metric}"), text(m.point), visible(before), visible(now), share, m.movement
