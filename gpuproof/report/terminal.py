"""Owns what a run looks like in a terminal or a log while it goes on and at its end; must not know who runs it.

It is fed the record's own lines, the moment they are recorded.
"""

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from gpuproof.report.events import WaiverFacts
from gpuproof.report.layout import groups
from gpuproof.report.view import RunView
from gpuproof.report.wording import duration, listed, plural, utc, visible
from gpuproof.report.words import MEANINGS, SIGNS, VERDICTS, spoken

STYLES: Mapping[str, str] = {
    "PASS": "green",
    "FAIL": "bold red",
    "ERROR": "bold magenta",
    "NOT_RUN": "yellow",
    "NOT_APPLICABLE": "dim",
    "RECORDED": "blue",
    "ACCEPTED": "bold white on green",
    "REJECTED": "bold white on red",
    "UNDECIDED": "bold black on yellow",
}
_PHASES: Mapping[str, str] = {
    "run_started": "starting",
    "inventory": "inventory read",
    "planned": "planned",
    "job_started": "job submitted, waiting for pods",
    "measurement": "measuring",
    "failure": "measuring",
    "verdict": "judging",
    "interrupted": "interrupted, collecting what is there",
    "cleanup": "cleaning up",
    "decision": "decided",
    "run_finished": "finished",
}
_LAST_SHOWN = 6
MOST_REASONS = 8

Clock = Callable[[], datetime]


def _now() -> datetime:
    return datetime.now(UTC)


class Progress:
    """Follows a run: call `take` with every line of the record, inside a `with` block.

    On a terminal one live panel is redrawn; anywhere else, or if `plain`, each verdict is one line, flushed at once.
    If `quiet` nothing is shown.
    `run_deadline_s` is how long the run may take at most; the time left is shown where it is known.
    """

    def __init__(
        self,
        console: Console,
        *,
        run_deadline_s: float | None = None,
        quiet: bool = False,
        plain: bool = False,
        clock: Clock = _now,
    ) -> None:
        self._console = console
        self._deadline_s = run_deadline_s
        self._quiet = quiet
        self._lines_only = plain
        self._clock = clock
        self._started = clock()
        self._phase = "starting"
        self._title = Text("gpuproof")
        self._planned: set[tuple[str, str]] = set()
        self._done: dict[tuple[str, str], str] = {}
        self._measured: set[tuple[str, str]] = set()
        self._last: list[Text] = []
        self._live: Live | None = None
        self._own_file: TextIO | None = None
        # Lines come from the threads that watch sweeps, the panel is drawn by a thread of rich's own.
        self._lock = threading.Lock()

    def ends_within(self, seconds: float) -> None:
        """Say how long the run may take from its start, once that is known."""
        self._deadline_s = seconds

    def __enter__(self) -> "Progress":
        self._console, self._own_file = _beside_capture(self._console)
        if self._console.is_terminal and not self._console.is_dumb_terminal and not (self._quiet or self._lines_only):
            self._live = Live(
                console=self._console,
                refresh_per_second=4,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
                get_renderable=self.panel,
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._own_file is not None:
            self._own_file.close()

    def take(self, line: Mapping[str, Any]) -> None:
        """Show one line of the record, from any thread; a line without a known event changes nothing."""
        with self._lock:
            self._take(line)

    def _take(self, line: Mapping[str, Any]) -> None:
        event = line.get("event")
        self._phase = _PHASES.get(str(event), self._phase)
        match event:
            case "run_started":
                self._title = _title(line)
                self._plain(self._title)
            case "planned":
                self._planned.update((str(s["check"]), str(s["subject"])) for s in line.get("subjects", ()))
                self._plain(Text(f"planned: {plural(len(self._planned), 'answer')}"))
            case "job_started":
                again = " (follow-up)" if line.get("follow_up") else ""
                self._plain(Text(visible(f"job {line.get('job', '')} for {line.get('check', '')}{again}")))
            case "measurement" | "failure":
                self._measured.add((str(line.get("check")), str(line.get("subject"))))
            case "verdict":
                self._take_verdict(line)
            case "interrupted":
                self._plain(Text(visible(f"interrupted by {line.get('signal')}: no new work, collecting"), "yellow"))
            case "cleanup" if not line.get("deleted"):
                left = visible(f"namespace {line.get('namespace')} is still there: run `gpuproof clean`")
                self._plain(Text(left, "bold red"))

    def _take_verdict(self, line: Mapping[str, Any]) -> None:
        key = str(line.get("check")), str(line.get("subject"))
        self._done[key] = str(line.get("verdict"))
        text = _verdict_text(line)
        planned = len(self._planned) or len(self._done)
        self._plain(Text(f"[{len(self._done):>{len(str(planned))}}/{planned}] ") + text)
        if line.get("verdict") != "PASS":
            self._last = [*self._last, _one_line(text)][-_LAST_SHOWN:]

    def _plain(self, text: Text) -> None:
        if self._live is None and not self._quiet:
            _print(self._console, text)

    def panel(self) -> RenderableType:
        """Return what the live view shows now, from any thread."""
        with self._lock:
            return self._drawn()

    def _drawn(self) -> RenderableType:
        planned, done = len(self._planned), len(self._done)
        elapsed = (self._clock() - self._started).total_seconds()
        # Every line fits into 80 columns: a panel that wraps jumps about as its numbers grow.
        phase = Text.assemble((self._phase, "bold"), (f"   {duration(elapsed)} gone{self._left(elapsed)}", "dim"))
        bar = Table.grid(padding=(0, 2))
        bar.add_row(
            ProgressBar(total=max(planned, 1), completed=done, width=36),
            Text(f"{done} of {planned} answered, {len(self._measured)} measured"),
        )
        return Group(_one_line(self._title), phase, bar, _counts(Counter(self._done.values())), *self._last)

    def _left(self, elapsed_s: float) -> str:
        if self._deadline_s is None:
            return ""
        return f", at most {duration(max(0.0, self._deadline_s - elapsed_s))} left"


def _one_line(text: Text) -> Text:
    """Return the text cut with an ellipsis where the terminal is too narrow for it; the report has all of it."""
    cut = text.copy()
    cut.no_wrap, cut.overflow = True, "ellipsis"
    return cut


def _beside_capture(console: Console) -> tuple[Console, TextIO | None]:
    """Return a console on a copy of standard output: pytest takes the original for itself while a check runs."""
    if not isinstance(sys.stdout, TextIOWrapper) or console.file is not sys.stdout:
        return console, None
    try:
        binary = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    except (OSError, ValueError):
        return console, None
    file = TextIOWrapper(binary, encoding=sys.stdout.encoding, errors="replace", line_buffering=True)
    # The size is read now: with its descriptors taken, rich would find no terminal to ask.
    size = console.size
    return Console(file=file, force_terminal=console.is_terminal, width=size.width, height=size.height), file


def _print(console: Console, text: Text) -> None:
    if not console.encoding.startswith("utf"):
        # A log in an old encoding gets a question mark for a sign, never a traceback.
        text = Text(text.plain.encode(console.encoding, "replace").decode(console.encoding))
    console.print(text, soft_wrap=True, highlight=False)


def _title(line: Mapping[str, Any]) -> Text:
    cluster, profile = line.get("cluster") or {}, line.get("profile") or {}
    text = Text(visible(f"gpuproof {line.get('gpuproof', '')} run {line.get('run_id', '')}: "))
    text.append(visible(f"{cluster.get('name', 'unknown cluster')} against {profile.get('name', 'unknown profile')}"))
    if cluster.get("simulated") is True:
        text.append(" SIMULATED", "bold magenta")
    return text


def _verdict_text(line: Mapping[str, Any]) -> Text:
    verdict = str(line.get("verdict"))
    text = Text.assemble((f"{SIGNS.get(verdict, '?')} {spoken(verdict):<7}", STYLES.get(verdict, "")), " ")
    text.append(visible(f"{line.get('check')} {line.get('subject')}", keep_newlines=False))
    reasons = line.get("reasons") or ()
    if verdict != "PASS" and reasons:
        text.append(f": {visible(str(reasons[0]), keep_newlines=False)}")
    return text


def _counts(counts: Mapping[str, int]) -> Text:
    parts = [
        Text(f"{SIGNS[verdict]} {counts[verdict]} {spoken(verdict)}", STYLES[verdict])
        for verdict in reversed(VERDICTS)
        if counts.get(verdict)
    ]
    return Text("   ").join(parts) if parts else Text("no verdict yet", "dim")


def print_summary(console: Console, view: RunView, report: Path | None = None) -> None:
    """Print the end of a run: decision, scope, counts, first reasons, what did not pass and where the report is."""
    decision = view.decision
    console.print()
    head = Text(f" {SIGNS[decision.outcome]} {decision.outcome} ", STYLES[decision.outcome])
    if view.simulated:
        head = Text.assemble(head, " ", ("SIMULATED cluster", "bold magenta"))
    lines = [head, Text(MEANINGS[decision.outcome]), Text(visible(f"Scope: {decision.scope or 'none recorded'}"))]
    lines.append(_counts({str(verdict): count for verdict, count in view.counts.items()}))
    lines += [Text(f"- {visible(reason)}") for reason in decision.reasons[:MOST_REASONS]]
    if len(decision.reasons) > MOST_REASONS:
        lines.append(Text(f"- and {len(decision.reasons) - MOST_REASONS} more reasons in the report"))
    lines += _group_lines(view)
    lines += [_waiver_line(waiver) for waiver in view.waivers]
    lines += [Text(f"Problem: {visible(problem)}", "yellow") for problem in view.problems[:3]]
    lines.append(Text(f"Run {view.run.run_id}, {utc(view.run.started_at)}, took {duration(view.run.seconds)}", "dim"))
    if report is not None:
        lines.append(Text(f"Report: {report}", "bold"))
    for line in lines:
        _print(console, line)


def _waiver_line(waiver: WaiverFacts) -> Text:
    state = "Waiver EXPIRED, without effect" if waiver.expired else "Waiver"
    until = waiver.expires or "no date"
    return Text(visible(f"{state}: {waiver.check} on {waiver.subject}, {waiver.owner}, until {until}: {waiver.reason}"))


def _group_lines(view: RunView) -> list[Text]:
    lines: list[Text] = []
    # A recorded reason names its check, verdict and subjects already; only what none of them names is added.
    found = [g for g in groups(view) if not _said(view, f"{g.check.name} is {g.verdict} on ")]
    for group in found[:MOST_REASONS]:
        which = listed([visible(subject.subject, keep_newlines=False) for subject in group.subjects], most=4)
        text = Text.assemble((f"{SIGNS[group.verdict]} {spoken(group.verdict)}", STYLES[group.verdict]))
        text.append(f"{' (waived)' if group.waived else ''} {group.check.name} on {which}: ")
        text.append(visible(group.reason, keep_newlines=False))
        lines.append(text)
    if len(found) > MOST_REASONS:
        lines.append(Text(f"and {len(found) - MOST_REASONS} more kinds of failure in the report"))
    return lines


def _said(view: RunView, beginning: str) -> bool:
    return any(reason.startswith(beginning) for reason in view.decision.reasons[:MOST_REASONS])
