"""Owns results.csv: every number and finding of a run, one a row; must not know HTML or files."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from gpuproof.report.bounds import margin
from gpuproof.report.events import FindingFacts, Scalar
from gpuproof.report.fleet import PLACE_KEYS
from gpuproof.report.layout import bound_text, outcome_word
from gpuproof.report.view import RunView, SubjectView
from gpuproof.report.wording import as_utc, operating_point, visible

COLUMNS = (
    *("run_id", "started_at", "cluster", "simulated", "profile", "check", "subject", "verdict", "required"),
    *("name", "point", "place", "value", "text", "unit", "bound", "outcome", "margin", "severity", "limit_id"),
)
"""`value` is a number, `text` a word; `point` is how it was measured, `place` where; `margin` a share of the bound."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def frame(view: RunView) -> pd.DataFrame:
    """Return one row a sample and a row a finding that no sample stands for, in the order of the page."""
    started = view.run.started_at
    run = {
        "run_id": view.run.run_id,
        "started_at": as_utc(started).isoformat() if started else "",
        "cluster": view.run.cluster.name,
        "simulated": view.run.cluster.simulated,
        "profile": view.run.profile.name,
    }
    rows = [
        {
            **run,
            "check": subject.check,
            "subject": subject.subject,
            "verdict": subject.verdict,
            "required": subject.required,
            **row,
        }
        for subject in view.subjects
        for row in _rows(subject)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def render_csv(view: RunView) -> str:
    """Return results.csv; a text that a spreadsheet would take for a formula gets an apostrophe before it."""
    table = frame(view)
    for column in table.columns:
        table[column] = [_safe(value) if isinstance(value, str) else value for value in table[column]]
    text: str = table.to_csv(index=False, lineterminator="\n")
    return text


def _safe(text: str) -> str:
    plain = visible(text, keep_newlines=False)
    return f"'{plain}" if plain.startswith(_FORMULA) else plain


def _rows(subject: SubjectView) -> Iterable[dict[str, Any]]:
    judged: dict[tuple[str, str], list[FindingFacts]] = {}
    for finding in subject.findings:
        judged.setdefault((finding.metric or "", operating_point(finding.at)), []).append(finding)
    for measured in subject.measurements:
        for sample in measured.samples:
            about = judged.pop((sample.metric, operating_point(sample.at)), [])
            for judgement in about or (None,):
                yield _row(sample.metric, sample.at, sample.value, sample.unit, judgement)
    for findings in judged.values():
        for finding in findings:
            yield _row(finding.metric or "", finding.at, finding.observed, finding.unit or "", finding)


def _row(name: str, at: Mapping[str, Scalar], value: Any, unit: str, finding: FindingFacts | None) -> dict[str, Any]:
    number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    row = {
        "name": name,
        "point": operating_point({k: v for k, v in at.items() if k not in PLACE_KEYS}),
        "place": operating_point({k: v for k, v in at.items() if k in PLACE_KEYS}),
        "value": number,
        "text": "" if number is not None or value is None else str(value),
        "unit": unit,
    }
    if finding is None:
        return row
    return {
        **row,
        "bound": bound_text(finding.bound),
        "outcome": outcome_word(finding),
        "margin": margin(finding.observed, finding.bound),
        "severity": finding.severity,
        "limit_id": finding.limit_id or "",
    }
