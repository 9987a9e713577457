"""Owns results.csv and results.parquet: every number and finding of a run, one a row; must not know HTML."""

import io
from collections.abc import Iterable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
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


def can_write_parquet() -> bool:
    """Say whether the extra `gpuproof[parquet]` is there."""
    return find_spec("fastparquet") is not None


def write_parquet(view: RunView, path: Path) -> None:
    """Write the table of results.csv with its types; the extra must be there. Raises OSError."""
    _fastparquet().write(str(path), _typed(view), write_index=False, compression="SNAPPY")


def holds_parquet(view: RunView, path: Path) -> bool:
    """Say whether a parquet file holds this run's table; False for one that cannot be read. The extra must be there."""
    try:
        # Read here: given a path it would leave the file open.
        found = _fastparquet().ParquetFile(io.BytesIO(path.read_bytes())).to_pandas()
    except (OSError, ValueError, TypeError, LookupError, RuntimeError, EOFError):
        return False
    wanted = _typed(view)
    if list(found.columns) != list(wanted.columns) or len(found) != len(wanted):
        return False
    return all(list(found[column].astype(str)) == list(wanted[column].astype(str)) for column in wanted.columns)


def _fastparquet() -> Any:
    # pandas' own way to it will go; a tenth of a second that only who writes parquet needs.
    return import_module("fastparquet")


def _typed(view: RunView) -> pd.DataFrame:
    table = frame(view)
    for column in table.columns:
        if column in ("value", "margin"):
            table[column] = pd.to_numeric(table[column]).astype("float64")
        elif column == "required":
            table[column] = table[column].astype("bool")
        else:
            # A word for what is not known: a column of one type is what every reader of parquet takes.
            texts = ["" if pd.isna(value) else str(value) for value in table[column]]
            table[column] = pd.array([visible(text, keep_newlines=False) for text in texts], dtype="object")
    return table


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
