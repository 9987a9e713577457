"""Owns summary.md: the decision and what did not pass, for a pull request or a pipeline's summary page.

Must not let a text of the run act: no markup, link or mention in it survives, whoever wrote it.
"""

import re
from collections.abc import Iterable

from gpuproof.report.advice import next_step
from gpuproof.report.layout import groups, replaced_limits, uncovered
from gpuproof.report.view import RunView
from gpuproof.report.wording import duration, listed, plural, utc, visible
from gpuproof.report.words import MEANINGS, SIGNS, spoken

MOST_ROWS = 25
MOST_REASONS = 12
_MOST_CHARS = 600
_ACTIVE = re.compile(r"[&<|`*\[\]~@#\\]|(?<!\w)_|_(?!\w)|^>|://|(?<!\w)www\.")


def text(raw: str) -> str:
    """Return a text that shows as it is in Markdown: on one line, capped, every active character as an entity."""
    plain = " ".join(visible(raw).split())
    plain = plain if len(plain) <= _MOST_CHARS else plain[:_MOST_CHARS] + "…"
    return _ACTIVE.sub(lambda found: "".join(f"&#{ord(c)};" for c in found.group()), plain)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return a table as lines; cells are taken as they are."""
    names = list(head)
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    return lines + [f"| {' | '.join(row)} |" for row in rows]


def render_markdown(view: RunView) -> str:
    """Return summary.md."""
    decision, run = view.decision, view.run
    simulated = " (SIMULATED)" if view.simulated else ""
    lines = [f"## {SIGNS[decision.outcome]} {decision.outcome}{simulated}", "", MEANINGS[decision.outcome], ""]
    if view.simulated:
        lines += ["**Simulated cluster: no number here was measured on the hardware it is named after.**", ""]
    lines += [f"**Scope:** {text(decision.scope or 'none recorded')}", ""]
    lines += [f"- {text(reason)}" for reason in decision.reasons[:MOST_REASONS]]
    counted = ", ".join(f"{count} {spoken(verdict)}" for verdict, count in view.counts.items())
    lines += ["", f"**Verdicts:** {counted or 'none'}", ""]
    lines += _not_passed(view)
    notes = [f"not covered: {text(each)}" for each in uncovered(view)]
    notes += [f"{text(limit.id)}: {text(limit.replaced or '')}" for limit in replaced_limits(view)]
    notes += [f"forbids ACCEPTED: {text(limit.blocking or '')}" for limit in view.blocking_limits]
    notes += [f"waiver: {text(f'{w.check} on {w.subject}, {w.owner}: {w.reason}')}" for w in view.waivers]
    notes += [f"problem: {text(problem)}" for problem in view.problems]
    lines += [f"- {note}" for note in notes[:MOST_ROWS]] + ([""] if notes else [])
    lines.append(
        f"Run {text(run.run_id)}, cluster {text(run.cluster.name)}, profile {text(run.profile.name)} "
        f"({text(run.profile.sha256[:12])}), {utc(run.started_at)}, took {duration(run.seconds)}."
    )
    return "\n".join(lines) + "\n"


def _not_passed(view: RunView) -> list[str]:
    found = groups(view)
    if not found:
        return []
    rows = [
        (
            f"{SIGNS[group.verdict]} {spoken(group.verdict)}{' (waived)' if group.waived else ''}",
            text(group.check.name),
            text(listed([subject.subject for subject in group.subjects], 4)),
            text(group.reason),
            text(": ".join(next_step(group.subjects[0]))),
        )
        for group in found[:MOST_ROWS]
    ]
    more = [f"and {plural(len(found) - MOST_ROWS, 'more reason')}"] if len(found) > MOST_ROWS else []
    return [*table(("Verdict", "Check", "Subjects", "Reason", "Next"), rows), *more, ""]
