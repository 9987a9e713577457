"""The terminal: one plain line a verdict in a log, a live panel on a terminal, and an end that names the report."""

import io
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console

from gpuproof.report import RunView
from gpuproof.report.terminal import Progress, print_summary
from tests.gpuproof.report import synthetic
from tests.gpuproof.report.synthetic import Lines


def log(lines: Lines, *, quiet: bool = False) -> str:
    console = Console(file=io.StringIO(), force_terminal=False, width=80)
    with Progress(console, quiet=quiet) as progress:
        for line in lines:
            progress.take(line)
    return written(console)


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_log_has_one_line_a_verdict_with_its_place_and_reason() -> None:
    text = log(synthetic.run(4, short=["gpu-3"]))

    verdicts = [line for line in text.splitlines() if line.startswith("[")]
    assert len(verdicts) == 8
    assert verdicts[-1].startswith("[8/8] ✓ PASS")
    assert any("✗ FAIL    gpu_inventory gpu-3: gpus_allocatable is 1" in line for line in verdicts)
    assert "\x1b" not in text


def test_log_says_simulated_and_against_what() -> None:
    first = log(synthetic.run(1)).splitlines()[0]

    assert "sim against simulated" in first
    assert "SIMULATED" in first


def test_quiet_log_is_empty() -> None:
    assert log(synthetic.run(4), quiet=True) == ""


def test_hostile_reason_neither_steers_the_terminal_nor_breaks_its_line() -> None:
    lines = synthetic.run(1, unpullable=["gpu-1"])
    bad = next(line for line in lines if line["event"] == "verdict" and line["verdict"] == "ERROR")
    bad["reasons"] = ["\x1b]0;owned\x07[bold]a\nb[/bold]"]

    text = log(lines)

    assert "\x1b" not in text
    assert "[bold]a\\x0ab[/bold]" in text


def test_live_panel_shows_phase_subjects_counts_and_time_left() -> None:
    now = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
    moments = iter([now, *[now + timedelta(seconds=30)] * 1_000])
    console = Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None, _environ={"TERM": "xterm"})
    with Progress(console, run_deadline_s=90, clock=lambda: next(moments)) as progress:
        for line in synthetic.run(4, short=["gpu-3"], killed_after=12):
            progress.take(line)

    text = written(console)
    assert "judging" in text or "measuring" in text
    assert "of 8 answered" in text
    assert "30.0 s gone, at most 1 min 00 s left" in text
    assert "FAIL" in text


def _python(script: str, tmp_path: Path, **environment: str) -> str:
    root = str(Path(__file__).parents[3])
    (tmp_path / "test_inside.py").write_text("import builtins\n\ndef test_inside():\n    builtins.report()\n")
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment},
        capture_output=True,
        timeout=60,
        check=True,
    )
    return done.stdout.decode("utf-8", "replace")


INSIDE_PYTEST = """
import builtins, pytest
from rich.console import Console
from gpuproof.report.terminal import Progress
from tests.gpuproof.report import synthetic

with Progress(Console()) as progress:
    builtins.report = lambda: [progress.take(line) for line in synthetic.run(2)]
    assert pytest.main(["-p", "no:terminal", "-p", "no:cacheprovider", "test_inside.py"]) == 0
"""


def test_lines_reach_the_log_although_pytest_captures_output_while_a_check_runs(tmp_path: Path) -> None:
    assert "[4/4] ✓ PASS    cuda_runtime gpu-2" in _python(INSIDE_PYTEST, tmp_path)


def test_log_in_an_old_encoding_is_no_reason_to_fail(tmp_path: Path) -> None:
    script = """
from rich.console import Console
from gpuproof.report import RunView
from gpuproof.report.terminal import Progress, print_summary
from tests.gpuproof.report import synthetic

with Progress(Console()) as progress:
    [progress.take(line) for line in synthetic.run(1)]
print_summary(Console(), RunView.from_record(synthetic.run(1)))
"""
    text = _python(script, tmp_path, PYTHONIOENCODING="ascii")

    assert "[2/2] ? PASS    cuda_runtime gpu-1" in text
    assert "ACCEPTED" in text


def test_panel_is_drawn_while_many_threads_report() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120, _environ={"TERM": "xterm"})
    verdicts = [line for line in synthetic.run(400) if line["event"] == "verdict"]
    with Progress(console) as progress, ThreadPoolExecutor(4) as pool:
        progress.ends_within(60)
        reported = pool.map(progress.take, verdicts)
        drawn = Console(file=io.StringIO(), width=120)
        for _ in reported:
            drawn.print(progress.panel())
        drawn.print(progress.panel())

    assert "800 PASS" in written(drawn)


def summary(lines: Lines, **environment: str) -> str:
    console = Console(
        file=io.StringIO(), force_terminal=True, width=100, _environ={"TERM": "xterm-256color", **environment}
    )
    print_summary(console, RunView.from_record(lines), Path("reports/x/report.html"))
    return written(console)


def test_summary_has_decision_scope_reasons_subjects_and_the_path() -> None:
    text = summary(synthetic.run(4, short=["gpu-3"]), NO_COLOR="1")

    for part in (
        "✗ REJECTED",
        "Scope: all 4 nodes",
        "gpu_inventory is FAIL on gpu-3:",
        "NOT RUN cuda_runtime on gpu-3:",
        "Report: reports/x/report.html",
        "SIMULATED",
    ):
        assert part in text


def test_summary_of_a_killed_run_is_undecided() -> None:
    text = summary(synthetic.run(4, killed_after=5), NO_COLOR="1")

    assert "? UNDECIDED" in text
    assert "did not finish" in text


def test_summary_keeps_colour_to_itself_when_asked() -> None:
    assert "\x1b[3" not in summary(synthetic.run(4), NO_COLOR="1")
    assert "\x1b[" in summary(synthetic.run(4))


def test_summary_names_waivers_and_what_no_reason_mentions() -> None:
    waiver = {"check": "gpu_inventory", "subject": "gpu-9", "owner": "synthetic owner", "reason": "in repair"}
    waivers = [{**waiver, "expires": "2026-01-01", "expired": True}]
    text = summary(synthetic.run(4, killed_after=8, short=["gpu-1"], waivers=waivers), NO_COLOR="1")

    assert "Waiver EXPIRED, without effect: gpu_inventory on gpu-9, synthetic owner" in text
    assert "gpu_inventory on gpu-1: gpus_allocatable is 1" in text


def test_log_says_what_was_interrupted_and_left_behind() -> None:
    lines = synthetic.run(1, killed_after=3)
    lines.append({"event": "interrupted", "signal": "SIGINT"})
    lines.append({"event": "cleanup", "namespace": "gpuproof-x", "deleted": False, "seconds": 30, "left": ["pod/a"]})

    text = log(lines)

    assert "interrupted by SIGINT" in text
    assert "namespace gpuproof-x is still there" in text
