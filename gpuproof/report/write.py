"""Owns the report files of a run's folder and that each is whole or absent; must not know what is in them."""

import os
from dataclasses import dataclass
from pathlib import Path

from gpuproof.report.html import render_html
from gpuproof.report.json_report import render_json
from gpuproof.report.junit import render_junit
from gpuproof.report.view import RunView


@dataclass(frozen=True)
class ReportPaths:
    """Where the reports of one run are."""

    html: Path
    json: Path
    junit: Path


def write_reports(view: RunView, directory: Path) -> ReportPaths:
    """Write report.html, report.json and junit.xml into `directory`, which is made if absent; raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = ReportPaths(directory / "report.html", directory / "report.json", directory / "junit.xml")
    _replace(paths.html, render_html(view))
    _replace(paths.json, render_json(view))
    _replace(paths.junit, render_junit(view))
    return paths


def _replace(path: Path, text: str) -> None:
    # A reader, or a kill in the middle, sees the old file or the new one, never half of one.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_text(text, encoding="utf-8", newline="\n")
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
