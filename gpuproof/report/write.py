"""Owns the report files of a run's folder and that each is whole or absent; must not know what is in them."""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuproof.report import dispute
from gpuproof.report.html import render_html
from gpuproof.report.json_report import render_json
from gpuproof.report.junit import render_junit
from gpuproof.report.markdown import render_markdown
from gpuproof.report.quarantine import render_quarantine
from gpuproof.report.tables import can_write_parquet, render_csv, write_parquet
from gpuproof.report.textfile import render_textfile
from gpuproof.report.view import RunView

RENDERED: Mapping[str, Callable[[RunView], str]] = {
    "report.html": render_html,
    "report.json": render_json,
    "junit.xml": render_junit,
    "results.csv": render_csv,
    "summary.md": render_markdown,
    "metrics.prom": render_textfile,
    "quarantine.json": render_quarantine,
}
"""Every report that is computed from the record alone, by its name."""

PARQUET = "results.parquet"
"""Written where the extra `gpuproof[parquet]` is there."""

MANIFESTS = "manifests"


@dataclass(frozen=True)
class ReportPaths:
    """Where the reports of one run are."""

    html: Path
    json: Path
    junit: Path


def write_reports(view: RunView, directory: Path) -> ReportPaths:
    """Write every report, and a dispute pack a failure, into `directory`, made if absent; raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, render in RENDERED.items():
        replace_file(directory / name, render(view))
    _write_parquet(view, directory)
    _write_packs(view, directory)
    return ReportPaths(directory / "report.html", directory / "report.json", directory / "junit.xml")


def _write_parquet(view: RunView, directory: Path) -> None:
    if not can_write_parquet():
        # What an earlier rendering left would not be of this record.
        (directory / PARQUET).unlink(missing_ok=True)
        return
    temporary = directory / f".{PARQUET}.{os.getpid()}.part"
    try:
        write_parquet(view, temporary)
        temporary.replace(directory / PARQUET)
    finally:
        temporary.unlink(missing_ok=True)


def _write_packs(view: RunView, directory: Path) -> None:
    folder = directory / dispute.FOLDER
    if folder.exists():
        shutil.rmtree(folder)
    for pack in dispute.packs(view, dispute.read_manifests(directory / MANIFESTS)):
        place = folder / pack.name
        place.mkdir(parents=True, exist_ok=True)
        for name, text in pack.files.items():
            replace_file(place / name, text)


def replace_file(path: Path, text: str) -> None:
    """Write a file as a whole or not at all; raises OSError."""
    # A reader, or a kill in the middle, sees the old file or the new one, never half of one.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_text(text, encoding="utf-8", newline="\n")
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
