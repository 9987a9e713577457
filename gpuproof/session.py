"""Runs the suite as the `gpuproof run` command does: pytest underneath, a live view on top, the decision's exit code.

`pytest acceptance/ --profile …` is the same run; this adds what a person sees, and no magic.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from rich.console import Console

from gpuproof import plugin
from gpuproof.catalogue import ACCEPTANCE
from gpuproof.decision import exit_code
from gpuproof.items import LAUNCHED
from gpuproof.launch import Launched
from gpuproof.record import read_record
from gpuproof.report import RunView
from gpuproof.report.terminal import Progress, print_summary
from gpuproof.run_folder import RECORD

USAGE, UNDECIDED = 2, 3


class _Bridge:
    """Hands the record's lines to the live view, and keeps the run for afterwards."""

    def __init__(self, progress: Progress, argv: Sequence[str]) -> None:
        self._progress = progress
        self._argv = tuple(argv)
        self.launched: Launched | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Before the plugin launches anything."""
        config.stash[plugin.LISTENER] = self._progress.take
        config.stash[plugin.ARGV] = self._argv

    def pytest_collection(self, session: pytest.Session) -> None:
        """After it has launched."""
        self.launched = session.config.stash.get(LAUNCHED, None)
        if self.launched is not None:
            self._progress.ends_within(self.launched.run.setting.profile.deadlines.run_s)


def run_suite(
    arguments: Sequence[str], private: Sequence[Path], argv: Sequence[str], *, quiet: bool, plain: bool
) -> int:
    """Run the checks; the exit code of the decision, 2 where no run could start."""
    for folder in private:
        if not folder.is_dir():
            sys.stderr.write(f"gpuproof: --private-checks {folder}: no such folder\n")
            return USAGE
    console = Console()
    with Progress(console, quiet=quiet, plain=plain) as progress:
        bridge = _Bridge(progress, argv)
        with _only_own_plugins():
            code = pytest.main(_command(arguments, private), plugins=[bridge])
    launched = bridge.launched
    if code == pytest.ExitCode.USAGE_ERROR:
        return USAGE
    if launched is None or launched.run.decision is None:
        return UNDECIDED
    view = RunView.from_record(read_record(launched.directory / RECORD))
    with contextlib.suppress(OSError, SystemExit):  # a closed pipe must not change the exit code
        print_summary(console, view, launched.reports.html if launched.reports else None)
    return exit_code(launched.run.decision.outcome)


def _command(arguments: Sequence[str], private: Sequence[Path]) -> list[str]:
    # pytest's own terminal would print every verdict a second time, beside the live view.
    files = [str(ACCEPTANCE), *(str(folder.resolve()) for folder in private)]
    settings = ["-c", str(ACCEPTANCE / "pytest.toml"), "--rootdir", str(ACCEPTANCE)]
    plugins = ["-p", "pytest_metadata.plugin", "-p", "pytest_html.plugin", "-p", "gpuproof.plugin", "-p", "no:terminal"]
    return [*files, *settings, *plugins, *arguments]


@contextlib.contextmanager
def _only_own_plugins() -> Iterator[None]:
    """Whatever else is installed or set beside us must not reorder, repeat, resume or distribute the checks."""
    names = ("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "PYTEST_ADDOPTS", "PYTEST_PLUGINS")
    before = {name: os.environ.pop(name) for name in names if name in os.environ}
    os.environ[names[0]] = "1"
    try:
        yield
    finally:
        os.environ.pop(names[0])
        os.environ.update(before)
