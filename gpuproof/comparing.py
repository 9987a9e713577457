"""Commands over several runs that are over: compare and history. They read folders and judge no run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from gpuproof.acceptances import past_run
from gpuproof.options import LaunchError
from gpuproof.record import RecordError, read_record
from gpuproof.report import RunView
from gpuproof.report.compare import Judging, compare
from gpuproof.report.compare_page import (
    LOOKS,
    MEANINGS,
    render_compare_html,
    render_compare_json,
    render_compare_markdown,
)
from gpuproof.report.history import PastRun, oldest_first, render_history
from gpuproof.report.prices import PricesError, costs, read_prices
from gpuproof.report.terminal import STYLES
from gpuproof.report.wording import visible
from gpuproof.report.words import SIGNS
from gpuproof.report.write import replace_file
from gpuproof.run_folder import RECORD


def compare_runs(directories: Sequence[Path], out: Path | None, prices: Path | None, judging: Judging) -> int:
    """Compare the last run with those before it and write the comparison; its own exit code."""
    if len(directories) < 2:
        raise LaunchError("compare needs two runs or more: gpuproof compare BEFORE AFTER")
    runs = [_view(directory) for directory in directories]
    names = _names(directories)
    try:
        priced = costs(read_prices(prices), runs) if prices is not None else ()
    except PricesError as error:
        raise LaunchError(str(error)) from error
    found = compare(runs[:-1], runs[-1], judging)
    folder = out or directories[-1].resolve().parent / f"compare-{directories[-1].resolve().name}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / "compare.html", render_compare_html(found, names, runs, priced))
        replace_file(folder / "compare.json", render_compare_json(found, names, priced))
        replace_file(folder / "compare.md", render_compare_markdown(found, names, priced))
    except OSError as error:
        raise LaunchError(f"the comparison could not be written to {folder}: {error}") from error
    console, look = Console(), LOOKS[found.outcome]
    console.print(Text(f" {SIGNS[look]} {found.outcome} ", STYLES[look]))
    console.print(MEANINGS[found.outcome], soft_wrap=True)
    for reason in found.reasons:
        console.print(Text(f"- {visible(reason)}"), soft_wrap=True)
    for cost in priced:
        values = ", ".join(
            f"{name} {'not known' if value is None else f'{value:.4g}'}"
            for name, value in zip(names, cost.each, strict=True)
        )
        console.print(Text(visible(f"{cost.unit} [{cost.currency}]: {values}")), soft_wrap=True)
    console.print(f"Comparison: {folder / 'compare.html'}", style="bold", soft_wrap=True)
    return found.exit_code


def write_history(folder: Path, out: Path | None) -> int:
    """Write index.html over the runs of a folder; 0, also where the last of them was rejected."""
    if not folder.is_dir():
        raise LaunchError(f"{folder}: no such folder of runs")
    runs: list[PastRun] = []
    unreadable: list[str] = []
    for record in sorted(folder.glob(f"*/{RECORD}")):
        run = past_run(record.parent)
        if run is None:
            unreadable.append(record.parent.name)
        else:
            runs.append(run)
    page = (out or folder) / "index.html"
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        replace_file(page, render_history(oldest_first(runs), dt.datetime.now(dt.UTC), unreadable))
    except OSError as error:
        raise LaunchError(f"the history could not be written to {page}: {error}") from error
    Console().print(f"{len(runs)} runs: {page}", soft_wrap=True)
    return 0


def _view(directory: Path) -> RunView:
    record = directory if directory.is_file() else directory / RECORD
    try:
        return RunView.from_record(read_record(record))
    except (OSError, RecordError) as error:
        raise LaunchError(f"{directory} holds no run that can be read: {error}") from error


def _names(directories: Sequence[Path]) -> list[str]:
    """The runs' folders by the shortest name that tells them apart."""
    paths = [path.resolve() for path in directories]
    short = [path.name for path in paths]
    return short if len(set(short)) == len(short) else [str(path) for path in directories]
